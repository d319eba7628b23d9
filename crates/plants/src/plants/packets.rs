//! Packets that are smaller, larger or more than they need to be.

use std::time::Duration;

use anyhow::Result;

use super::{SECOND, nothing};
use crate::namespace::Namespace;
use crate::plant::{Place, Plant};
use crate::testbed::{Middle, Testbed, WIRE};
use crate::undo::MachineParameter;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "mtu-576",
        about: "an MTU of 576 everywhere, over a router without offloads, TCP",
        place: Place::Between(Middle::Router, mtu_576),
        load: &["-w=tcp-stream", SECOND],
        right: &["mtu-small"],
        why: "",
    },
    Plant {
        name: "mtu-1280-in-the-middle",
        about: "an MTU of 1280 in a router without offloads, ends of 1500, TCP",
        place: Place::Between(Middle::Router, mtu_1280_between),
        load: &["-w=tcp-stream", SECOND],
        right: &["mtu-small"],
        why: "",
    },
    Plant {
        name: "mtu-1500-between-jumbo-ends",
        about: "an MTU of 1500 in a router without offloads, ends of 9000, TCP",
        place: Place::Between(Middle::Router, jumbo_ends),
        load: &["-w=tcp-stream", SECOND],
        right: &["mtu-small"],
        why: "",
    },
    Plant {
        name: "fragmentation",
        about: "requests of 8 KiB in one UDP datagram at an MTU of 1500, 8 under way",
        place: Place::Between(Middle::Wire, nothing),
        load: &[
            "-w=request-response",
            "--transport=udp",
            "--request-size=8 KiB",
            "--outstanding=8",
            SECOND,
        ],
        right: &["fragmentation"],
        why: "",
    },
    Plant {
        name: "offload-of-segments-off",
        about: "tso and gso off at the sender, TCP",
        place: Place::Between(Middle::Wire, segments_off),
        load: &["-w=tcp-stream", SECOND],
        right: &["offload-off"],
        why: "",
    },
    Plant {
        name: "offload-of-checksums-off",
        about: "checksums off at the sender, and with them tso, TCP",
        place: Place::Between(Middle::Wire, checksums_off),
        load: &["-w=tcp-stream", SECOND],
        right: &["offload-off"],
        why: "",
    },
    Plant {
        name: "offload-of-merging-off",
        about: "a router that cuts segments to the MTU, gro off at the receiver, TCP",
        place: Place::Between(Middle::Router, merging_off),
        load: &["-w=tcp-stream", SECOND],
        right: &["offload-off"],
        why: "",
    },
    Plant {
        name: "tap-read-slowly",
        about: "the sender's interface is a tap with a queue of 16, whose reader stands still for 20 ms at a time, \
                datagrams at 50 Mbit/s",
        place: Place::Between(Middle::Taps { pause: Duration::from_millis(20) }, small_queue),
        load: &["-w=udp-stream", "--rate=50M", SECOND],
        right: &["ring-full"],
        why: "",
    },
    Plant {
        name: "small-receive-buffer",
        about: "a receive buffer of 8 KiB, as many small datagrams as possible",
        place: Place::Between(Middle::Wire, nothing),
        load: &["-w=packet-rate", "--socket-buffer=8 KiB", SECOND],
        right: &["receiver-bound"],
        why: "",
    },
    Plant {
        name: "shared-socket",
        about: "two threads read one UDP socket with a buffer of 32 KiB, as many small datagrams as possible",
        place: Place::Between(Middle::Wire, nothing),
        load: &[
            "-w=packet-rate",
            "--receivers=shared",
            "--streams=4",
            "--threads=2",
            "--socket-buffer=32 KiB",
            SECOND,
        ],
        right: &["receive-lock-contention", "receiver-bound"],
        why: "the buffer is small, too, so that the socket overflows on a machine of two cores",
    },
    Plant {
        name: "backlog-full",
        about: "net.core.netdev_max_backlog of 1, bursts of 64 datagrams are steered to the other core",
        place: Place::Between(Middle::Wire, small_backlog),
        load: &[
            "-w=packet-rate",
            "--datagrams-per-second=100000",
            "--burst=64",
            "--sender-cpus=0",
            "--receiver-cpus=1",
            SECOND,
        ],
        right: &["softnet-backlog-full"],
        why: "",
    },
];

fn mtu(at: &Namespace, interface: &str, mtu: u32) -> Result<()> {
    at.tell("ip", &format!("link set {interface} mtu {mtu}")).map(drop)
}

/// What it sends is cut to packets of the MTU there, which costs it for each.
fn without_offloads(router: &Namespace) -> Result<()> {
    for interface in ["client", "server"] {
        router.tell("ethtool", &format!("-K {interface} tso off gso off"))?;
    }
    Ok(())
}

fn mtu_576(testbed: &mut Testbed) -> Result<()> {
    let router = testbed.between()?;
    without_offloads(router)?;
    for (at, interface) in
        [(&testbed.client, WIRE), (router, "client"), (router, "server"), (&testbed.server, WIRE)]
    {
        mtu(at, interface, 576)?;
    }
    Ok(())
}

/// Neither of its interfaces is smaller: the ends learn it from what it answers (RFC 1191).
fn narrow(router: &Namespace, mtu: u32) -> Result<()> {
    without_offloads(router)?;
    for (network, interface) in [("198.18.1.0/24", "client"), ("198.19.1.0/24", "server")] {
        router.tell("ip", &format!("route replace {network} dev {interface} mtu lock {mtu}"))?;
    }
    Ok(())
}

fn mtu_1280_between(testbed: &mut Testbed) -> Result<()> {
    narrow(testbed.between()?, 1280)
}

fn jumbo_ends(testbed: &mut Testbed) -> Result<()> {
    let router = testbed.between()?;
    for (at, interface) in
        [(&testbed.client, WIRE), (router, "client"), (router, "server"), (&testbed.server, WIRE)]
    {
        mtu(at, interface, 9000)?;
    }
    narrow(router, 1500)
}

fn segments_off(testbed: &mut Testbed) -> Result<()> {
    testbed.client.tell("ethtool", &format!("-K {WIRE} tso off gso off")).map(drop)
}

fn checksums_off(testbed: &mut Testbed) -> Result<()> {
    testbed.client.tell("ethtool", &format!("-K {WIRE} tx off")).map(drop)
}

fn merging_off(testbed: &mut Testbed) -> Result<()> {
    without_offloads(testbed.between()?)?;
    testbed.server.tell("ethtool", &format!("-K {WIRE} gro off")).map(drop)
}

fn small_queue(testbed: &mut Testbed) -> Result<()> {
    testbed.client.tell("ip", &format!("link set {WIRE} txqueuelen 16")).map(drop)
}

fn small_backlog(testbed: &mut Testbed) -> Result<()> {
    let steering = format!("/sys/class/net/{WIRE}/queues/rx-0/rps_cpus");
    testbed.server.write(&steering, "2")?;
    let backlog = MachineParameter::set("net.core.netdev_max_backlog", "1")?;
    testbed.keep(backlog);
    Ok(())
}
