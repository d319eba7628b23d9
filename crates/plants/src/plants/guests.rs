//! Guests in a lab that vioperf makes itself.

use crate::plant::{Place, Plant};

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        name: "guest-e1000",
        about: "a guest with an emulated e1000, TCP to it",
        place: Place::Lab(E1000, 0),
        load: &[],
        right: &["main-loop-full", "vcpu-full"],
        why: "QEMU's main loop emulates the card, and under software emulation the virtual CPU costs more",
    },
    Plant {
        name: "guest-link-shaped",
        about: "a guest with virtio behind a link of 50 Mbit/s, TCP to it",
        place: Place::Lab(SHAPED, 0),
        load: &[],
        right: &["shaper", "wire-rate"],
        why: "the lab's own link of a known rate is a wire as well as a token bucket",
    },
    Plant {
        name: "guest-beside-hogs",
        about: "a guest with virtio, other programs burn every core with two threads, TCP to it",
        place: Place::Lab(VIRTIO, 2),
        load: &[],
        right: &["noisy-neighbour"],
        why: "",
    },
];

pub(super) const CONTROLS: &[Plant] = &[Plant {
    name: "clean-guest-virtio",
    about: "a guest with virtio, TCP to it",
    place: Place::Lab(VIRTIO, 0),
    load: &[],
    right: &["vcpu-full", "cores-full", "main-loop-full", "vhost-full"],
    why: "an unlimited load ends where a guest's or QEMU's cores do",
}];

const E1000: &str = "\
name = \"plant\"
question = \"What limits it?\"
[workload]
kind = \"tcp-stream\"
duration = \"1s\"
warmup = \"300ms\"
[factors]
nic = \"e1000\"
[repeat]
blocks = 3
";

const VIRTIO: &str = "\
name = \"plant\"
question = \"What limits it?\"
[workload]
kind = \"tcp-stream\"
duration = \"1s\"
warmup = \"300ms\"
[factors]
nic = \"virtio\"
[repeat]
blocks = 3
";

const SHAPED: &str = "\
name = \"plant\"
question = \"What limits it?\"
[testbed]
rate = \"50 Mbit/s\"
[workload]
kind = \"tcp-stream\"
duration = \"1s\"
warmup = \"300ms\"
[factors]
nic = \"virtio\"
[repeat]
blocks = 3
";
