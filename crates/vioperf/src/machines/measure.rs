//! A scenario between two machines, from the way there to its records.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use vioperf_model::libvirt::MeasuredDomain;
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::{RunEnd, RunEnding, RunInfo, SCHEMA_VERSION};
use vioperf_model::scenario::{IpVersion, Scenario};

use super::client::Way;
use super::domain::{self, Domain, Lent, Permission};
use super::guest::GuestStage;
use super::stage::{Ends, MachineStage};
use crate::conductor::schedule::{Audience, Earlier, Schedule, SoFar};
use crate::exit::Failure;
use crate::interrupt::{Interrupt, signal_name};
use crate::live::Watch;
use crate::machine_look;
use crate::output::Output;
use crate::progress::{RunClock, now};
use crate::provenance::host_facts;

/// What is measured, and how.
pub struct Job<'a> {
    /// The scenario; its testbed names the server.
    pub scenario: Scenario,
    /// Where it came from.
    pub origin: String,
    /// Seed of the order.
    pub seed: u64,
    /// How to get to the server.
    pub way: Way,
    /// What may be done to the virtual machine that the server is.
    pub permission: Permission,
    /// Who is told what goes on.
    pub output: &'a Output,
    /// Who looks on, each second.
    pub watch: Option<&'a dyn Watch>,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured<A> {
    /// The run.
    pub info: RunInfo,
    /// What has its records.
    pub audience: A,
    /// Why the virtual machine that was changed is not as it was, if so.
    pub not_put_back: Option<anyhow::Error>,
}

/// Measures it. `keep` is told of the run before the first trial, and gives what keeps its records.
///
/// # Errors
/// What keeps it from being measured. A virtual machine that was changed is put back all the same.
pub fn measure<A: Audience>(
    job: Job<'_>,
    keep: impl FnOnce(&RunInfo) -> Result<A, Failure>,
) -> Result<Measured<A>, Failure> {
    let mut domain = domain::examine(&job.scenario, &job.permission, &job.way, job.output)?;
    let interrupt =
        Interrupt::listen().map_err(|error| anyhow!("cannot listen for signals: {error}"))?;
    let mut lent = match &domain {
        Some(domain) if job.scenario.changes_domain() => Some(domain.lend(&job.permission)?),
        _ => None,
    };
    let output = job.output;
    let measured = run(job, &mut domain, lent.as_mut(), &interrupt, keep);
    let put_back = lent.map_or(Ok(()), |lent| {
        output.status(&format!("putting {} back", lent.name));
        let put_back = lent.give_back(&interrupt);
        output.status("");
        put_back
    });
    match (put_back, measured) {
        (Ok(()), Ok((info, audience))) => Ok(Measured { info, audience, not_put_back: None }),
        (Err(error), Ok((info, audience))) => {
            Ok(Measured { info, audience, not_put_back: Some(error) })
        }
        (Ok(()), Err(failure)) => Err(failure),
        (Err(error), Err(failure)) => {
            output.error(format_args!("{error:#}"));
            Err(failure)
        }
    }
}

fn run<A: Audience>(
    job: Job<'_>,
    domain: &mut Option<Domain>,
    lent: Option<&mut Lent>,
    interrupt: &Interrupt,
    keep: impl FnOnce(&RunInfo) -> Result<A, Failure>,
) -> Result<(RunInfo, A), Failure> {
    let Job { mut scenario, origin, seed, way, output, watch, .. } = job;
    scenario.testbed.server = Some(way.machine().to_string());
    // What its owner made of it.
    let before = domain.as_ref().map(|domain| domain.measured.domain.clone());
    let ready_within = scenario.guest.ready_timeout.as_duration();
    let mut guest =
        domain.as_mut().map(|domain| GuestStage { domain, lent, ready_within, met: None });
    let mut ends = match &mut guest {
        // What the path is like has no part in the order.
        Some(guest) => {
            let plan = Plan::new(&scenario, seed);
            guest.meet(&one_of_each_guest(&plan), &way, interrupt, output)?
        }
        None => {
            let connection = way.connect(interrupt)?;
            Ends::greet(connection, &way.machine().to_string(), interrupt)?
        }
    };
    let (address, mtu) = ends.path();
    scenario.testbed.mtu = mtu;
    scenario.testbed.ip = match address.to_canonical() {
        IpAddr::V4(_) => IpVersion::Ipv4,
        IpAddr::V6(_) => IpVersion::Ipv6,
    };
    let facts = ends.server_interface();
    if let (Some(guest), Some(facts)) = (&mut guest, facts) {
        guest.domain.note_interface(&facts.mac).into_iter().for_each(|doubt| output.warning(doubt));
    }
    let machine_before = machine_look::look(Path::new("/"));
    let plan = Plan::new(&scenario, seed);
    let measured = guest.as_ref().map(|guest| guest.domain.measured.clone());
    let measured = measured.zip(before).map(|(it, domain)| MeasuredDomain { domain, ..it });
    if let Some(reason) = measured.as_ref().and_then(|domain| domain.unreadable.as_ref()) {
        output.warning(format_args!("the hypervisor cannot be read whole: {reason}"));
    }
    let info = run_info(&scenario, origin, &plan);
    let mut info = RunInfo { machine_before, domain: measured, ..info };
    let mut audience = keep(&info)?;
    let earlier = Earlier::default();
    let how = {
        let ends = Some(ends);
        let mut stage = MachineStage { way: &way, ends, guest, interrupt, output, watch };
        Schedule {
            plan: &plan,
            repeat: &scenario.repeat,
            block_estimate: Duration::ZERO,
            stage: &mut stage,
            audience: &mut audience,
            clock: &RunClock { started: Instant::now(), before: Duration::ZERO },
            interrupt,
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
    Ok((info, audience))
}

/// The cells in the order of the first block, one of each NIC and what that is connected to.
fn one_of_each_guest(plan: &Plan) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = Vec::new();
    for cell in plan.blocks.first().into_iter().flatten().filter_map(|&at| plan.cells.get(at)) {
        if !cells.iter().any(|other| other.shares_testbed_with(cell)) {
            cells.push(cell);
        }
    }
    cells
}

fn run_info(scenario: &Scenario, scenario_origin: String, plan: &Plan) -> RunInfo {
    RunInfo {
        schema_version: SCHEMA_VERSION,
        vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        command_line: std::env::args().collect(),
        scenario_origin,
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
        domain: None,
        ended: None,
    }
}
