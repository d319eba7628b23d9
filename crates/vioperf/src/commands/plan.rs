//! `vioperf plan`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use vioperf_analysis::wording::count;
use vioperf_model::plan::Plan;
use vioperf_model::scenario::{LEAST_DURATION, LEAST_WARMUP, Scenario};
use vioperf_model::workload::WorkloadKind;

use crate::cli::PlanArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::prepare;
use crate::store::to_json;

/// Shows the plan, or that of every part.
pub fn execute(args: &PlanArgs, output: &Output) -> Result<ExitCode, Failure> {
    let found = prepare::scenario(&args.scenario, &args.changes)?;
    let text = if found.parts.is_empty() {
        let plan = prepare::plan(&found.scenario, &BTreeSet::new());
        if args.json { to_json(&plan)? } else { describe(&found.scenario, &plan)? }
    } else {
        let plans = found.parts.iter().map(|part| prepare::plan(part, &BTreeSet::new()));
        let plans: Vec<(&Scenario, Plan)> = found.parts.iter().zip(plans).collect();
        if args.json { to_json(&named(&plans))? } else { in_parts(&found.scenario, &plans)? }
    };
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The plan of a part, with its scenario's name.
#[derive(Serialize)]
struct NamedPlan<'a> {
    scenario: &'a str,
    plan: &'a Plan,
}

fn named<'a>(plans: &'a [(&'a Scenario, Plan)]) -> Vec<NamedPlan<'a>> {
    plans.iter().map(|(scenario, plan)| NamedPlan { scenario: &scenario.name, plan }).collect()
}

fn in_parts(whole: &Scenario, plans: &[(&Scenario, Plan)]) -> Result<String, std::fmt::Error> {
    let time = |(scenario, plan): &(&Scenario, Plan)| {
        prepare::estimate(scenario, plan, prepare::likely_costs(scenario.guest.accel))
    };
    let all: Duration = plans.iter().map(time).sum();
    let mut text = String::new();
    writeln!(text, "{}\n{}\n", whole.name, whole.question)?;
    writeln!(text, "{}: about {}", count(plans.len(), "part"), prepare::spoken(all))?;
    for (scenario, plan) in plans {
        writeln!(text, "\n{}\n", "=".repeat(80))?;
        text.push_str(&describe(scenario, plan)?);
    }
    Ok(text)
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
    if let Some(scale) = scenario.scale {
        writeln!(
            text,
            "all durations times {scale}; no trial is made shorter than {LEAST_DURATION} by it, no warm-up than {LEAST_WARMUP}"
        )?;
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
