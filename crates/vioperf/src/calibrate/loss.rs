//! Datagrams that are dropped on purpose: on the switch by the witness, who counts them; in a guest by
//! the kernel's emulated network.

use vioperf_analysis::calibration::{Allowed, Totals, binomial_interval_99, check};
use vioperf_model::calibration::{Area, Check, CheckUnit};
use vioperf_model::units::{BitRate, ByteSize, Ratio, TimeSpan};
use vioperf_model::wire::Impairment;
use vioperf_model::workload::{Direction, WorkloadKind};

use super::Findings;
use super::bench::{Bench, Path, Trial, Trouble, Wanted};
use super::counts::witnessed;

/// Datagrams a second: no socket ever lacks room for them, nor does an emulated guest's NIC.
const PER_SECOND_ON_HOST: u64 = 5_000;
const PER_SECOND_IN_GUEST: u64 = 2_000;

/// Drops on the switch: how many is known exactly, and that it is the planted part within chance.
pub(super) fn measure_on_switch(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (_, milliseconds) = bench.trials();
    let percents: &[u64] = if bench.quick { &[5] } else { &[1, 5, 20] };
    for percent in percents {
        let planted = Ratio::from_ppm(percent * 10_000);
        let (trial, seen) = witnessed(bench, path, PER_SECOND_ON_HOST, milliseconds, planted)?;
        let totals = numbered(&trial)?;
        let truth = seen.dropped as f64;
        findings.add(check(
            Area::Loss,
            format!("datagrams lost of those dropped on the switch ({percent} %)"),
            CheckUnit::Packets,
            truth,
            &[totals.lost as f64],
            Allowed::exactly(truth),
        ));
        let what = format!("{percent} % lost on the switch");
        findings.add(by_chance(what, planted, seen.seen, totals.lost));
    }
    Ok(())
}

/// Drops in the guest.
pub(super) fn measure_in_guest(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (_, milliseconds) = bench.trials();
    let payload = 1000;
    let mut wanted = Wanted::new(path, WorkloadKind::UdpStream, milliseconds);
    wanted.workload.direction = Direction::FromGuest;
    wanted.workload.payload = Some(ByteSize::from_bytes(payload));
    let bits = PER_SECOND_IN_GUEST * payload * 8;
    wanted.workload.rate = Some(BitRate::from_bits_per_second(bits));
    // Without: nothing may be lost that was not planted, and the guest stands.
    let clean = numbered(&bench.measure(&wanted)?)?;
    let (what, exact) = ("nothing lost from a guest".to_owned(), Allowed::exactly(0.0));
    findings.add(check(Area::Loss, what, CheckUnit::Packets, 0.0, &[clean.lost as f64], exact));
    let percents: &[u64] = if bench.quick { &[5] } else { &[1, 5] };
    for percent in percents {
        let planted = Ratio::from_ppm(percent * 10_000);
        bench.impair_guest(Some(Impairment { delay: TimeSpan::from_millis(0), loss: planted }))?;
        let trial = bench.measure(&wanted);
        let restored = bench.impair_guest(None);
        let totals = numbered(&trial?)?;
        restored?;
        let what = format!("{percent} % lost in a guest");
        findings.add(by_chance(what, planted, totals.sent, totals.lost));
    }
    Ok(())
}

fn numbered(trial: &Trial) -> Result<Totals, Trouble> {
    let totals = Totals::of(&trial.record);
    totals.ok_or_else(|| Trouble::NotMeasured("the datagrams were not numbered".into()))
}

fn by_chance(what: String, planted: Ratio, sent: u64, lost: u64) -> Option<Check> {
    let truth = sent as f64 * planted.as_f64();
    let allowed = Allowed::between(binomial_interval_99(sent, planted.as_f64())?);
    check(Area::Loss, what, CheckUnit::Packets, truth, &[lost as f64], allowed)
}
