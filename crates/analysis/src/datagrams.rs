//! What became of the datagrams of one trial.

use vioperf_model::record::{Place, TrialRecord};
use vioperf_model::sample::DatagramOutcome;
use vioperf_model::units::BitRate;
use vioperf_model::wire::Role;
use vioperf_model::workload::Workload;

use crate::flow::{Flow, View};
use crate::ledger::Ledger;
use crate::measure::Unit;
use crate::window::{Reading, percent};

/// UDP's header in bytes (RFC 768).
const UDP_HEADER_BYTES: u64 = 8;
/// IPv4's without options (RFC 791), and IPv6's (RFC 8200).
const IP_HEADER_BYTES: [u64; 2] = [20, 40];
/// Ethernet's addresses and type, and its checksum (IEEE 802.3, clause 3).
const ETHERNET_BYTES: u64 = 14 + 4;
/// No frame is shorter, checksum included (IEEE 802.3, clause 4).
const LEAST_FRAME_BYTES: u64 = 64;
/// Preamble and start delimiter, and the gap to the next frame: on the wire, but not of the frame.
const PREAMBLE_BYTES: u64 = 8;
const GAP_BYTES: u64 = 12;

/// What became of datagrams, in one trial.
#[derive(Debug, Clone)]
pub struct DatagramReading {
    /// That the sender's kernel took.
    pub sent_per_second: Reading,
    /// That the receiver was given.
    pub received_per_second: Reading,
    /// Of those sent.
    pub lost_percent: Reading,
    /// That arrived again.
    pub duplicated: Reading,
    /// That arrived after a later one.
    pub reordered: Reading,
    /// That the receiver's sockets had no room for.
    pub socket_drops: Reading,
    /// Variation of the transit time.
    pub jitter_us: Reading,
    /// Of what a wire of the claimed speed can carry at most.
    pub percent_of_wire_rate: Reading,
}

impl DatagramReading {
    /// Reads both ends.
    pub fn of(trial: &TrialRecord, workload: &Workload, flow: &Flow<'_>) -> Self {
        let receiver = &flow.receiver;
        let sent_per_second = flow.sender.rate(Unit::Datagrams);
        let received_per_second = receiver.rate(Unit::Datagrams);
        let numbered = || -> Result<&DatagramOutcome, &'static str> {
            let outcome = receiver.outcome().and_then(|load| load.datagrams.as_ref());
            outcome.ok_or("the datagrams of this load are not numbered")
        };
        let numbered_as =
            |read: fn(&DatagramOutcome) -> u64| -> Reading { Ok(numbered().map(read)? as f64) };
        Self {
            lost_percent: lost_percent(numbered().ok(), &sent_per_second, &received_per_second),
            duplicated: numbered_as(|outcome| outcome.duplicated),
            reordered: numbered_as(|outcome| outcome.reordered),
            socket_drops: socket_drops(receiver),
            jitter_us: numbered_as(|outcome| outcome.jitter_ns).map(|ns| ns / 1e3),
            percent_of_wire_rate: percent_of_wire_rate(
                trial,
                workload,
                &received_per_second,
                Link::AsClaimed,
            ),
            sent_per_second,
            received_per_second,
        }
    }
}

impl DatagramReading {
    /// Where the whole load lost nothing, the window has lost nothing either: what rates of both ends differ by was
    /// under way when it began or ended. Of datagrams that bear no numbers.
    pub fn held_against(mut self, ledger: Option<&Ledger>) -> Self {
        let lost_none = ledger.is_some_and(|ledger| ledger.lost == 0);
        if lost_none && self.duplicated.is_err() && self.lost_percent.is_ok() {
            self.lost_percent = Ok(0.0);
        }
        self
    }
}

fn socket_drops(receiver: &View<'_>) -> Reading {
    let drops = receiver.outcome().and_then(|load| load.socket_drops);
    Ok(drops.ok_or("the receiver's sockets do not tell what they dropped")? as f64)
}

/// By the numbers that never arrived where datagrams bear numbers; else by what was sent and received
/// in the window. The two ends' samples do not lie at the same moments: a little more received than
/// sent is no loss.
fn lost_percent(numbered: Option<&DatagramOutcome>, sent: &Reading, received: &Reading) -> Reading {
    let seen = |outcome: &&DatagramOutcome| outcome.received > 0;
    if let Some(outcome) = numbered.filter(seen) {
        let (received, lost) = (outcome.received as f64, outcome.lost as f64);
        return Ok(percent(lost, received + lost));
    }
    let sent = *sent.as_ref().map_err(Clone::clone)?;
    let received = *received.as_ref().map_err(Clone::clone)?;
    if sent == 0.0 {
        return Err("nothing was sent".into());
    }
    Ok(percent(sent - received, sent).max(0.0))
}

/// Bytes that a datagram of so much payload takes on an Ethernet wire, preamble and gap included: 84
/// for 18 bytes of payload (RFC 2544, appendix B, counts the same: 14 880 a second at 10 Mbit/s).
///
/// Absent where it is not one frame.
pub fn bytes_on_wire(payload_bytes: u64, is_ipv6: bool, mtu_bytes: u64) -> Option<u64> {
    let header = IP_HEADER_BYTES[usize::from(is_ipv6)] + UDP_HEADER_BYTES;
    let packet = payload_bytes.checked_add(header).filter(|packet| *packet <= mtu_bytes)?;
    let frame = (packet + ETHERNET_BYTES).max(LEAST_FRAME_BYTES);
    Some(frame + PREAMBLE_BYTES + GAP_BYTES)
}

/// How fast the wire is that datagrams are told in percent of.
#[derive(Debug, Clone, Copy)]
pub enum Link {
    /// As the near end's card claims.
    AsClaimed,
    /// The testbed's, which is held to this rate.
    HeldTo(BitRate),
}

/// So many datagrams a second, in percent of what a wire of that speed can carry.
pub fn percent_of_wire_rate(
    trial: &TrialRecord,
    workload: &Workload,
    received: &Reading,
    link: Link,
) -> Reading {
    let received = *received.as_ref().map_err(Clone::clone)?;
    if workload.segmentation {
        return Err("datagrams of a segmentation load are not packets on a wire".into());
    }
    let near = trial.parties.iter().find(|p| [Place::Guest, Place::Second].contains(&p.place));
    let facts = near.and_then(|party| party.interface.as_ref());
    let facts = facts.ok_or("the interface under test is not in the record")?;
    let speed = match link {
        Link::HeldTo(rate) => rate.as_bits_per_second() as f64,
        Link::AsClaimed => {
            let megabits = facts.speed_mbit_per_s.filter(|speed| *speed > 0);
            f64::from(megabits.ok_or("the link's speed is not known")?) * 1e6
        }
    };
    let is_ipv6 = trial.parties.iter().any(|party| match &party.role {
        Role::Sender { peer } => peer.is_ipv6(),
        _ => false,
    });
    let bytes = bytes_on_wire(workload.payload_bytes(), is_ipv6, u64::from(facts.mtu))
        .ok_or("a datagram is larger than the MTU, and not one frame")?;
    Ok(percent(received * bytes as f64 * 8.0, speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_whole_load_did_not_lose_the_window_did_not_either() {
        let read = |lost_percent: f64, duplicated: Reading| DatagramReading {
            sent_per_second: Ok(1e3),
            received_per_second: Ok(1e3),
            lost_percent: Ok(lost_percent),
            duplicated,
            reordered: Ok(0.0),
            socket_drops: Ok(0.0),
            jitter_us: Ok(0.0),
            percent_of_wire_rate: Ok(0.0),
        };
        let ledger = |lost| Ledger { sent: 1_000, lost, ..Ledger::default() };
        let unnumbered = || read(2.3, Err("not numbered".into()));
        let told = |ledger: Option<Ledger>| {
            unnumbered().held_against(ledger.as_ref()).lost_percent.unwrap()
        };
        assert_eq!(told(Some(ledger(0))), 0.0);
        assert_eq!(told(Some(ledger(7))), 2.3);
        assert_eq!(told(None), 2.3);
        let numbered = read(2.3, Ok(0.0)).held_against(Some(&ledger(0)));
        assert_eq!(numbered.lost_percent.unwrap(), 2.3);
    }

    #[test]
    fn a_frame_takes_its_preamble_and_gap_on_the_wire() {
        assert_eq!(bytes_on_wire(18, false, 1500), Some(84));
        assert_eq!(bytes_on_wire(1, false, 1500), Some(84));
        assert_eq!(bytes_on_wire(1472, false, 1500), Some(1538));
        assert_eq!(bytes_on_wire(1473, false, 1500), None);
        assert_eq!(bytes_on_wire(1472, true, 1500), None);
        assert_eq!(bytes_on_wire(u64::MAX, false, 1500), None);
        // The well-known 14 880 frames a second at 10 Mbit/s, and 812.
        assert!((10e6 / 8.0 / 84.0_f64 - 14_880.9).abs() < 0.1);
        assert!((10e6 / 8.0 / 1538.0_f64 - 812.7).abs() < 0.1);
    }

    #[test]
    fn loss_is_told_by_numbers_where_there_are_any() {
        let outcome = DatagramOutcome { received: 90, lost: 10, ..DatagramOutcome::default() };
        assert_eq!(lost_percent(Some(&outcome), &Ok(5.0), &Ok(1.0)), Ok(10.0));
        assert_eq!(lost_percent(None, &Ok(200.0), &Ok(150.0)), Ok(25.0));
        assert_eq!(lost_percent(None, &Ok(200.0), &Ok(201.0)), Ok(0.0));
        // None that arrived had a number: the window tells.
        let none = DatagramOutcome::default();
        assert_eq!(lost_percent(Some(&none), &Ok(200.0), &Ok(0.0)), Ok(100.0));
        assert!(lost_percent(None, &Ok(0.0), &Ok(0.0)).is_err());
    }
}
