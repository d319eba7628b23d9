//! 64-bit counters of every interface but loopback, by rtnetlink (`IFLA_STATS64`).

use std::collections::BTreeMap;

use vioperf_model::sample::InterfaceCounters;
use vioperf_netlink::{Counters, Socket};

use super::ReadError;

pub(super) struct Reader {
    socket: Socket,
}

impl Reader {
    /// Of the calling thread's network namespace.
    pub(super) fn open() -> Result<Self, ReadError> {
        let mut reader = Self { socket: Socket::open()? };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<BTreeMap<String, InterfaceCounters>, ReadError> {
        let links = self.socket.links()?;
        Ok(links
            .into_iter()
            .filter(|link| link.name != "lo")
            .filter_map(|link| Some((link.name, from_kernel(link.counters?))))
            .collect())
    }
}

fn from_kernel(counters: Counters) -> InterfaceCounters {
    InterfaceCounters {
        rx_bytes: counters.rx_bytes,
        rx_packets: counters.rx_packets,
        rx_dropped: counters.rx_dropped + counters.rx_missed,
        rx_errors: counters.rx_errors,
        tx_bytes: counters.tx_bytes,
        tx_packets: counters.tx_packets,
        tx_dropped: counters.tx_dropped,
        tx_errors: counters.tx_errors,
    }
}
