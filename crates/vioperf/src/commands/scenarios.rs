//! `vioperf scenarios`.

use std::fmt::Write as _;
use std::process::ExitCode;

use vioperf_analysis::wording::count;
use vioperf_model::plan::{Costs, Plan};

use crate::cli::ScenariosArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::store::to_json;
use crate::{prepare, scenarios};

/// Lists the built-in scenarios.
pub fn execute(args: &ScenariosArgs, output: &Output) -> Result<ExitCode, Failure> {
    let scenarios = scenarios::built_in()?;
    if args.json {
        output.result(&to_json(&scenarios)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for scenario in scenarios {
        let plan = Plan::new(&scenario, 0);
        let minutes = prepare::estimate(&scenario, &plan, &Costs::TCG).as_secs_f64() / 60.0;
        writeln!(
            text,
            "{}\n  {}\n  {}, {}, about {minutes:.0} min\n",
            scenario.name,
            scenario.question,
            count(plan.cells.len(), "cell"),
            prepare::blocks(&scenario.repeat),
        )?;
    }
    text.push_str("Run one with `vioperf run NAME`; see its order with `vioperf plan NAME`.\n");
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}
