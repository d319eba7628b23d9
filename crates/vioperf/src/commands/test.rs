//! `vioperf test`: a load between this machine and one where `vioperf serve` runs, or that ssh gets to.

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use vioperf_analysis::analyse;
use vioperf_model::plan::Plan;
use vioperf_model::record::{Outcome, RunEnd, RunEnding, RunInfo, SCHEMA_VERSION, TrialRecord};
use vioperf_model::scenario::{IpVersion, Scenario};
use vioperf_model::scenario_file::{self, Override};

use crate::cli::TestArgs;
use crate::conductor::schedule::{Audience, Earlier, Position, Schedule, SoFar};
use crate::exit::{Failure, run_code};
use crate::history;
use crate::interrupt::{Interrupt, signal_name};
use crate::machine_look;
use crate::machines::client::{Family, Machine, Target, ToServer, Way};
use crate::machines::ssh::ToMachine;
use crate::machines::stage::{Ends, MachineStage};
use crate::machines::token::Token;
use crate::output::Output;
use crate::progress::{RunClock, now};
use crate::provenance::host_facts;
use crate::report;
use crate::store::{self, RunDirectory, StoreError};

/// What the command line's options are put into.
const SCENARIO: &str = "\
name = \"test\"
question = \"What does the network carry?\"
[workload]
kind = \"tcp-stream\"
";

/// Measures and reports.
pub fn execute(args: &TestArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut scenario = scenario(args)?;
    if let Some(directory) = &args.out {
        store::check_vacant(directory).map_err(|error| Failure::Usage(error.into()))?;
    }
    let way = way(args).map_err(Failure::Usage)?;
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;

    let connection = way.connect(&interrupt)?;
    scenario.testbed.mtu = connection.mtu;
    scenario.testbed.ip = match connection.server.to_canonical() {
        IpAddr::V4(_) => IpVersion::Ipv4,
        IpAddr::V6(_) => IpVersion::Ipv6,
    };
    let ends = Ends::greet(connection, &args.target.to_string(), &interrupt)?;
    let machine_before = machine_look::look(Path::new("/"));
    let plan = Plan::new(&scenario, scenario.repeat.seed.unwrap_or(0));
    let mut info = RunInfo { machine_before, ..run_info(&scenario, &plan) };
    let mut keeper = Keeper {
        directory: args.out.as_deref().map(|path| RunDirectory::create(path, &info)).transpose()?,
        records: Vec::new(),
    };
    let earlier = Earlier::default();
    let how = {
        let tells = !args.json;
        let mut stage =
            MachineStage { way: &way, ends: Some(ends), interrupt: &interrupt, output, tells };
        Schedule {
            plan: &plan,
            repeat: &scenario.repeat,
            block_estimate: Duration::ZERO,
            stage: &mut stage,
            audience: &mut keeper,
            clock: &RunClock { started: Instant::now(), before: Duration::ZERO },
            interrupt: &interrupt,
            earlier: &earlier,
            so_far: SoFar::new(&plan, &scenario.repeat, &earlier),
        }
        .run()
    };
    // A signal in the last trial shortens it, and then the plan is at its end all the same.
    let how = match interrupt.signal() {
        Some(signal) if matches!(how, RunEnding::Completed) => {
            RunEnding::Interrupted { signal: signal_name(signal).to_owned() }
        }
        _ => how,
    };
    info.ended = Some(RunEnd { at: now(), how });
    conclude(&info, keeper, args, output)
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
    Ok(Way::Ssh(ToMachine { destination: destination.clone(), address: args.address }))
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
    changes.extend(args.options.overrides.iter().cloned());
    let mut scenario = scenario_file::parse("vioperf test", SCENARIO, &changes)
        .map_err(|error| Failure::Usage(error.into()))?;
    let server = &args.target;
    scenario.question = format!("What does the network between this machine and {server} carry?");
    Ok(scenario)
}

fn run_info(scenario: &Scenario, plan: &Plan) -> RunInfo {
    RunInfo {
        schema_version: SCHEMA_VERSION,
        vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        command_line: std::env::args().collect(),
        scenario_origin: "the command line".into(),
        scenario: scenario.clone(),
        left_out: Vec::new(),
        plan: plan.clone(),
        host: host_facts(Path::new("/")),
        hypervisor: None,
        variant_hypervisors: [].into(),
        placement: None,
        variant_placements: [].into(),
        resumed: Vec::new(),
        calibration: None,
        machine_before: None,
        ended: None,
    }
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
