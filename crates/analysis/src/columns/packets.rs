//! Columns of the packet ledger, and of packets hop by hop.

use super::{Column, column};
use crate::ledger::LossPlace;
use crate::result::{CellAnalysis, Hop, HopPlace, Metric};

const DATAGRAMS: &str = "datagrams";
const PACKETS: &str = "1/s";

/// What the ledger says of a trial as a whole, warm-up included, and what streams' packets weigh.
pub(super) const COLUMNS: &[Column] = &[
    column("ledger_sent", DATAGRAMS, "sent, warm-up included", |c| {
        Some(&c.ledger_trials.as_ref()?.sent)
    }),
    column("ledger_lost", DATAGRAMS, "of those, lost anywhere", |c| {
        Some(&c.ledger_trials.as_ref()?.lost)
    }),
    column("ledger_unaccounted", DATAGRAMS, "lost, but no counter tells where", |c| {
        Some(&c.ledger_trials.as_ref()?.unaccounted)
    }),
    column(
        "lost_at_sender_socket",
        DATAGRAMS,
        "lost between the sender's socket and its interface",
        |c| at(c, LossPlace::SenderSocket),
    ),
    column("lost_at_sender_qdisc", DATAGRAMS, "lost by the sender's queueing discipline", |c| {
        at(c, LossPlace::SenderQdisc)
    }),
    column("lost_at_sender_interface", DATAGRAMS, "lost by the sender's interface", |c| {
        at(c, LossPlace::SenderInterface)
    }),
    column("lost_at_guest_output", DATAGRAMS, "lost on the way out of the guest", |c| {
        at(c, LossPlace::GuestOutput)
    }),
    column("lost_at_host_backlog", DATAGRAMS, "lost as a backlog of the host was full", |c| {
        at(c, LossPlace::HostBacklog)
    }),
    column("lost_at_switch", DATAGRAMS, "lost by the switch, or a packet filter in it", |c| {
        at(c, LossPlace::Switch)
    }),
    column(
        "lost_at_port_qdisc",
        DATAGRAMS,
        "lost by the queueing discipline of the switch's port",
        |c| at(c, LossPlace::PortQdisc),
    ),
    column("lost_at_port", DATAGRAMS, "lost by the switch's port", |c| at(c, LossPlace::Port)),
    column("lost_at_tap_queue", DATAGRAMS, "lost as the tap's queue was full", |c| {
        at(c, LossPlace::TapQueue)
    }),
    column("lost_at_network", DATAGRAMS, "lost between the two machines", |c| {
        at(c, LossPlace::Network)
    }),
    column("lost_at_receiver_interface", DATAGRAMS, "lost by the receiver's interface", |c| {
        at(c, LossPlace::ReceiverInterface)
    }),
    column(
        "lost_at_receiver_backlog",
        DATAGRAMS,
        "lost as a backlog of the receiver was full",
        |c| at(c, LossPlace::ReceiverBacklog),
    ),
    column("lost_at_conntrack", DATAGRAMS, "lost by the receiver's connection tracking", |c| {
        at(c, LossPlace::Conntrack)
    }),
    column("lost_at_receiver_filter", DATAGRAMS, "lost by the receiver's packet filter", |c| {
        at(c, LossPlace::ReceiverFilter)
    }),
    column("lost_at_receiver_internet", DATAGRAMS, "lost by the receiver's Internet layer", |c| {
        at(c, LossPlace::ReceiverInternet)
    }),
    column("lost_at_receiver_socket", DATAGRAMS, "lost as the receiver's socket was full", |c| {
        at(c, LossPlace::ReceiverSocket)
    }),
    column("lost_at_receiver_udp", DATAGRAMS, "lost by the receiver's UDP", |c| {
        at(c, LossPlace::ReceiverUdp)
    }),
    column(
        "lost_at_too_late",
        DATAGRAMS,
        "lost that waited in a queue when the load had ended",
        |c| at(c, LossPlace::TooLate),
    ),
    column(
        "sender_tcp_bytes_per_segment",
        "B",
        "payload per segment that the sender's TCP sent",
        |c| hop(c, HopPlace::SenderTcp),
    ),
    column(
        "switch_in_bytes_per_packet",
        "B",
        "bytes per packet of a stream, into the switch",
        |c| hop(c, HopPlace::SwitchIn),
    ),
    column(
        "switch_out_bytes_per_packet",
        "B",
        "bytes per packet of a stream, out of the switch",
        |c| hop(c, HopPlace::SwitchOut),
    ),
    column(
        "receiver_tcp_bytes_per_packet",
        "B",
        "payload per packet that the receiver's TCP was given",
        |c| hop(c, HopPlace::ReceiverTcp),
    ),
    column("sender_packets_per_second", PACKETS, "packets out of the sender's interface", |c| {
        packets(c, HopPlace::SenderInterface)
    }),
    column("switch_in_packets_per_second", PACKETS, "packets into the switch", |c| {
        packets(c, HopPlace::SwitchIn)
    }),
    column("switch_out_packets_per_second", PACKETS, "packets out of the switch", |c| {
        packets(c, HopPlace::SwitchOut)
    }),
    column("receiver_packets_per_second", PACKETS, "packets into the receiver's interface", |c| {
        packets(c, HopPlace::ReceiverInterface)
    }),
];

/// Absent where no trial of the cell lost any there.
fn at(cell: &CellAnalysis, place: LossPlace) -> Option<&Metric> {
    cell.ledger_trials.as_ref()?.places.get(&place)
}

fn hop(cell: &CellAnalysis, place: HopPlace) -> Option<&Metric> {
    Some(&passed(cell, place)?.bytes_per_packet)
}

fn packets(cell: &CellAnalysis, place: HopPlace) -> Option<&Metric> {
    Some(&passed(cell, place)?.packets_per_second)
}

/// Of payload that goes one way.
fn passed(cell: &CellAnalysis, place: HopPlace) -> Option<&Hop> {
    match cell.hops.as_slice() {
        [way] => way.at(place),
        _ => None,
    }
}
