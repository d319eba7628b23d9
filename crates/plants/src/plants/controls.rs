//! Nothing planted: what may be told is what limits such a load anyway, or that only so much was asked.

use super::{SECOND, nothing};
use crate::plant::{NOTHING, Place, Plant};
use crate::testbed::Middle;

/// Both ends of an unlimited load share the machine's cores.
const CORES: &[&str] = &["cores-full", "sender-bound", "receiver-bound", NOTHING];
const CORES_WHY: &str = "both ends share the cores of one machine";
/// A load that asks for little gets it.
const ASKED: &[&str] = &["rate-asked", NOTHING];

pub(super) const PLANTS: &[Plant] = &[
    control("clean-tcp-1", "TCP, 1 connection", &["-w=tcp-stream", SECOND], CORES),
    control("clean-tcp-4", "TCP, 4", &["-w=tcp-stream", "--streams=4", SECOND], CORES),
    control("clean-tcp-16", "TCP, 16", &["-w=tcp-stream", "--streams=16", SECOND], CORES),
    Plant {
        place: Place::Between(Middle::Router, nothing),
        ..control("clean-tcp-router", "TCP over a router", &["-w=tcp-stream", SECOND], CORES)
    },
    control(
        "clean-tcp-rate",
        "TCP at 100 Mbit/s",
        &["-w=tcp-stream", "--rate=100M", SECOND],
        ASKED,
    ),
    control(
        "clean-udp-rate",
        "datagrams at 50 Mbit/s",
        &["-w=udp-stream", "--rate=50M", SECOND],
        ASKED,
    ),
    control(
        "clean-packet-rate",
        "20 000 small datagrams a second",
        &["-w=packet-rate", "--datagrams-per-second=20000", SECOND],
        ASKED,
    ),
    control(
        "clean-open-loop",
        "1 000 requests a second",
        &["-w=request-response", "--requests-per-second=1000", SECOND],
        ASKED,
    ),
    control("clean-requests", "requests one by one", &["-w=request-response", SECOND], CORES),
];

const fn control(
    name: &'static str,
    about: &'static str,
    load: &'static [&'static str],
    right: &'static [&'static str],
) -> Plant {
    let why = if right.len() == CORES.len() { CORES_WHY } else { "" };
    Plant { name, about, place: Place::Between(Middle::Wire, nothing), load, right, why }
}
