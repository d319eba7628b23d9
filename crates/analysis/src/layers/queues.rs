//! What drivers call their queues' counters, brought to one form.

/// A queue's counter in one form: which queue, and what is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueCounter {
    /// `rx-0`, `tx-3`; `rx` and `tx` of what a driver counts of a device as a whole.
    pub(super) queue: String,
    /// `packets`, `bytes` or `dropped`.
    pub(super) counter: &'static str,
}

/// What a driver's counter is of a queue; nothing where it is something else.
///
/// - virtio_net: `rx0_packets`, before Linux 6.10 `rx_queue_0_packets`
/// - igb, ixgbe: `tx_queue_0_bytes`; veth: `rx_queue_0_drops`
/// - i40e, ice: `rx-0.packets`; mlx5: `rx0_packets`; ena: `queue_0_rx_bytes`
/// - vmxnet3: `Tx Queue#0 ucast pkts tx`, under three kinds of address
///
/// e1000, e1000e, 8139cp, 8139too and e100 count of the device alone; pcnet32, ne2k-pci, tulip and
/// xen-netfront count nothing here.
pub(super) fn of_queue(name: &str) -> Option<QueueCounter> {
    of_device(name).or_else(|| of_numbered(name))
}

/// What is counted of all queues of a device together.
fn of_device(name: &str) -> Option<QueueCounter> {
    let (queue, counter) = match name {
        "rx_packets" | "rx_ok" => ("rx", "packets"),
        "tx_packets" | "tx_ok" => ("tx", "packets"),
        "rx_bytes" => ("rx", "bytes"),
        "tx_bytes" => ("tx", "bytes"),
        // No buffer in the ring: e1000, e1000e and igb; 8139cp; 8139too.
        "rx_dropped" | "rx_missed_errors" | "rx_fifo" | "rx_lost_in_ring" => ("rx", "dropped"),
        "tx_dropped" => ("tx", "dropped"),
        _ => return None,
    };
    Some(QueueCounter { queue: queue.to_owned(), counter })
}

fn of_numbered(name: &str) -> Option<QueueCounter> {
    let words = words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (way, number, rest) = match words.as_slice() {
        [way, "queue", number, rest @ ..] => (*way, *number, rest),
        ["queue", number, way, rest @ ..] | [way, number, rest @ ..] => (*way, *number, rest),
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    let counter = match rest {
        ["packets" | "cnt"] => "packets",
        ["bytes"] => "bytes",
        ["drops" | "dropped" | "drop"] => "dropped",
        ["ucast" | "mcast" | "bcast", "pkts", _] => "packets",
        ["ucast" | "mcast" | "bcast", "bytes", _] => "bytes",
        ["drv", "dropped", _, "total"]
        | ["pkts", "rx", "oob" | "err"]
        | ["pkts", "tx", "discard" | "err"] => "dropped",
        _ => return None,
    };
    ["rx", "tx"].contains(&way).then(|| QueueCounter { queue: format!("{way}-{number}"), counter })
}

/// Letters and digits in turn, in lower case: `rx0_packets` is `rx`, `0`, `packets`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut kind = None;
    for c in name.chars() {
        let now = c.is_ascii_alphanumeric().then(|| c.is_ascii_digit());
        match (now, words.last_mut()) {
            (None, _) => {}
            (Some(_), Some(word)) if now == kind => word.push(c.to_ascii_lowercase()),
            (Some(_), _) => words.push(c.to_ascii_lowercase().to_string()),
        }
        kind = now;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_names_come_to_one_form() {
        let known = [
            ("rx_queue_0_packets", "rx-0 packets"),
            ("rx0_packets", "rx-0 packets"),
            ("tx_queue_12_bytes", "tx-12 bytes"),
            ("rx_queue_1_drops", "rx-1 dropped"),
            ("rx-3.packets", "rx-3 packets"),
            ("queue_2_rx_bytes", "rx-2 bytes"),
            ("Tx Queue#1 ucast pkts tx", "tx-1 packets"),
            ("Rx Queue#0 mcast bytes rx", "rx-0 bytes"),
            ("Rx Queue#0 drv dropped rx total", "rx-0 dropped"),
            ("Rx Queue#0 pkts rx OOB", "rx-0 dropped"),
        ];
        for (name, expected) in known {
            let found = of_queue(name).unwrap();
            assert_eq!(format!("{} {}", found.queue, found.counter), expected, "{name}");
        }
    }

    /// As the drivers' sources have them, those that count packets, bytes and drops and some that only
    /// look like it: the driver, its counters, and what they come to.
    const DRIVERS: &[(&str, &[(&str, &str)])] = &[
        (
            "e1000",
            &[
                ("rx_packets", "rx packets"),
                ("tx_packets", "tx packets"),
                ("rx_bytes", "rx bytes"),
                ("tx_bytes", "tx bytes"),
                ("tx_dropped", "tx dropped"),
                ("rx_missed_errors", "rx dropped"),
                ("rx_broadcast", ""),
                ("rx_no_buffer_count", ""),
                ("rx_long_byte_count", ""),
                ("alloc_rx_buff_failed", ""),
                ("tx_smbus", ""),
            ],
        ),
        (
            "e1000e",
            &[
                ("rx_packets", "rx packets"),
                ("tx_bytes", "tx bytes"),
                ("rx_missed_errors", "rx dropped"),
                ("rx_dma_failed", ""),
                ("tx_dma_failed", ""),
                ("rx_hwtstamp_cleared", ""),
                ("tx_hwtstamp_timeouts", ""),
            ],
        ),
        (
            "igb",
            &[
                ("rx_packets", "rx packets"),
                ("rx_missed_errors", "rx dropped"),
                ("tx_queue_0_packets", "tx-0 packets"),
                ("tx_queue_0_bytes", "tx-0 bytes"),
                ("tx_queue_0_restart", ""),
                ("rx_queue_3_packets", "rx-3 packets"),
                ("rx_queue_3_bytes", "rx-3 bytes"),
                ("rx_queue_3_drops", "rx-3 dropped"),
                ("rx_queue_3_csum_err", ""),
                ("rx_queue_3_alloc_failed", ""),
                ("os2bmc_rx_by_host", ""),
            ],
        ),
        (
            "8139cp",
            &[
                ("tx_ok", "tx packets"),
                ("rx_ok", "rx packets"),
                ("rx_fifo", "rx dropped"),
                ("tx_err", ""),
                ("tx_ok_1col", ""),
                ("tx_ok_mcol", ""),
                ("rx_ok_phys", ""),
                ("rx_ok_bcast", ""),
                ("rx_frags", ""),
            ],
        ),
        (
            "8139too",
            &[
                ("rx_lost_in_ring", "rx dropped"),
                ("early_rx", ""),
                ("tx_buf_mapped", ""),
                ("tx_timeouts", ""),
            ],
        ),
        (
            "vmxnet3",
            &[
                ("Tx Queue#0 ucast pkts tx", "tx-0 packets"),
                ("Tx Queue#0 mcast bytes tx", "tx-0 bytes"),
                ("Tx Queue#0 pkts tx discard", "tx-0 dropped"),
                ("Tx Queue#0 pkts tx err", "tx-0 dropped"),
                ("Tx Queue#0 drv dropped tx total", "tx-0 dropped"),
                ("Tx Queue#0 too many frags", ""),
                ("Tx Queue#0 TSO bytes tx", ""),
                ("Tx Queue#0 ring full", ""),
                ("Rx Queue#1 bcast pkts rx", "rx-1 packets"),
                ("Rx Queue#1 LRO pkts rx", ""),
                ("Rx Queue#1 pkts rx OOB", "rx-1 dropped"),
                ("Rx Queue#1 pkts rx err", "rx-1 dropped"),
                ("Rx Queue#1 drv dropped rx total", "rx-1 dropped"),
                ("Rx Queue#1 rx buf alloc fail", ""),
                ("tx timeout count", ""),
            ],
        ),
        (
            "virtio_net",
            &[
                ("rx0_packets", "rx-0 packets"),
                ("rx0_drops", "rx-0 dropped"),
                ("rx0_xdp_packets", ""),
                ("tx1_bytes", "tx-1 bytes"),
                ("tx1_tx_timeouts", ""),
            ],
        ),
        ("e100", &[("tx_deferred", ""), ("rx_tco_packets", ""), ("tx_tco_packets", "")]),
    ];

    #[test]
    fn every_drivers_own_names_are_understood_or_left_alone() {
        for (driver, counters) in DRIVERS {
            for (name, expected) in *counters {
                let found = of_queue(name).map(|q| format!("{} {}", q.queue, q.counter));
                assert_eq!(found.unwrap_or_default(), *expected, "{driver}: {name}");
            }
        }
    }

    #[test]
    fn what_is_of_no_queue_or_counts_twice_is_left_alone() {
        let others = [
            "rx_errors",
            "rx_queue_0_kicks",
            "rx_queue_0_xdp_packets",
            // Contained in the packets to one address.
            "Tx Queue#0 TSO pkts tx",
            "rx_queue_99999999999_packets",
            "peer_ifindex",
            "",
            "µ0_packets",
        ];
        for name in others {
            assert_eq!(of_queue(name), None, "{name}");
        }
    }
}
