//! The wire carries no more.

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::datagrams::bytes_on_wire;
use crate::measure::Unit;
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "wire-rate",
    title: "The wire is full: this is what it carries of payload",
    check,
};

/// Drivers of what is no card: their speed is a label, nothing holds them to it.
const VIRTUAL: [&str; 11] = [
    "veth",
    "virtio_net",
    "tun",
    "bridge",
    "openvswitch",
    "macvlan",
    "vmxnet3",
    "hv_netvsc",
    "vif",
    "ena",
    "dummy",
];
/// Drivers of cards that hypervisors emulate: in a guest their speed is a label too.
const EMULATED: [&str; 10] = [
    "e1000", "e1000e", "igb", "igbvf", "8139cp", "8139too", "pcnet32", "e100", "tulip", "ne2k-pci",
];
/// Part of what is possible from which the wire is full.
const FULL: f64 = 0.93;
/// Ethernet's header, checksum, preamble and gap (IEEE 802.3, clauses 3 and 4), in bytes.
const FRAME_BYTES: f64 = 38.0;
/// A VLAN tag (IEEE 802.1Q).
const TAG_BYTES: f64 = 4.0;
/// Headers of IPv4 and TCP with timestamps (RFC 791, RFC 9293, RFC 7323).
const TCP_HEADERS: f64 = 52.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.ends().into_iter().find_map(|end| sign(symptoms, end))
}

fn sign(symptoms: &Symptoms<'_>, end: &End<'_>) -> Option<Sign> {
    let facts = end.interface()?;
    let driver = facts.driver.as_deref()?;
    if VIRTUAL.contains(&driver) || (EMULATED.contains(&driver) && !end.is_bare_machine()) {
        return None;
    }
    let speed = f64::from(facts.speed_mbit_per_s.filter(|speed| *speed > 0)?) * 1e6;
    let tag = if facts.name.contains('.') { TAG_BYTES } else { 0.0 };
    let (unit, possible) = if symptoms.workload.kind.is_of_datagrams() {
        let bytes = bytes_on_wire(symptoms.workload.payload_bytes(), false, u64::from(facts.mtu))?;
        (Unit::Datagrams, speed / 8.0 / (bytes as f64 + tag))
    } else {
        let mtu = f64::from(facts.mtu);
        (Unit::Bits, speed * (mtu - TCP_HEADERS) / (mtu + FRAME_BYTES + tag))
    };
    let arrived = symptoms.receiver.rate(unit).filter(|arrived| *arrived >= FULL * possible)?;
    let evidence = vec![
        end.setting(format!("speed of {}", facts.name), wording::rate(speed)),
        end.setting(format!("possible with an MTU of {} bytes", facts.mtu), unit.text(possible)),
        symptoms.receiver.setting("arrived", unit.text(arrived)),
    ];
    let advice = "A faster wire, or several of them (bonding), carry more; an MTU of 9000 saves headers, some 4 %.";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
