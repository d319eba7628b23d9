//! Queueing disciplines of the network namespace, and what they dropped (tc(8)).

use vioperf_model::sample::QdiscCounters;
use vioperf_netlink::{NetlinkError, Socket};

/// More than this are not told: a host with very many containers.
const MOST: usize = 256;

pub(super) fn read() -> Result<Vec<QdiscCounters>, NetlinkError> {
    let mut socket = Socket::open()?;
    let links = socket.links()?;
    let disciplines = socket.queue_disciplines()?.into_iter().filter_map(|discipline| {
        // A link that has gone since.
        let link = links.iter().find(|link| link.index == discipline.link)?;
        (link.name != "lo").then(|| QdiscCounters {
            interface: link.name.clone(),
            kind: discipline.kind,
            handle: discipline.handle,
            parent: discipline.parent,
            bytes: discipline.bytes,
            packets: discipline.packets,
            drops: discipline.drops,
            overlimits: discipline.overlimits,
            requeues: discipline.requeues,
            queued_packets: discipline.queued_packets,
            queued_bytes: discipline.queued_bytes,
        })
    });
    Ok(disciplines.take(MOST).collect())
}
