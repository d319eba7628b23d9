//! What of a workload contradicts itself or cannot be meant.

use super::{Background, Direction, Workload, WorkloadKind};
use crate::scenario::Contradiction;
use crate::units::{BitRate, ByteSize, TimeSpan};

/// The longest name that the kernel has room for (`TCP_CA_NAME_MAX`, with its end).
const LONGEST_CONGESTION_CONTROL: usize = 15;

/// The most addresses of an end, and ports of a receiver.
const MOST_SPREAD: u16 = 64;

impl Workload {
    /// Everything about it that contradicts itself, whatever machine it is for.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, key: &str, message: String| {
            if wrong {
                found.push(Contradiction { key: key.to_owned(), message });
            }
        };
        for (key, kinds) in self.keys_set() {
            check(!kinds.contains(&self.kind), key, self.kind.lacks(kinds));
        }
        check(
            self.direction == Direction::Both && self.kind != WorkloadKind::TcpStream,
            "workload.direction",
            format!("{} goes one way at a time: both is for tcp-stream", self.kind.name()),
        );
        check(
            !(1..=256).contains(&self.streams),
            "workload.streams",
            format!("{} streams: a trial has 1 to 256", self.streams),
        );
        let of_background = [
            ("workload.background_streams", self.background_streams.is_some()),
            ("workload.background_direction", self.background_direction.is_some()),
            ("workload.background_rate", self.background_rate.is_some()),
        ];
        for (key, is_set) in of_background {
            let message = "there is no background: say what it is by workload.background".into();
            check(is_set && self.background.is_none(), key, message);
        }
        check(
            self.background_direction == Some(Direction::Both)
                && self.background == Some(Background::UdpStream),
            "workload.background_direction",
            "udp-stream goes one way at a time: both is for tcp-stream".into(),
        );
        check(
            self.background_streams.is_some_and(|streams| !(1..=256).contains(&streams)),
            "workload.background_streams",
            "a background has 1 to 256 streams".into(),
        );
        self.check_times(&mut check);
        self.check_sizes(&mut check);
        self.check_socket(&mut check);
        self.check_spread(&mut check);
        self.check_disk(&mut check);
        if self.kind == WorkloadKind::RateSearch {
            self.search.check(self.duration, &mut check);
        }
        found
    }

    fn check_times(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            self.duration < TimeSpan::from_millis(200),
            "workload.duration",
            format!("{} is too short to measure: give at least 200 ms", self.duration),
        );
        check(
            self.duration > TimeSpan::from_millis(3_600_000),
            "workload.duration",
            format!("{} is more than the hour a trial may last", self.duration),
        );
        check(
            self.warmup > TimeSpan::from_millis(600_000),
            "workload.warmup",
            format!("{} is more than the 10 minutes a warm-up may last", self.warmup),
        );
    }

    fn check_sizes(&self, check: &mut impl FnMut(bool, &str, String)) {
        let message = self.message_bytes();
        check(
            !(1..=16 << 20).contains(&message.as_bytes()),
            "workload.message_size",
            format!("{message} is not between 1 B and 16 MiB"),
        );
        let buffer_bytes = self.socket_buffer.map(ByteSize::as_bytes);
        check(
            buffer_bytes.is_some_and(|bytes| !(2048..=1 << 30).contains(&bytes)),
            "workload.socket_buffer",
            "a socket buffer is between 2 KiB and 1 GiB".into(),
        );
        check(
            self.threads == Some(0),
            "workload.threads",
            "no thread moves nothing: give at least 1, or leave it out".into(),
        );
        check(
            self.burst == Some(0),
            "workload.burst",
            "a burst is of at least 1 message or datagram".into(),
        );
        let paced = self.rate.is_some()
            || self.datagrams_per_second.is_some()
            || self.kind == WorkloadKind::RateSearch;
        check(
            self.burst.is_some() && !paced && self.kind != WorkloadKind::Disk,
            "workload.burst",
            "a burst is what goes out when a load with a rate is due: give workload.rate or \
             workload.datagrams_per_second too"
                .into(),
        );
        check(
            self.datagrams_per_second == Some(0),
            "workload.datagrams_per_second",
            "give at least 1, or leave it out for as many as the path takes".into(),
        );
    }

    fn check_spread(&self, check: &mut impl FnMut(bool, &str, String)) {
        let parts = [
            ("workload.source_addresses", self.source_addresses),
            ("workload.destination_addresses", self.destination_addresses),
            ("workload.destination_ports", self.destination_ports),
        ];
        let mut all = 1;
        for (key, count) in parts {
            let count = count.unwrap_or(1);
            check(
                !(1..=MOST_SPREAD).contains(&count),
                key,
                format!("{count} is not between 1 and {MOST_SPREAD}"),
            );
            all *= u32::from(count);
        }
        check(
            all > u32::from(self.streams),
            "workload.streams",
            format!(
                "{} flows use not every combination of source address, destination address and port: \
                 give at least {all} streams",
                self.streams
            ),
        );
    }

    fn check_socket(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            self.mss.is_some_and(|mss| !(88..=32_767).contains(&mss)),
            "workload.mss",
            "the kernel takes a maximum segment size of 88 to 32767 bytes (tcp(7))".into(),
        );
        let name = self.congestion_control.as_deref().unwrap_or("cubic");
        let named = (1..=LONGEST_CONGESTION_CONTROL).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        check(
            !named,
            "workload.congestion_control",
            format!(
                "`{}` names no algorithm; sysctl net.ipv4.tcp_available_congestion_control lists \
                 them",
                name.escape_default()
            ),
        );
        check(
            self.pacing.is_some_and(|rate| rate < BitRate::from_bits_per_second(8)),
            "workload.pacing",
            "give a rate, or leave it out".into(),
        );
        check(
            self.dscp.is_some_and(|dscp| dscp > 63),
            "workload.dscp",
            "a code point has 6 bits: 0 to 63 (RFC 2474)".into(),
        );
        check(
            self.busy_poll.is_some_and(|time| time > TimeSpan::from_millis(1000)),
            "workload.busy_poll",
            "polling for more than a second at a time is a load of its own".into(),
        );
    }
}
