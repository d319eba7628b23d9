//! Payload over links of known rate.

use vioperf_analysis::calibration::{Allowed, check, tcp_payload_rate, udp_payload_rate};
use vioperf_model::calibration::{Area, CheckUnit};
use vioperf_model::scenario::{IpVersion, Testbed};
use vioperf_model::units::{BitRate, ByteSize};
use vioperf_model::workload::{Direction, WorkloadKind};

use super::Findings;
use super::bench::{Bench, Path, Trouble, Wanted, reading};

/// How far a reading may be from the truth, in percent.
const ALLOWED_PERCENT: f64 = 1.0;

const MBIT: u64 = 1_000_000;

/// UDP payload of a datagram, in bytes.
const PAYLOAD: u32 = 1470;

/// A sender that offers less than this part of what the link takes leaves the link's rate unproved.
const OFFERED: f64 = 0.995;

/// Each rate by TCP and by datagrams, each kind in another direction.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    // What an emulated guest carries for certain.
    let rates: &[u64] = match (path, bench.quick) {
        (_, true) => &[100],
        (Path::Guest, false) => &[10, 100],
        (Path::Host, false) => &[10, 100, 1000],
    };
    for mbit in rates {
        let link = BitRate::from_bits_per_second(mbit * MBIT);
        for (kind, direction) in [
            (WorkloadKind::TcpStream, Direction::ToGuest),
            (WorkloadKind::UdpStream, Direction::ToGuest),
            (WorkloadKind::TcpStream, Direction::FromGuest),
            (WorkloadKind::UdpStream, Direction::FromGuest),
        ] {
            if bench.quick && direction == Direction::FromGuest {
                continue;
            }
            match over_link(bench, path, link, (kind, direction), findings) {
                Err(Trouble::NotMeasured(reason)) => {
                    findings.leave_out(format!("{} over {link} {path}", name(kind)), reason);
                }
                other => other?,
            }
        }
    }
    Ok(())
}

fn over_link(
    bench: &mut Bench<'_>,
    path: Path,
    link: BitRate,
    (kind, direction): (WorkloadKind, Direction),
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let (trials, mut milliseconds) = bench.trials();
    if path == Path::Guest {
        // What waits in a guest's queues at the beginning and at the end of the window is less of it.
        milliseconds = milliseconds * 3 / 2;
    }
    let mut wanted = Wanted::new(path, kind, milliseconds);
    wanted.link = Some(link);
    let truth = plant(&mut wanted, link, direction);
    let way = match (path, direction) {
        (Path::Host, Direction::FromGuest) => "on the host, back".to_owned(),
        (Path::Host, _) => path.to_string(),
        (Path::Guest, Direction::FromGuest) => "from a guest".to_owned(),
        (Path::Guest, _) => "to a guest".to_owned(),
    };
    let what = format!("{} over {link} {way}", name(kind));
    let (mut read, mut offered) = (Vec::new(), 0.0_f64);
    for _ in 0..trials {
        let cell = bench.measure(&wanted)?.cell;
        read.push(reading(&cell.receiver_bits_per_second, "payload received")?);
        offered = offered.max(reading(&cell.sender_bits_per_second, "payload sent")?);
    }
    if kind == WorkloadKind::UdpStream && offered < truth * OFFERED {
        let sent = vioperf_analysis::wording::rate(offered);
        let reason = format!("the sender reached no more than {sent}, so the link was not full");
        findings.leave_out(what, reason);
        return Ok(());
    }
    let allowed = Allowed::within_percent(truth, ALLOWED_PERCENT);
    findings.add(check(Area::Rate, what, CheckUnit::BitsPerSecond, truth, &read, allowed));
    Ok(())
}

fn name(kind: WorkloadKind) -> &'static str {
    if kind == WorkloadKind::TcpStream { "TCP" } else { "UDP" }
}

/// Makes a load that fills the link, and tells the payload that the link then carries.
fn plant(wanted: &mut Wanted, link: BitRate, direction: Direction) -> f64 {
    let ip = IpVersion::Ipv4.header_bytes();
    let bits = link.as_bits_per_second();
    let workload = &mut wanted.workload;
    workload.direction = direction;
    if workload.kind == WorkloadKind::TcpStream {
        // A window of half of what may wait at the link (50 ms): the link is full and nothing is lost.
        workload.socket_buffer = Some(ByteSize::from_bytes(bits / 8 / 40));
        return tcp_payload_rate(link, Testbed::default().mtu, ip);
    }
    workload.payload = Some(ByteSize::from_bytes(PAYLOAD.into()));
    workload.rate = Some(BitRate::from_bits_per_second(bits + bits / 10));
    udp_payload_rate(link, PAYLOAD, ip)
}
