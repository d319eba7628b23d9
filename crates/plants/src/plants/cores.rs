//! Ends that are slow: pinned, held to a part of a core, stopped, or with a neighbour.

use anyhow::{Context, Result};

use super::{SECOND, nothing};
use crate::hog::Hog;
use crate::plant::{Place, Plant};
use crate::testbed::{End, Middle, Testbed};
use crate::undo::CpuQuota;

const SENDER: &str = "--sender-cpus=0";
const RECEIVER: &str = "--receiver-cpus=1";
/// Receiving costs next to nothing so.
const DISCARD: &str = "--receive=discard";
const SMALL: &str = "--message-size=64 B";

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "pinned-sender",
        about: "2 connections sent by one core, thrown away unread by the other, TCP",
        place: Place::Between(Middle::Wire, nothing),
        load: &["-w=tcp-stream", DISCARD, SENDER, RECEIVER, "--streams=2", SECOND],
        right: &["sender-bound"],
        why: "",
    },
    Plant {
        name: "sender-with-a-quota",
        about: "a CPU quota of 15 % of a core on the sender's processes, TCP in small messages",
        place: Place::Between(Middle::Wire, sender_quota),
        load: &["-w=tcp-stream", SMALL, SENDER, RECEIVER, SECOND],
        right: &["sender-bound"],
        why: "",
    },
    Plant {
        name: "pinned-receiver",
        about: "2 connections sent from pages that are not copied, received by one core, TCP",
        place: Place::Between(Middle::Wire, nothing),
        load: &["-w=tcp-stream", "--send=splice", SENDER, RECEIVER, "--streams=2", SECOND],
        right: &["receiver-bound"],
        why: "",
    },
    Plant {
        name: "receiver-with-a-quota-udp",
        about: "a CPU quota of 15 % of a core on the receiver's processes, datagrams at 3 Gbit/s",
        place: Place::Between(Middle::Wire, receiver_quota),
        load: &["-w=udp-stream", "--rate=3G", SENDER, RECEIVER, SECOND],
        right: &["receiver-bound"],
        why: "",
    },
    Plant {
        name: "receiver-with-a-quota-tcp",
        about: "the same quota, TCP",
        place: Place::Between(Middle::Wire, receiver_quota),
        load: &["-w=tcp-stream", SENDER, RECEIVER, SECOND],
        right: &["receiver-bound"],
        why: "",
    },
    Plant {
        name: "hog-beside-the-sender",
        about: "another program burns the sender's core with 3 threads, TCP",
        place: Place::Between(Middle::Wire, hog_at_sender),
        load: &["-w=tcp-stream", DISCARD, SENDER, RECEIVER, SECOND],
        right: &["noisy-neighbour"],
        why: "",
    },
    Plant {
        name: "hog-beside-the-receiver",
        about: "another program burns the receiver's core with 3 threads, TCP",
        place: Place::Between(Middle::Wire, hog_at_receiver),
        load: &["-w=tcp-stream", SENDER, RECEIVER, SECOND],
        right: &["noisy-neighbour"],
        why: "",
    },
    Plant {
        name: "stopped-receiver-tcp",
        about: "the receiving process is stopped 40 of every 45 ms, TCP",
        place: Place::Between(Middle::Wire, stop_receiver),
        load: &["-w=tcp-stream", SECOND],
        right: &["receiver-bound"],
        why: "",
    },
    Plant {
        name: "stopped-receiver-udp",
        about: "the same, datagrams at 1.5 Gbit/s",
        place: Place::Between(Middle::Wire, stop_receiver),
        load: &["-w=udp-stream", "--rate=1500M", SECOND],
        right: &["receiver-bound"],
        why: "",
    },
];

fn stop_receiver(testbed: &mut Testbed) -> Result<()> {
    testbed.stops_receiver = true;
    Ok(())
}

fn quota(testbed: &mut Testbed, end: End) -> Result<()> {
    let quota = CpuQuota::new(15)?;
    testbed.put_into(end, quota.path())?;
    testbed.keep(quota);
    Ok(())
}

fn sender_quota(testbed: &mut Testbed) -> Result<()> {
    quota(testbed, End::Client)
}

fn receiver_quota(testbed: &mut Testbed) -> Result<()> {
    quota(testbed, End::Server)
}

/// Three threads: of a core that is shared fairly the end keeps a quarter.
fn hog(testbed: &mut Testbed, core: usize) -> Result<()> {
    testbed.keep(Hog::start(core, 3).context("cannot burn a core")?);
    Ok(())
}

fn hog_at_sender(testbed: &mut Testbed) -> Result<()> {
    hog(testbed, 0)
}

fn hog_at_receiver(testbed: &mut Testbed) -> Result<()> {
    hog(testbed, 1)
}
