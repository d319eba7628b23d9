//! Latency that is known: that of requests that a slow link takes so long for, and what a guest's
//! emulated network adds.

use vioperf_analysis::calibration::{Allowed, check, median, scatter};
use vioperf_model::calibration::{Area, CheckUnit};
use vioperf_model::units::{BitRate, ByteSize, Ratio, TimeSpan};
use vioperf_model::wire::Impairment;
use vioperf_model::workload::{Transport, WorkloadKind};

use super::Findings;
use super::bench::{Bench, Path, Trial, Trouble, Wanted, reading};

/// How far a reading may be from the truth: the larger of this part of it,
const ALLOWED_PERCENT: f64 = 5.0;
/// and of so much more than what is read where nothing changes, in microseconds.
const ALLOWED_ABOVE_FLOOR_US: f64 = 20.0;

/// Requests a second beside planted delays: 20 ms apart, longer than any of them.
const REQUESTS_PER_SECOND: u32 = 50;

/// UDP payload of a request, and the bytes that a link counts for it.
const REQUEST_BYTES: u64 = 1400;
const REQUEST_FRAME_BYTES: u64 = REQUEST_BYTES + 8 + 20 + 14;

/// Requests one after the other over a link that takes so long for each. Whatever the way back and late
/// timers cost, the link makes up for it with the next: on average no request takes longer or shorter
/// than its bytes.
pub(super) fn measure_on_link(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (trials, milliseconds) = bench.trials();
    // An emulated guest needs most of a millisecond for an answer: a link has to take longer.
    let links_kbit: &[u64] = if path == Path::Guest { &[1_000] } else { &[10_000, 1_000] };
    for kbit in links_kbit {
        let link = BitRate::from_bits_per_second(kbit * 1_000);
        let mut wanted = Wanted::new(path, WorkloadKind::RequestResponse, milliseconds);
        wanted.link = Some(link);
        wanted.workload.transport = Some(Transport::Udp);
        wanted.workload.request_size = Some(ByteSize::from_bytes(REQUEST_BYTES));
        let read: Result<Vec<f64>, Trouble> =
            (0..trials).map(|_| p50_us(&bench.measure(&wanted)?)).collect();
        let truth = REQUEST_FRAME_BYTES as f64 * 8e6 / link.as_bits_per_second() as f64;
        let amount = (truth * ALLOWED_PERCENT / 100.0).max(ALLOWED_ABOVE_FLOOR_US);
        findings.add(check(
            Area::Delay,
            format!("{REQUEST_FRAME_BYTES} bytes over {link} {path}, p50"),
            CheckUnit::Microseconds,
            truth,
            &read?,
            Allowed::within(truth, amount),
        ));
    }
    Ok(())
}

/// Requests to a guest, whose answers leave so much later.
pub(super) fn measure_in_guest(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (trials, milliseconds) = bench.trials();
    let mut wanted = Wanted::new(path, WorkloadKind::RequestResponse, milliseconds);
    wanted.workload.transport = Some(Transport::Udp);
    // As often with as without: what has been idle for longer answers later by itself.
    wanted.workload.requests_per_second = Some(REQUESTS_PER_SECOND);
    let mut without = Vec::new();
    for _ in 0..trials.max(3) {
        without.push(p50_us(&bench.measure(&wanted)?)?);
    }
    let base = median(&without).unwrap_or(0.0);
    // Netem's timer fires no earlier than asked and as late as any of the guest's.
    let late = bench.lateness_us(TimeSpan::from_millis(5), 100)?;
    let late = median(&late).unwrap_or(0.0);
    // Both ends of a difference scatter: so much it is off in 1 of 20 cases where nothing changes.
    let floor =
        late + scatter(&without).map_or(0.0, |s| 1.96 * s.standard_deviation * 2.0_f64.sqrt());
    let delays_us: &[u64] = if bench.quick { &[10_000] } else { &[1_000, 10_000] };
    for &delay_us in delays_us {
        let delay = TimeSpan::from_micros(delay_us);
        bench.impair_guest(Some(Impairment { delay, loss: Ratio::from_ppm(0) }))?;
        let with: Result<Vec<f64>, Trouble> =
            (0..trials).map(|_| Ok(p50_us(&bench.measure(&wanted)?)? - base)).collect();
        let restored = bench.impair_guest(None);
        let (with, truth) = (with?, delay_us as f64);
        restored?;
        let amount = (truth * ALLOWED_PERCENT / 100.0).max(floor + ALLOWED_ABOVE_FLOOR_US);
        findings.add(check(
            Area::Delay,
            format!("{delay} more until a guest's answer, p50"),
            CheckUnit::Microseconds,
            truth,
            &with,
            Allowed::within(truth, amount),
        ));
    }
    Ok(())
}

pub(super) fn p50_us(trial: &Trial) -> Result<f64, Trouble> {
    percentile_us(trial, "p50")
}

/// A percentile of a trial's latency.
pub(super) fn percentile_us(trial: &Trial, name: &str) -> Result<f64, Trouble> {
    let latency = trial.cell.transactions.as_ref().map(|transactions| &transactions.latency);
    let none = || Trouble::NotMeasured(format!("there is no {name} of the latency"));
    let percentile = latency.and_then(|latency| latency.percentile(name)).ok_or_else(none)?;
    reading(&percentile.us, name)
}
