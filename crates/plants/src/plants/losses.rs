//! Packets that are dropped on their way.

use anyhow::Result;

use super::{CUBIC, SECOND, lossy};
use crate::namespace::Namespace;
use crate::plant::{Place, Plant};
use crate::testbed::{Middle, Testbed};
use crate::undo::MachineParameter;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "loss-1-percent-tcp",
        about: "a path of 4 ms that loses 1 % of all frames, TCP",
        place: Place::Between(lossy(2, 100), super::nothing),
        load: &["-w=tcp-stream", CUBIC, SECOND],
        right: &["congestion-by-loss"],
        why: "",
    },
    Plant {
        name: "loss-0.1-percent-tcp",
        about: "a path of 10 ms that loses 0.1 %, TCP",
        place: Place::Between(lossy(5, 1000), super::nothing),
        load: &["-w=tcp-stream", CUBIC, "--duration=2s"],
        right: &["congestion-by-loss"],
        why: "",
    },
    Plant {
        name: "loss-in-a-router-tcp",
        about: "a router that drops 1 % at random, no delay, TCP",
        place: Place::Between(Middle::Router, in_router),
        load: &["-w=tcp-stream", CUBIC, SECOND],
        right: &["congestion-by-loss"],
        why: "",
    },
    Plant {
        name: "loss-in-a-router-udp",
        about: "the same, datagrams at 50 Mbit/s",
        place: Place::Between(Middle::Router, in_router),
        load: &["-w=udp-stream", "--rate=50M", SECOND],
        right: &["loss-in-path"],
        why: "",
    },
    Plant {
        name: "loss-without-sack",
        about: "the same, selective acknowledgements off, TCP",
        place: Place::Between(Middle::Router, without_sack),
        load: &["-w=tcp-stream", CUBIC, SECOND],
        right: &["congestion-by-loss"],
        why: "",
    },
    Plant {
        name: "connections-table-full",
        about: "the receiver tracks connections and has room for 8, 64 flows of datagrams",
        place: Place::Between(Middle::Wire, few_connections),
        load: &["-w=udp-stream", "--streams=64", "--rate=1M", SECOND],
        right: &["firewall"],
        why: "",
    },
    Plant {
        name: "firewall-drops-at-random",
        about: "a rule of the receiver's own firewall drops 2 % of the datagrams",
        place: Place::Between(Middle::Wire, at_receiver),
        load: &["-w=udp-stream", "--rate=50M", SECOND],
        right: &["firewall"],
        why: "",
    },
    Plant {
        name: "firewall-limits-the-rate",
        about: "a rule of the receiver's own firewall drops what is above 2000 datagrams a second",
        place: Place::Between(Middle::Wire, limited_at_receiver),
        load: &["-w=udp-stream", "--rate=50M", SECOND],
        right: &["firewall", "shaper"],
        why: "a policer made of firewall rules is both",
    },
];

fn rule(at: &Namespace, hook: &str, rule: &str) -> Result<()> {
    let rules = format!(
        "table inet planted {{ chain c {{ type filter hook {hook} priority 0; {rule}; }}; }}"
    );
    at.run("nft", &[&rules]).map(drop)
}

/// The control channel is TCP to 5210: it is let through.
fn in_router(testbed: &mut Testbed) -> Result<()> {
    rule(
        testbed.between()?,
        "forward",
        "tcp dport 5210 accept; tcp sport 5210 accept; numgen random mod 100 == 0 drop",
    )
}

fn without_sack(testbed: &mut Testbed) -> Result<()> {
    for end in [&testbed.client, &testbed.server] {
        end.set("net.ipv4.tcp_sack", "0")?;
    }
    in_router(testbed)
}

/// Only datagrams of the load are tracked: not the words before it, which begin with `vioperf1`, nor the
/// control channel.
fn few_connections(testbed: &mut Testbed) -> Result<()> {
    let rules = "table inet planted { \
                 chain in { type filter hook prerouting priority -300; udp length 1478 @th,64,64 != 0x76696f7065726631 accept; notrack; }; \
                 chain out { type filter hook output priority -300; notrack; }; \
                 chain c { type filter hook input priority 0; ct state new counter accept; }; }";
    testbed.server.run("nft", &[rules])?;
    testbed.keep(MachineParameter::set("net.netfilter.nf_conntrack_max", "8")?);
    Ok(())
}

/// Rules count their packets where they are told to.
fn at_receiver(testbed: &mut Testbed) -> Result<()> {
    let random = "meta l4proto udp numgen random mod 50 == 0 counter drop";
    rule(&testbed.server, "input", random)
}

fn limited_at_receiver(testbed: &mut Testbed) -> Result<()> {
    let limit = "meta l4proto udp limit rate over 2000/second counter drop";
    rule(&testbed.server, "input", limit)
}
