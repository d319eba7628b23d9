//! Links that are slower than what is offered.

use anyhow::Result;

use super::{CUBIC, SECOND};
use crate::namespace::Namespace;
use crate::plant::{Place, Plant};
use crate::testbed::{Middle, Testbed, WIRE};

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "tbf-at-sender-tcp",
        about: "a token bucket of 100 Mbit/s on the sender's own interface, TCP",
        place: Place::Between(Middle::Wire, at_sender),
        load: &["-w=tcp-stream", SECOND],
        right: &["shaper"],
        why: "",
    },
    Plant {
        name: "tbf-at-sender-udp",
        about: "the same, datagrams at 200 Mbit/s",
        place: Place::Between(Middle::Wire, at_sender),
        load: &["-w=udp-stream", "--rate=200M", SECOND],
        right: &["shaper"],
        why: "",
    },
    Plant {
        name: "tbf-at-server-from",
        about: "a token bucket of 50 Mbit/s on the server's own interface, TCP from there",
        place: Place::Between(Middle::Wire, at_server),
        load: &["-w=tcp-stream", "--direction=from", SECOND],
        right: &["shaper"],
        why: "",
    },
    Plant {
        name: "tbf-in-the-middle-tcp",
        about: "a token bucket of 200 Mbit/s in a router, which neither end sees, 4 connections",
        place: Place::Between(Middle::Router, in_the_middle),
        load: &["-w=tcp-stream", "--streams=4", SECOND],
        right: &["shaper"],
        why: "",
    },
    Plant {
        name: "tbf-in-the-middle-udp",
        about: "the same, datagrams at 300 Mbit/s",
        place: Place::Between(Middle::Router, in_the_middle),
        load: &["-w=udp-stream", "--rate=300M", SECOND],
        right: &["shaper", "loss-in-path"],
        why: "the ends see datagrams missing, and only by their even rate that it is a shaper",
    },
    Plant {
        name: "policer-in-the-middle-tcp",
        about: "a policer in a router drops what is above 12.5 MB/s, TCP",
        place: Place::Between(Middle::Router, police),
        load: &["-w=tcp-stream", CUBIC, SECOND],
        right: &["shaper", "congestion-by-loss"],
        why: "it does not queue: what the sender sees of it is loss",
    },
    Plant {
        name: "policer-in-the-middle-udp",
        about: "the same, datagrams at 300 Mbit/s",
        place: Place::Between(Middle::Router, police),
        load: &["-w=udp-stream", "--rate=300M", SECOND],
        right: &["shaper", "loss-in-path"],
        why: "as the token bucket's",
    },
    Plant {
        name: "tbf-one-way",
        about: "a token bucket of 50 Mbit/s on the server's interface, TCP both ways at once",
        place: Place::Between(Middle::Wire, at_server),
        load: &["-w=tcp-stream", "--direction=both", SECOND],
        right: &["shaper", "direction-asymmetry"],
        why: "one way is shaped, so that they differ",
    },
];

/// 10 ms of the rate may leave at once; 50 ms of it wait.
fn bucket(at: &Namespace, interface: &str, mbit: u32) -> Result<()> {
    let burst = mbit * 1_000_000 / 8 / 100;
    let bucket = format!(
        "qdisc add dev {interface} root tbf rate {mbit}mbit burst {burst} limit {}",
        burst * 5
    );
    at.tell("tc", &bucket).map(drop)
}

fn at_sender(testbed: &mut Testbed) -> Result<()> {
    bucket(&testbed.client, WIRE, 100)
}

fn at_server(testbed: &mut Testbed) -> Result<()> {
    bucket(&testbed.server, WIRE, 50)
}

fn in_the_middle(testbed: &mut Testbed) -> Result<()> {
    bucket(testbed.between()?, "server", 200)
}

fn police(testbed: &mut Testbed) -> Result<()> {
    let rules = "table ip police { chain forward { type filter hook forward priority 0; \
                 oifname server limit rate over 12500 kbytes/second burst 250 kbytes drop; }; }";
    testbed.between()?.run("nft", &[rules]).map(drop)
}
