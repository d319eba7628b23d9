//! What each layer of the way has counted: interrupts, backlogs, queueing disciplines, interfaces, sockets.

use super::{Column, OF_CORE, PERCENT, column};
use crate::result::{CellAnalysis, MachineLayers, Metric};

pub(super) const COLUMNS: &[Column] = &[
    column(
        "host_softnet_dropped",
        "packets",
        "dropped as the backlog of one of the host's cores was full",
        |c| Some(&c.layers.host.softnet_dropped),
    ),
    column(
        "guest_softnet_dropped",
        "packets",
        "dropped as the backlog of one of the guest's cores was full",
        |c| guest_layers(c, |g| &g.softnet_dropped),
    ),
    column("host_softnet_squeezed", "times", "that the host left packets for later", |c| {
        Some(&c.layers.host.softnet_squeezed)
    }),
    column("guest_softnet_squeezed", "times", "that the guest left packets for later", |c| {
        guest_layers(c, |g| &g.softnet_squeezed)
    }),
    column(
        "host_receive_soft_interrupts_per_second",
        "1/s",
        "soft interrupts for receiving, of all the host's cores",
        |c| Some(&c.layers.host.receive_soft_interrupts_per_second),
    ),
    column(
        "guest_receive_soft_interrupts_per_second",
        "1/s",
        "soft interrupts for receiving, of all the guest's cores",
        |c| guest_layers(c, |g| &g.receive_soft_interrupts_per_second),
    ),
    column("host_interrupts_per_second", "1/s", "interrupts, of all the host's cores", |c| {
        Some(&c.layers.host.interrupts_per_second)
    }),
    column("guest_interrupts_per_second", "1/s", "interrupts, of all the guest's cores", |c| {
        guest_layers(c, |g| &g.interrupts_per_second)
    }),
    column("guest_nic_interrupts_per_second", "1/s", "interrupts of the guest's NIC", |c| {
        guest_layers(c, |g| &g.network_interrupts_per_second)
    }),
    column("sender_qdisc_dropped", "packets", "by the sender's queueing disciplines", |c| {
        Some(&c.layers.path.sender_qdisc_dropped)
    }),
    column("sender_interface_dropped", "packets", "by the sender's interfaces", |c| {
        Some(&c.layers.path.sender_interface_dropped)
    }),
    column(
        "switch_qdisc_dropped",
        "packets",
        "by the queueing disciplines of the switch's ports and of taps",
        |c| Some(&c.layers.path.switch_qdisc_dropped),
    ),
    column("switch_interface_dropped", "packets", "by the switch, its ports and taps", |c| {
        Some(&c.layers.path.switch_interface_dropped)
    }),
    column("receiver_interface_dropped", "packets", "by the receiver's interfaces", |c| {
        Some(&c.layers.path.receiver_interface_dropped)
    }),
    column(
        "host_cpu_stalled_percent",
        PERCENT,
        "time in which some task of the host waited for a core",
        |c| Some(&c.layers.host.cpu_stalled_percent),
    ),
    column(
        "guest_cpu_stalled_percent",
        PERCENT,
        "time in which some task of the guest waited for a core",
        |c| guest_layers(c, |g| &g.cpu_stalled_percent),
    ),
    column(
        "receiver_udp_buffer_errors",
        "datagrams",
        "that the receiver's kernel dropped for want of room in a socket (UdpRcvbufErrors)",
        |c| Some(&c.layers.sockets.receiver_udp_buffer_errors),
    ),
    column(
        "receiver_udp_no_port",
        "datagrams",
        "that came to the receiver but to no socket (UdpNoPorts)",
        |c| Some(&c.layers.sockets.receiver_udp_no_port),
    ),
    column(
        "sender_udp_buffer_errors",
        "datagrams",
        "that the sender's sockets had no room for (UdpSndbufErrors)",
        |c| Some(&c.layers.sockets.sender_udp_buffer_errors),
    ),
    column("sender_tcp_timeouts", "time-outs", "of retransmission (TCPTimeouts)", |c| {
        Some(&c.layers.sockets.sender_tcp_timeouts)
    }),
    column("receiver_tcp_dropped", "segments", "that the receiver's sockets dropped", |c| {
        Some(&c.layers.sockets.receiver_tcp_dropped)
    }),
    column("qemu_switches_per_second", "1/s", "context switches of QEMU's threads", |c| {
        c.layers.qemu_switches_per_second.as_ref()
    }),
    column("host_sampler_percent_of_core", OF_CORE, "what taking samples cost the host", |c| {
        Some(&c.layers.host.sampler_percent_of_core)
    }),
    column("guest_sampler_percent_of_core", OF_CORE, "what taking samples cost the guest", |c| {
        guest_layers(c, |g| &g.sampler_percent_of_core)
    }),
];

fn guest_layers(cell: &CellAnalysis, read: fn(&MachineLayers) -> &Metric) -> Option<&Metric> {
    cell.layers.guest.as_ref().map(read)
}
