//! Rules that decide nothing, but that packets are held against.

use anyhow::Result;

use super::SECOND;
use crate::plant::{NOTHING, Place, Plant};
use crate::testbed::{Middle, Testbed};

/// What each asks: no packet of a test comes from there (RFC 5737).
const RULE: &str = "ip saddr 203.0.113.9 drop;";
/// An argument of a program has 128 KiB at most.
const RULES: usize = 4_000;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "firewall-of-4000-rules-udp",
        about: "the receiver's own firewall holds every packet against 4000 rules, as many small datagrams as possible",
        place: Place::Between(Middle::Wire, at_receiver),
        load: &["-w=packet-rate", SECOND],
        right: &["firewall-rules"],
        why: "",
    },
    Plant {
        name: "firewall-of-4000-rules-tcp",
        about: "the sender's own firewall, what goes out, TCP in messages of 1 KiB",
        place: Place::Between(Middle::Wire, at_sender),
        load: &["-w=tcp-stream", "--message-size=1KiB", "--nodelay=true", SECOND],
        right: &["firewall-rules"],
        why: "",
    },
    Plant {
        name: "firewall-of-4000-rules-requests",
        about: "the server's own firewall, what comes in, requests one by one",
        place: Place::Between(Middle::Wire, at_receiver),
        load: &["-w=request-response", SECOND],
        right: &["firewall-rules"],
        why: "",
    },
];

pub(super) const CONTROLS: &[Plant] = &[Plant {
    name: "clean-firewall-behind-a-rule",
    about: "4000 rules behind one that accepts established connections, TCP",
    place: Place::Between(Middle::Wire, behind_a_rule),
    load: &["-w=tcp-stream", SECOND],
    right: &["cores-full", "sender-bound", "receiver-bound", NOTHING],
    why: "both ends share the cores of one machine",
}];

fn chain(hook: &str, first: &str) -> String {
    let rules = RULE.repeat(RULES);
    format!(
        "table inet planted {{ chain c {{ type filter hook {hook} priority 0; {first} {rules} }}; }}"
    )
}

fn at_receiver(testbed: &mut Testbed) -> Result<()> {
    testbed.server.run("nft", &[&chain("input", "")]).map(drop)
}

fn at_sender(testbed: &mut Testbed) -> Result<()> {
    testbed.client.run("nft", &[&chain("output", "")]).map(drop)
}

fn behind_a_rule(testbed: &mut Testbed) -> Result<()> {
    let first = "ct state established,related accept;";
    testbed.server.run("nft", &[&chain("input", first)]).map(drop)
}
