//! `vioperf plan`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use vioperf_analysis::wording::count;
use vioperf_model::plan::Plan;
use vioperf_model::scenario::Scenario;
use vioperf_model::workload::WorkloadKind;

use crate::cli::PlanArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::prepare;
use crate::store::to_json;

/// Shows the plan.
pub fn execute(args: &PlanArgs, output: &Output) -> Result<ExitCode, Failure> {
    let found = prepare::scenario(&args.scenario, &args.changes)?;
    let plan = prepare::plan(&found.scenario, &BTreeSet::new());
    let text = if args.json { to_json(&plan)? } else { describe(&found.scenario, &plan)? };
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(scenario: &Scenario, plan: &Plan) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let costs = prepare::likely_costs(scenario.guest.accel);
    let estimate = prepare::estimate(scenario, plan, costs);
    let at_most = if scenario.repeat.may_settle() { "at most " } else { "" };
    let is_search = scenario.workload.kind == WorkloadKind::RateSearch;
    writeln!(text, "{}\n{}\n", scenario.name, scenario.question)?;
    writeln!(
        text,
        "{} x {} = {}{} of {}{} + {} warm-up: {}about {}",
        count(plan.cells.len(), "cell"),
        prepare::blocks(&scenario.repeat),
        at_most,
        count(plan.trial_count(), "trial"),
        if is_search { "at most " } else { "" },
        scenario.workload.duration,
        scenario.workload.warmup,
        prepare::at_most(scenario),
        prepare::spoken(estimate),
    )?;
    if let Some(budget) = scenario.repeat.budget {
        writeln!(text, "no block is begun that would not end within {budget}")?;
    }
    writeln!(text, "seed {} (the same order again: --seed {0})", plan.seed)?;
    for (number, block) in plan.blocks.iter().enumerate() {
        writeln!(text, "\nblock {}", number + 1)?;
        for (position, &index) in block.iter().enumerate() {
            writeln!(text, "{:>4}  {}", position + 1, plan.cells[index].id)?;
        }
    }
    Ok(text)
}
