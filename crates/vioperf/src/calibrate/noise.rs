//! What is read where nothing changes.

use vioperf_analysis::calibration::scatter;
use vioperf_model::units::TimeSpan;
use vioperf_model::workload::{Transport, WorkloadKind};

use super::Findings;
use super::bench::{Bench, Path, Trouble, Wanted, reading};
use super::delay::{p50_us, percentile_us};

/// How long a thread sleeps whose waking up is timed, and how often.
const SLEEP: TimeSpan = TimeSpan::from_millis(1);
const SLEEPS: u16 = 500;

/// Equal trials, and a thread that sleeps.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let trials = if bench.quick { 3 } else { 7 };
    let streams = Wanted::new(path, WorkloadKind::TcpStream, 1_000);
    let mut requests = Wanted::new(path, WorkloadKind::RequestResponse, 1_000);
    requests.workload.transport = Some(Transport::Tcp);
    let mut idle = requests.clone();
    idle.workload.requests_per_second = Some(1);
    let [mut rates, mut p50, mut p99, mut busy] = [const { Vec::new() }; 4];
    let mut stolen = 0.0;
    for _ in 0..trials {
        let cell = bench.measure(&streams)?.cell;
        rates.push(reading(&cell.receiver_bits_per_second, "payload received")?);
        let trial = bench.measure(&requests)?;
        p50.push(p50_us(&trial)?);
        p99.push(percentile_us(&trial, "p99")?);
        let host = bench.measure(&idle)?.cell.host;
        busy.push(reading(&host.busy_percent_of_core, "the host's cores")?);
        stolen += host.cores.iter().filter_map(|core| core.mean_percent.steal).sum::<f64>();
    }
    let late_us = bench.lateness_us(SLEEP, SLEEPS)?;
    let late = |part: usize| late_us.get(late_us.len() * part / 100).copied();
    let floor = &mut findings.noise_floor;
    floor.throughput = scatter(&rates);
    floor.latency_p50_us = scatter(&p50);
    floor.latency_p99_us = scatter(&p99);
    floor.idle_busy_percent_of_core = scatter(&busy);
    floor.stolen_percent_of_core = Some(stolen / trials as f64);
    floor.wake_up_p50_us = late(50);
    floor.wake_up_p99_us = late(99);
    Ok(())
}
