//! Paths that take time, and windows that are too small for them.

use anyhow::Result;

use super::{SECOND, nothing, slow};
use crate::plant::{Place, Plant};
use crate::testbed::Testbed;

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "window-by-option",
        about: "a path of 20 ms, socket buffers of 64 KiB that the load asks for, TCP",
        place: Place::Between(slow(10), nothing),
        load: &["-w=tcp-stream", "--socket-buffer=64 KiB", SECOND],
        right: &["window-small"],
        why: "",
    },
    Plant {
        name: "window-by-receiver",
        about: "the same path, net.ipv4.tcp_rmem of the receiver ends at 64 KiB",
        place: Place::Between(slow(10), small_receive),
        load: &["-w=tcp-stream", SECOND],
        right: &["window-small"],
        why: "",
    },
    Plant {
        name: "window-by-sender",
        about: "the same path, net.ipv4.tcp_wmem of the sender ends at 64 KiB",
        place: Place::Between(slow(10), small_send),
        load: &["-w=tcp-stream", SECOND],
        right: &["window-small"],
        why: "",
    },
    Plant {
        name: "delay-of-requests-tcp",
        about: "a path of 10 ms, requests one by one over TCP",
        place: Place::Between(slow(5), nothing),
        load: &["-w=request-response", SECOND],
        right: &["path-delay"],
        why: "",
    },
    Plant {
        name: "delay-of-requests-udp",
        about: "a path of 4 ms, requests one by one over UDP",
        place: Place::Between(slow(2), nothing),
        load: &["-w=request-response", "--transport=udp", SECOND],
        right: &["path-delay"],
        why: "",
    },
];

fn small_receive(testbed: &mut Testbed) -> Result<()> {
    testbed.server.set("net.ipv4.tcp_rmem", "4096 16384 65536")
}

fn small_send(testbed: &mut Testbed) -> Result<()> {
    testbed.client.set("net.ipv4.tcp_wmem", "4096 16384 65536")
}
