//! `vioperf scenarios`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use vioperf_analysis::wording::count;
use vioperf_model::plan::{Costs, Plan};
use vioperf_model::scenario::Scenario;

use crate::cli::ScenariosArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::scenarios::Found;
use crate::store::to_json;
use crate::{prepare, scenarios};

/// Lists the built-in scenarios.
pub fn execute(args: &ScenariosArgs, output: &Output) -> Result<ExitCode, Failure> {
    let scenarios = scenarios::built_in()?;
    if args.json {
        let written: Vec<&Scenario> = scenarios.iter().map(|found| &found.scenario).collect();
        output.result(&to_json(&written)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for Found { scenario, parts, .. } in &scenarios {
        let measured = if parts.is_empty() { std::slice::from_ref(scenario) } else { parts };
        let plans = measured.iter().map(|own| (own, Plan::new(own, 0)));
        let plans: Vec<(&Scenario, Plan)> = plans.collect();
        let time: Duration =
            plans.iter().map(|(own, plan)| prepare::estimate(own, plan, &Costs::TCG)).sum();
        let cells = plans.iter().map(|(_, plan)| plan.cells.len()).sum();
        let how_often = match parts.len() {
            0 => prepare::blocks(&scenario.repeat),
            parts => format!("in {}", count(parts, "part")),
        };
        writeln!(
            text,
            "{}\n  {}\n  {}, {how_often}, about {:.0} min\n",
            scenario.name,
            scenario.question,
            count(cells, "cell"),
            time.as_secs_f64() / 60.0,
        )?;
    }
    text.push_str("Run one with `vioperf run NAME`; see its order with `vioperf plan NAME`.\n");
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}
