//! `vioperf test`: a load between this machine and one where `vioperf serve` runs, or that ssh gets to.

use std::process::ExitCode;

use anyhow::bail;
use vioperf_analysis::analyse;
use vioperf_model::record::{Outcome, RunEnding, RunInfo, TrialRecord};
use vioperf_model::scenario::Scenario;
use vioperf_model::scenario_file::{self, Override};

use crate::cli::TestArgs;
use crate::conductor::schedule::{Audience, Position};
use crate::exit::{Failure, run_code};
use crate::history;
use crate::live::{Moment, Watch};
use crate::machines::client::{Family, Machine, Target, ToServer, Way};
use crate::machines::measure::{Job, measure};
use crate::machines::ssh::ToMachine;
use crate::machines::token::Token;
use crate::output::Output;
use crate::report;
use crate::store::{self, RunDirectory, StoreError};

/// What the command line's options are put into.
const SCENARIO: &str = "\
name = \"test\"
question = \"What does the network carry?\"
[workload]
kind = \"tcp-stream\"
";

/// A line each second.
struct Lines<'a> {
    output: &'a Output,
}

impl Watch for Lines<'_> {
    fn sees(&self, moment: &Moment) {
        self.output.note(moment.line());
    }

    fn step(&self, step: &str) {
        self.output.status_step(step);
    }
}

/// Measures and reports.
pub fn execute(args: &TestArgs, output: &Output) -> Result<ExitCode, Failure> {
    let scenario = scenario(args)?;
    if let Some(directory) = &args.out {
        store::check_vacant(directory).map_err(|error| Failure::Usage(error.into()))?;
    }
    let lines = Lines { output };
    let job = Job {
        seed: scenario.repeat.seed.unwrap_or(0),
        scenario,
        origin: "the command line".into(),
        way: way(args).map_err(Failure::Usage)?,
        permission: args.domain.permission(),
        output,
        watch: (!args.json).then_some(&lines as &dyn Watch),
    };
    let measured = measure(job, |info| {
        let directory = args.out.as_deref().map(|path| RunDirectory::create(path, info));
        Ok(Keeper { directory: directory.transpose()?, records: Vec::new() })
    })?;
    let code = conclude(&measured.info, measured.audience, args, output)?;
    match measured.not_put_back {
        Some(error) => Err(error.into()),
        None => Ok(code),
    }
}

/// How to get to the other machine, by the options that are for such a way.
fn way(args: &TestArgs) -> anyhow::Result<Way> {
    let destination = match &args.target {
        Machine::Ssh(destination) => destination,
        Machine::Server(target) => return to_server(target, args),
    };
    let for_server = [
        ("--token-file", args.token_file.is_some()),
        ("--tls", args.tls),
        ("--tls-pin", args.tls_pin.is_some()),
        ("-4", args.ipv4),
        ("-6", args.ipv6),
    ];
    if let Some((option, _)) = for_server.iter().find(|(_, given)| *given) {
        bail!(
            "{option} is for a machine where `vioperf serve` runs: leave it out, ssh looks after that"
        );
    }
    let (destination, address) = (destination.clone(), args.address);
    Ok(Way::Ssh(ToMachine { destination, address, patient: false }))
}

fn to_server(target: &Target, args: &TestArgs) -> anyhow::Result<Way> {
    if args.address.is_some() {
        bail!("--address is for a machine behind ssh: name the server by that address");
    }
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let token = Token::find(args.token_file.as_deref())?;
    let tls = (args.tls || args.tls_pin.is_some()).then_some(args.tls_pin);
    if tls == Some(None) && token.is_none() {
        bail!(
            "--tls alone does not tell the server from somebody in between: give --tls-pin with the \
             fingerprint that `vioperf serve --tls` prints, or --token-file"
        );
    }
    Ok(Way::Server(ToServer { target: target.clone(), family, token, tls }))
}

fn scenario(args: &TestArgs) -> Result<Scenario, Failure> {
    let mut changes = vec![
        Override::flag("--workload", "workload", "kind", &args.workload),
        Override::option("--blocks", "repeat", "blocks", i64::from(args.blocks)),
        Override::option("--attempts", "repeat", "attempts", 1),
        Override::option("the host", "testbed", "server", args.target.to_string()),
    ];
    changes.extend(args.domain.overrides());
    changes.extend(args.options.overrides.iter().cloned());
    let mut scenario = scenario_file::parse("vioperf test", SCENARIO, &changes)
        .map_err(|error| Failure::Usage(error.into()))?;
    let server = &args.target;
    scenario.question = format!("What does the network between this machine and {server} carry?");
    Ok(scenario)
}

/// Keeps what was measured, in memory and, if wanted, on the disk.
struct Keeper {
    directory: Option<RunDirectory>,
    records: Vec<TrialRecord>,
}

impl Audience for Keeper {
    fn trial_begins(&mut self, _: &Position<'_>) {}

    fn trial_ended(&mut self, _: &Position<'_>, record: &TrialRecord) -> Result<(), StoreError> {
        if let Some(directory) = &mut self.directory {
            directory.append(record)?;
        }
        self.records.push(record.clone());
        Ok(())
    }
}

/// Reports as `vioperf report` would.
fn conclude(
    info: &RunInfo,
    keeper: Keeper,
    args: &TestArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let Keeper { directory, records } = keeper;
    if let Some(directory) = &directory
        && let Err(error) = directory.write_info(info)
    {
        output.warning(error);
    }
    let analysis = analyse(info, &records);
    let text = if args.json {
        report::json::render(&analysis)
    } else {
        report::terminal::render(&analysis, args.wide, output.colors_results())
    };
    output.result(&text)?;
    if let Some(path) = &args.out {
        let page = report::html::render(&analysis);
        match store::write_whole(path, "report.html", page.as_bytes()) {
            Ok(()) => output.note(format_args!("stored: vioperf report {}", path.display())),
            Err(error) => output.warning(error),
        }
    }
    history::enter(&analysis, args.out.as_deref(), args.no_history, output);
    let how = info.ended.as_ref().map_or(RunEnding::Completed, |end| end.how.clone());
    if let RunEnding::Failed { message } = &how {
        output.error(format_args!("the test ended early: {message}"));
    }
    let void = records.iter().find_map(|record| match &record.outcome {
        Outcome::Void { reason, .. } => Some(reason),
        Outcome::Completed | Outcome::Disturbed => None,
    });
    match void {
        Some(reason) if matches!(how, RunEnding::Completed) => {
            output.error(reason);
            Ok(ExitCode::FAILURE)
        }
        _ => Ok(run_code(&how, false)),
    }
}
