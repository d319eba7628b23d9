//! Packets: the sender, the receiver, the switch's port and a witness on the switch count the same ones.

use vioperf_analysis::calibration::{Allowed, Totals, check};
use vioperf_lab::packet_filter::{Watched, Witness, Witnessed};
use vioperf_model::calibration::{Area, CheckUnit};
use vioperf_model::units::{BitRate, ByteSize, Ratio};
use vioperf_model::workload::WorkloadKind;

use super::Findings;
use super::bench::{Bench, Path, Trial, Trouble, Wanted};

/// UDP payload of a datagram, in bytes: no word that nodes say to each other is as long.
const PAYLOAD: u64 = 1400;

/// The switch's port that the load comes in by.
const PORT: &str = "peer";

/// Datagrams that are counted at four places.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (_, milliseconds) = bench.trials();
    // Few enough that nothing of it is lost, in an emulated guest neither.
    let per_second = if path == Path::Guest { 1_000 } else { 4_000 };
    let (trial, witnessed) = witnessed(bench, path, per_second, milliseconds, Ratio::from_ppm(0))?;
    let Some(totals) = Totals::of(&trial.record) else {
        return Err(Trouble::NotMeasured("the datagrams were not numbered".into()));
    };
    let on_port = Totals::on_interface(&trial.record, PORT, PAYLOAD);
    let Some(on_port) = on_port else {
        return Err(Trouble::NotMeasured("the switch's port has no counters".into()));
    };
    let truth = witnessed.seen as f64;
    for (name, counted) in [
        ("datagrams sent", totals.sent),
        ("datagrams received", totals.received),
        ("datagrams on the switch's port", on_port),
    ] {
        let what = format!("{name}, {path}");
        let exact = Allowed::exactly(truth);
        findings.add(check(
            Area::Counts,
            what,
            CheckUnit::Packets,
            truth,
            &[counted as f64],
            exact,
        ));
    }
    Ok(())
}

/// Sends so many datagrams a second from the peer past a witness, who drops some of them.
pub(super) fn witnessed(
    bench: &mut Bench<'_>,
    path: Path,
    per_second: u64,
    milliseconds: u64,
    drop: Ratio,
) -> Result<(Trial, Witnessed), Trouble> {
    let mut wanted = Wanted::new(path, WorkloadKind::UdpStream, milliseconds);
    wanted.workload.payload = Some(ByteSize::from_bytes(PAYLOAD));
    wanted.workload.rate = Some(BitRate::from_bits_per_second(per_second * PAYLOAD * 8));
    let mut last = Err(Trouble::NotMeasured("no trial was made".into()));
    // A trial that is made again would be counted on top of the first.
    for _ in 0..2 {
        let watched = Watched { port: PORT, payload_bytes: PAYLOAD, drop };
        let refused = |error: vioperf_lab::packet_filter::FilterError| {
            Trouble::NotMeasured(error.to_string())
        };
        let witness = Witness::plant(bench.sandbox(), watched).map_err(refused)?;
        let trial = bench.measure(&wanted)?;
        let witnessed = witness.read().map_err(refused)?;
        let is_first = trial.record.attempt == 1;
        last = Ok((trial, witnessed));
        if is_first {
            break;
        }
    }
    last
}
