//! What it costs to sample a machine: a node that only observes, in a namespace of its own.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use vioperf_model::sample::NodeReport;
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{Prepare, Request, Response, Role, read_frame, write_frame};
use vioperf_model::workload::{Workload, WorkloadKind};

use crate::tools::Vioperf;

/// Its name on the command line.
pub const NAME: &str = "sampling";
/// The most that it shall cost, in percent of a core.
pub const BAR_PERCENT: f64 = 0.5;
/// How often is sampled: as in every trial.
const INTERVAL: TimeSpan = TimeSpan::from_millis(100);
/// How long is measured, and how many times.
const TIME: Duration = Duration::from_secs(3);
const RUNS: usize = 7;

/// CPU time of a node by the time that it sampled for, in percent of a core: one value a run.
pub struct Cost {
    pub percents: Vec<f64>,
    pub samples_per_second: f64,
}

/// Measures it with `vioperf node`, told by the messages that a conductor tells it.
pub fn cost(vioperf: &Vioperf) -> Result<Cost> {
    eprintln!("{NAME}: what a second of sampling costs");
    let (ours, theirs) = UnixStream::pair().context("cannot make a channel")?;
    let theirs = OwnedFd::from(theirs);
    let again = theirs.try_clone().context("cannot duplicate a channel")?;
    let mut node = Command::new(&vioperf.program)
        .arg("node")
        .stdin(theirs)
        .stdout(again)
        .spawn()
        .context("cannot start `vioperf node`")?;
    let mut channel = ours;
    let mut cost = Cost { percents: Vec::new(), samples_per_second: 0.0 };
    for _ in 0..RUNS {
        let (report, took) = observe(&mut channel)?;
        cost.percents.push(report.node_cpu_ns as f64 / took.as_nanos() as f64 * 100.0);
        cost.samples_per_second = report.samples.len() as f64 / took.as_secs_f64();
    }
    ask(&mut channel, &Request::Shutdown)?;
    node.wait().context("cannot wait for `vioperf node`")?;
    Ok(cost)
}

fn observe(channel: &mut UnixStream) -> Result<(NodeReport, Duration)> {
    let part = Prepare {
        role: Role::Observer,
        spread: vioperf_model::wire::Spread::default(),
        workload: Box::new(Workload::new(WorkloadKind::TcpStream)),
        sample_interval: INTERVAL,
        processes: Vec::new(),
        burn: None,
        burn_threads: None,
        open_vswitch: None,
        counts_hardware: true,
        disk: None,
        deadline: TimeSpan::from_millis(60_000),
    };
    ask(channel, &Request::Prepare(part))?;
    ask(channel, &Request::Start)?;
    let began = Instant::now();
    sleep(TIME);
    ask(channel, &Request::Stop)?;
    let took = began.elapsed();
    match ask(channel, &Request::Collect { from_sample: 0 })? {
        Response::Report { report, .. } => Ok((*report, took)),
        other => bail!("`vioperf node` answered out of turn: {other:?}"),
    }
}

fn ask(channel: &mut UnixStream, request: &Request) -> Result<Response> {
    write_frame(channel, request)?;
    channel.flush()?;
    match read_frame(channel)? {
        Response::Failed { message } => bail!("`vioperf node`: {message}"),
        response => Ok(response),
    }
}
