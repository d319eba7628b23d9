//! What every queueing discipline of a network namespace has counted: `RTM_GETQDISC` (rtnetlink(7),
//! `linux/gen_stats.h`).

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};

use crate::Result;
use crate::socket::Socket;

/// A queueing discipline, and what it has counted since it was made. The kernel counts packets and drops
/// in 32 bits, which wrap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueDiscipline {
    /// Index of its interface.
    pub link: u32,
    /// `fq_codel`, `tbf`, `noqueue`…
    pub kind: String,
    /// What it is called by (`8001:`); `0:` of those that the kernel gave an interface by itself.
    pub handle: String,
    /// Where it is: `root`, `ingress` or the class that it is in (`8001:2`).
    pub parent: String,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u32,
    /// Packets that it dropped.
    pub drops: u32,
    /// How often it held a packet back for its rate.
    pub overlimits: u32,
    /// How often a packet came back as the device could not take it.
    pub requeues: u32,
    /// Packets that wait in it.
    pub queued_packets: u32,
    /// Bytes that wait in it.
    pub queued_bytes: u32,
}

impl Socket {
    /// Every queueing discipline of the namespace.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn queue_disciplines(&mut self) -> Result<Vec<QueueDiscipline>> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.dump("read the queueing disciplines", request)?;
        Ok(answers.into_iter().filter_map(discipline_of).collect())
    }
}

fn discipline_of(message: RouteNetlinkMessage) -> Option<QueueDiscipline> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = message else { return None };
    let mut discipline = QueueDiscipline {
        link: message.header.index.cast_unsigned(),
        handle: place(message.header.handle),
        parent: place(message.header.parent),
        ..QueueDiscipline::default()
    };
    for attribute in message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => discipline.kind = kind,
            TcAttribute::Stats2(parts) => {
                parts.into_iter().for_each(|part| add(&mut discipline, &part));
            }
            _ => {}
        }
    }
    Some(discipline)
}

fn add(discipline: &mut QueueDiscipline, part: &TcStats2) {
    match part {
        TcStats2::Basic(basic) => {
            discipline.bytes = basic.bytes;
            discipline.packets = basic.packets;
        }
        TcStats2::Queue(queue) => {
            discipline.drops = queue.drops;
            discipline.overlimits = queue.overlimits;
            discipline.requeues = queue.requeues;
            discipline.queued_packets = queue.qlen;
            discipline.queued_bytes = queue.backlog;
        }
        _ => {}
    }
}

/// As tc(8) writes it.
fn place(handle: TcHandle) -> String {
    match handle {
        TcHandle::ROOT => "root".to_owned(),
        TcHandle::INGRESS => "ingress".to_owned(),
        TcHandle { major, minor: 0 } => format!("{major:x}:"),
        TcHandle { major, minor } => format!("{major:x}:{minor:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_tc_writes_them() {
        assert_eq!(place(TcHandle::ROOT), "root");
        assert_eq!(place(TcHandle { major: 0x8001, minor: 0 }), "8001:");
        assert_eq!(place(TcHandle { major: 0x8001, minor: 11 }), "8001:b");
    }
}
