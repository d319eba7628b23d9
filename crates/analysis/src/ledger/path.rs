//! The steps on a datagram's way: from the sender's queueing discipline over the switch, where there is
//! one that is seen, to the receiver's socket.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::rest::{MOST, QUIET};
use vioperf_model::switch::port_role;

use super::LossPlace;
use super::counts::{Counts, Queue};
use super::framing::{Framing, times};
use super::settle::Step;
use crate::flow::{Flow, View};
use crate::ports::port_of;
use crate::window::Absent;

/// What the host's cores dropped from their backlogs, less what is accounted for already.
///
/// A backlog that is full when a veth's packet comes is counted three times (`enqueue_to_backlog`,
/// net/core/dev.c; `veth_xmit`, drivers/net/veth.c): by the core (`softnet_stat`, of the whole
/// machine), as `tx_dropped` of the end that sent, and as `rx_dropped` of the end that would have
/// received. `tx_dropped` is taken, as it says on which crossing; that it was the backlog, the core says.
#[derive(Debug)]
pub(super) struct Backlog {
    of_host: u64,
}

impl Backlog {
    /// Without a host that is seen, of the first party: it matters where both are on its machine.
    pub(super) fn of(trial: &TrialRecord) -> Self {
        let host = trial.parties.iter().find(|party| party.place == Place::Host);
        let host = host.or(trial.parties.first());
        let packets = Framing::of(false, 1, false, 0);
        let dropped = host.and_then(|host| Counts::of(host, packets).backlog_dropped());
        Self { of_host: dropped.unwrap_or(0) }
    }

    /// Drops on a crossing from one end of a veth pair to the other: datagrams, and how many a packet is.
    fn crossing(
        &mut self,
        dropped: u64,
        per_packet: f64,
        otherwise: LossPlace,
    ) -> Vec<(LossPlace, u64)> {
        let full = dropped.min(times(self.of_host, per_packet));
        self.of_host = self.of_host.saturating_sub(times(full, 1.0 / per_packet));
        vec![(LossPlace::HostBacklog, full), (otherwise, dropped - full)]
    }
}

/// The steps of a flow whose datagrams are framed so; `sent` of them, of which `arrived` came to the
/// application.
pub(super) fn steps(
    trial: &TrialRecord,
    flow: &Flow<'_>,
    framing: Framing,
    [sent, arrived]: [u64; 2],
    backlog: &mut Backlog,
) -> Result<Vec<Step>, Absent> {
    let (sender, sends_by) = end_of(&flow.sender, "sender", framing)?;
    let (receiver, receives_by) = end_of(&flow.receiver, "receiver", framing)?;
    let host = trial.parties.iter().find(|party| party.place == Place::Host);
    let host = host.map(|host| Counts::of(host, framing));
    let mut steps = Vec::new();
    let queue = sender.queue(sends_by).map(|queue| queue.of_load(sent));
    if let Some(queue) = queue {
        steps.push(Step {
            dropped: vec![(LossPlace::SenderQdisc, queue.dropped)],
            // What waits there when the sender has stopped goes on, if nothing holds it.
            passed: Some(queue.packets + queue.queued),
            else_at: Some(LossPlace::SenderSocket),
            ..Step::default()
        });
    }
    let port = host.and_then(|host| Some((host, port_of(trial, host.party, sender.party.place)?)));
    steps.push(match port {
        Some((host, port)) => into_switch(&sender, sends_by, queue, &host, port, backlog),
        None => out_of_machine(&sender, sends_by, queue, backlog),
    });
    if let Some(host) = host
        && let Some(port) = port_of(trial, host.party, receiver.party.place)
    {
        out_of_switch(&mut steps, &host, port, backlog);
    }
    let at_rest = is_at_rest(&sender, &receiver);
    receive(&mut steps, host.is_some(), at_rest, &receiver, receives_by);
    into_socket(&mut steps, framing, arrived, &receiver);
    Ok(steps)
}

/// A party of a flow, and its interface under test.
fn end_of<'a>(
    view: &View<'a>,
    who: &str,
    framing: Framing,
) -> Result<(Counts<'a>, &'a str), Absent> {
    let party: &Party = view.party.ok_or_else(|| format!("{who}: not in the record"))?;
    let facts = party.interface.as_ref();
    let facts = facts.ok_or_else(|| format!("{who}: its interface is not in the record"))?;
    if party.report.layers.len() < 2 {
        return Err(format!("{who}: counters of layers are not in the record").into());
    }
    Ok((Counts::of(party, framing), facts.name.as_str()))
}

/// From the sender's queueing discipline, or from its socket, to the switch.
fn into_switch(
    sender: &Counts<'_>,
    sends_by: &str,
    queue: Option<Queue>,
    host: &Counts<'_>,
    port: &str,
    backlog: &mut Backlog,
) -> Step {
    let own = sender.interface(sends_by);
    let arrived = host.interface(port);
    let from_guest = sender.party.place.is_in_guest();
    let dropped = own.map_or(0, |own| own.tx_dropped);
    let mut step = Step {
        at_most: vec![(LossPlace::TooLate, queue.map_or(0, |queue| queue.queued))],
        passed: arrived.map(|port| port.rx_packets),
        ..Step::default()
    };
    if from_guest {
        step.dropped.push((LossPlace::SenderInterface, dropped));
        // The tap's (`tun_get_user`, drivers/net/tun.c): no memory, or a damaged header.
        let of_tap = arrived.map_or(0, |tap| tap.rx_dropped);
        step.at_most.push((LossPlace::GuestOutput, of_tap));
        step.else_at = Some(LossPlace::GuestOutput);
    } else {
        let per_packet = sender.per_packet_sent(sends_by);
        step.dropped = backlog.crossing(dropped, per_packet, LossPlace::SenderInterface);
        // A veth loses nothing without counting it.
        step.else_at = queue.is_none().then_some(LossPlace::SenderSocket);
    }
    step
}

/// To the sender's interface, where nothing is seen behind it.
fn out_of_machine(
    sender: &Counts<'_>,
    sends_by: &str,
    queue: Option<Queue>,
    backlog: &mut Backlog,
) -> Step {
    let own = sender.interface(sends_by);
    let dropped = own.map_or(0, |own| own.tx_dropped);
    let driver = sender.party.interface.as_ref().and_then(|facts| facts.driver.as_deref());
    Step {
        dropped: match driver {
            // The other end is another namespace of the same machine.
            Some("veth") => {
                let per_packet = sender.per_packet_sent(sends_by);
                backlog.crossing(dropped, per_packet, LossPlace::SenderInterface)
            }
            _ => vec![(LossPlace::SenderInterface, dropped)],
        },
        // Drivers count a packet as sent when the card has told so, or later: of what has left the
        // queueing discipline it is not known then.
        passed: own.map(|own| own.tx_packets).filter(|_| queue.is_none()),
        else_at: Some(LossPlace::SenderSocket),
        ..Step::default()
    }
}

/// Over the switch, and out by a port of it.
fn out_of_switch(steps: &mut Vec<Step>, host: &Counts<'_>, port: &str, backlog: &mut Backlog) {
    let Some(out) = host.interface(port) else { return };
    // A ring that the switch writes itself: what it found no room for, it counts as a tap does.
    let is_tap = ["tap", "vhost"].iter().any(|kind| port_role(port).starts_with(kind));
    let queue = host.queue(port);
    let entered = match queue {
        Some(queue) => queue.packets + queue.dropped + queue.queued,
        None => out.tx_packets.saturating_add(out.tx_dropped),
    };
    steps.push(Step { passed: Some(entered), else_at: Some(LossPlace::Switch), ..Step::default() });
    if let Some(queue) = queue {
        steps.push(Step {
            dropped: vec![
                (LossPlace::PortQdisc, queue.dropped),
                (LossPlace::TooLate, queue.queued),
            ],
            passed: Some(queue.packets),
            ..Step::default()
        });
    }
    steps.push(Step {
        dropped: match is_tap {
            // Its queue is full: `tun_net_xmit`, drivers/net/tun.c.
            true => vec![(LossPlace::TapQueue, out.tx_dropped)],
            false => backlog.crossing(out.tx_dropped, host.per_packet_sent(port), LossPlace::Port),
        },
        // Of a tap: that QEMU or vhost has read. What else came to it waits in its queue.
        passed: Some(out.tx_packets),
        else_at: is_tap.then_some(LossPlace::TooLate),
        ..Step::default()
    });
}

/// From the receiver's interface to its UDP.
fn receive(
    steps: &mut Vec<Step>,
    has_host: bool,
    at_rest: bool,
    receiver: &Counts<'_>,
    receives_by: &str,
) {
    let own = receiver.interface(receives_by);
    let is_ipv6 = receiver.receives_by_ipv6();
    let is_guest = receiver.party.place.is_in_guest();
    steps.push(Step {
        // Packets that the kernel drops behind the card are counted so too, but have passed.
        at_most: vec![(LossPlace::ReceiverInterface, own.map_or(0, |own| own.rx_dropped))],
        passed: own.map(|own| own.rx_packets),
        // A veth loses nothing on the way; a card may, and its ring holds some of what comes.
        else_at: Some(match (has_host, is_guest && at_rest) {
            (false, _) => LossPlace::Network,
            (true, true) => LossPlace::ReceiverInterface,
            (true, false) => LossPlace::TooLate,
        }),
        ..Step::default()
    });
    let backlog = if is_guest || !has_host { receiver.backlog_dropped() } else { None };
    steps.push(Step {
        at_most: vec![
            (
                LossPlace::ReceiverBacklog,
                times(backlog.unwrap_or(0), receiver.per_packet_received(receives_by)),
            ),
            (LossPlace::ReceiverFilter, receiver.dropped_at_ingress(receives_by)),
        ],
        passed: receiver.came_to_internet(is_ipv6),
        else_at: Some(LossPlace::ReceiverFilter),
        ..Step::default()
    });
    // What is left of a datagram of which a fragment was lost is thrown away after a time.
    let of_internet = ["IpInHdrErrors", "IpInDiscards", "IpReasmFails"];
    let per_packet = receiver.per_packet_in_internet(is_ipv6);
    let datagrams = |packets| times(packets, per_packet.unwrap_or(0.0));
    steps.push(Step {
        at_most: vec![
            (LossPlace::Conntrack, datagrams(receiver.conntrack_dropped())),
            (LossPlace::ReceiverInternet, datagrams(receiver.protocols(is_ipv6, &of_internet))),
        ],
        passed: receiver
            .protocol(is_ipv6, "IpInDelivers")
            .filter(|_| per_packet.is_some())
            .map(datagrams),
        else_at: Some(LossPlace::ReceiverFilter),
        ..Step::default()
    });
}

/// From UDP to the application: the last step of every path.
fn into_socket(steps: &mut Vec<Step>, framing: Framing, arrived: u64, receiver: &Counts<'_>) {
    let is_ipv6 = receiver.receives_by_ipv6();
    let per_packet = receiver.per_packet_in_internet(is_ipv6);
    let datagrams = |packets| times(packets, per_packet.unwrap_or(0.0));
    let full = receiver.protocols(is_ipv6, &["UdpRcvbufErrors", "UdpMemErrors"]);
    // Those of full buffers are among the errors: RFC 4113, `__udp_queue_rcv_skb`.
    let errors = receiver.protocols(is_ipv6, &["UdpInErrors"]).saturating_sub(full);
    let others = errors.saturating_add(receiver.protocols(is_ipv6, &["UdpNoPorts"]));
    steps.push(Step {
        dropped: vec![(LossPlace::ReceiverSocket, datagrams(full))],
        at_most: vec![(LossPlace::ReceiverUdp, datagrams(others))],
        // Counted when the application takes it, which counts what is joined itself.
        passed: if framing.is_joined() {
            Some(arrived)
        } else {
            receiver.protocol(is_ipv6, "UdpInDatagrams")
        },
        else_at: Some(LossPlace::TooLate),
    });
}

/// Whether the receiver's counters were read after the path had come to rest: so much later than the
/// sender's, but not so late that the wait was given up.
fn is_at_rest(sender: &Counts<'_>, receiver: &Counts<'_>) -> bool {
    let quiet = i128::try_from(QUIET.as_nanos()).unwrap_or(i128::MAX);
    let most = i128::try_from(MOST.as_nanos()).unwrap_or(i128::MAX);
    let ends = receiver.ended_ns().zip(sender.ended_ns());
    ends.is_some_and(|(receiver, sender)| (quiet..most).contains(&(receiver - sender)))
}
