//! A run whose scenario has parts: each is measured by a vioperf of its own, one after the other, and is a run like any
//! other in a directory below.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use vioperf_analysis::wording::count;
use vioperf_lab::libvirt::{self, Virsh};
use vioperf_lab::sandbox::run_beside;
use vioperf_model::plan::Plan;
use vioperf_model::record::{PlannedPart, RunInParts, SCHEMA_VERSION};
use vioperf_model::scenario::Scenario;

use crate::cli::RunArgs;
use crate::exit::{Failure, PartCodes};
use crate::output::Output;
use crate::prepare::{self, spoken};
use crate::progress::now;
use crate::report::{self, parts::Whole};
use crate::scenarios::Found;
use crate::{preflight, store};

/// Measures every part of a scenario that can be had here.
pub fn begin(
    found: Found,
    directory: &Path,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    store::check_vacant(directory).map_err(|error| Failure::Usage(error.into()))?;
    let parts = planned(&found, args)?;
    if parts.iter().all(|part| part.lacks.is_some()) {
        let lacks = parts.iter().filter_map(|part| part.lacks.clone());
        return Err(Failure::Machine(anyhow!(lacks.collect::<Vec<_>>().join("\n"))));
    }
    let whole = RunInParts {
        schema_version: SCHEMA_VERSION,
        vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        command_line: std::env::args().collect(),
        scenario_origin: found.origin,
        scenario: found.scenario,
        parts,
    };
    store::parts::create(directory, &whole)?;
    announce(&whole, output);
    measure(&whole, directory, args, output)
}

/// Goes on with the parts that are not measured yet, and with the one that stopped.
pub fn resume(directory: &Path, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    crate::resume::check_options(args, directory)?;
    let whole = store::parts::read(directory)?;
    measure(&whole, directory, args, output)
}

/// Measures one part; in the process that [`measure`] starts for it.
pub fn measure_one(whole: &Path, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    let info = store::parts::read(whole)?;
    let name = args.scenario.as_deref().unwrap_or_default();
    let part = info.parts.into_iter().find(|part| part.name == name);
    let part = part.ok_or_else(|| anyhow!("{} has no part `{name}`", whole.display()))?;
    let directory = whole.join(&part.name);
    if store::holds_run(&directory) {
        let args = RunArgs { scenario: None, ..args.clone() };
        return super::go_on(&directory, &args, output);
    }
    let PlannedPart { mut scenario, command_line, .. } = part;
    scenario.repeat.budget = args.changes.budget.or(scenario.repeat.budget);
    let found = Found { origin: info.scenario_origin, scenario, parts: Vec::new() };
    super::begin(found, command_line, directory, args, output)
}

/// The parts, each with what keeps it from being measured here; everything is asked before anything is touched.
fn planned(found: &Found, args: &RunArgs) -> Result<Vec<PlannedPart>, Failure> {
    let given = args.scenario.as_deref().unwrap_or_default();
    let names = found.scenario.parts.iter().map(|part| part.name.clone());
    names
        .zip(&found.parts)
        .map(|(name, scenario)| {
            let lacks = lacks_of(scenario, args)?;
            let alone = |word: String| if word == given { format!("{word}/{name}") } else { word };
            let command_line = std::env::args().map(alone).collect();
            Ok(PlannedPart { name, scenario: scenario.clone(), command_line, lacks })
        })
        .collect()
}

fn lacks_of(scenario: &Scenario, args: &RunArgs) -> Result<Option<String>, Failure> {
    // A machine that is there without vioperf is asked when its turn has come; libvirt knows its own.
    if scenario.testbed.server.is_some() {
        let Some(domain) = &scenario.testbed.libvirt else { return Ok(None) };
        let found = libvirt::find(&Virsh::new(domain.uri.as_deref()), &domain.domain);
        return Ok(found.err().map(|error| error.to_string()));
    }
    match preflight::check(scenario.clone(), &args.allow_overwrite) {
        Ok(_) => Ok(None),
        Err(Failure::Machine(why)) => Ok(Some(format!("{why:#}"))),
        Err(failure) => Err(failure),
    }
}

fn announce(whole: &RunInParts, output: &Output) {
    let had = || whole.parts.iter().filter(|part| part.lacks.is_none());
    let times = had().map(|part| {
        let plan = Plan::new(&part.scenario, 0);
        let costs = prepare::likely_costs(part.scenario.guest.accel);
        prepare::estimate(&part.scenario, &plan, costs)
    });
    output.note(format_args!(
        "{}: {}, about {}",
        whole.scenario.name,
        count(had().count(), "part"),
        spoken(times.sum()),
    ));
    for part in &whole.parts {
        if let Some(lacks) = &part.lacks {
            output.warning(format_args!("part {} is left out: {lacks}", part.name));
        }
    }
}

/// Measures what is left of the parts, and reports all.
fn measure(
    whole: &RunInParts,
    directory: &Path,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let mut codes = PartCodes::default();
    for (part, number) in whole.parts.iter().zip(1..).filter(|(part, _)| part.lacks.is_none()) {
        let question = part.scenario.question.as_str();
        output.note(format_args!(
            "\npart {number} of {}: {}: {question}",
            whole.parts.len(),
            part.name
        ));
        let ended = run_beside(&mut command(directory, &part.name, args, output)?)?;
        codes.add(ended.exit_code());
        if codes.is_interrupted() {
            break;
        }
    }
    let reported = Whole::read(directory, output)?;
    let text = if args.json {
        report::parts::json(&reported)
    } else {
        report::parts::terminal(&reported, args.wide, output.colors_results())
    };
    output.result(&text)?;
    super::write_page(directory, &report::parts::html(&reported), false, output);
    if codes.is_interrupted() || reported.is_incomplete() {
        output.note(format_args!("to go on: vioperf run --resume {}", directory.display()));
    }
    Ok(codes.code())
}

/// This program again, for one part.
fn command(
    directory: &Path,
    part: &str,
    args: &RunArgs,
    output: &Output,
) -> Result<Command, Failure> {
    let program = std::env::current_exe().context("cannot find vioperf's own program")?;
    let mut command = Command::new(program);
    command.args(output.options()).arg("run").arg("--part-of").arg(directory).arg(part);
    let flags = [("--no-history", args.no_history), ("--resume-anyway", args.resume_anyway)];
    command.args(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| flag));
    if let Some(budget) = args.changes.budget.filter(|_| args.resume.is_some()) {
        command.arg("--budget").arg(budget.to_string());
    }
    for device in &args.allow_overwrite {
        command.arg("--allow-overwrite").arg(device);
    }
    command.args(args.allowed.options());
    Ok(command)
}
