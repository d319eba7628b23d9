//! What drivers call their queues' counters, brought to one form.

/// A queue's counter in one form: which queue, and what is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueCounter {
    /// `rx-0`, `tx-3`.
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
pub(super) fn of_queue(name: &str) -> Option<QueueCounter> {
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
        ["drv", "dropped", _, "total"] | ["pkts", "rx", "oob"] | ["pkts", "tx", "discard"] => {
            "dropped"
        }
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

    #[test]
    fn what_is_of_no_queue_or_counts_twice_is_left_alone() {
        let others = [
            "rx_packets",
            "rx_missed_errors",
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
