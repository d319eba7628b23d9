//! Queueing disciplines of the network namespace, and what they dropped (tc(8)).

use nix::net::if_::if_indextoname;
use vioperf_model::sample::QdiscCounters;
use vioperf_netlink::{NetlinkError, Socket};

/// More than this are not told: a host with very many containers.
const MOST: usize = 256;

pub(super) fn read() -> Result<Vec<QdiscCounters>, NetlinkError> {
    let mut socket = Socket::open()?;
    let disciplines = socket.queue_disciplines()?.into_iter().filter_map(|discipline| {
        // None: a link that has gone since. To ask for all that links are costs a slow guest as much again.
        let name = if_indextoname(discipline.link).ok()?.into_string().ok()?;
        (name != "lo").then_some(QdiscCounters {
            interface: name,
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
