//! Every metric: its unit, what it is, where it is read, on which side, and what can make it wrong.

use std::fmt::Write as _;

use vioperf_analysis::columns::{self, Column};

use super::in_cell;

const INTRODUCTION: &str = "\
# Every metric

<!-- Made by `vioperf reference metrics`: units and meanings are those of the program's table; `make reference` writes this page. -->

One list, in every form: `cells[]` of `vioperf report --format json` has each as a mean with its 95 % interval and the value of every trial; CSV, Parquet (`vioperf
export`), OpenMetrics, `vioperf trend` and the page use the names below (CSV adds `_mean`, `_low_95` and the like to some; OpenMetrics puts `vioperf_` before them).

What is stored of a trial are raw counters with the time at which they were read ([run-directory.md](run-directory.md)); a rate is the growth of a counter by that time,
between the first and the last reading inside the window that all parties share. A counter that is absent gives no metric, with a reason; one that ran backwards gives none either.

*Host*, *guest*, *peer* are machines or namespaces; *sender* and *receiver* are the ends of the load, whichever they are in.
";

/// Metrics that are read at one place.
struct Group {
    /// The heading.
    name: &'static str,
    /// Where they are read.
    read: &'static str,
    /// On which side.
    side: &'static str,
    /// What can make them wrong.
    wrong: &'static str,
    /// Which they are.
    has: fn(&str) -> bool,
}

fn is_of_intervals(name: &str) -> bool {
    const INTERVALS: [&str; 5] = [
        "peak_bits_per_second",
        "sustained_bits_per_second",
        "rate_dips",
        "deepest_dip_percent",
        "rate_interval_seconds",
    ];
    INTERVALS.contains(&name)
}

/// In the order of the page. A metric that none has, or several have, fails a test.
const GROUPS: &[Group] = &[
    Group {
        name: "Payload of streams",
        read: "counted by the node itself: bytes that `recv` returned and `send` took, by thread, read with `CLOCK_MONOTONIC`",
        side: "receiver; `sender_…` the sender",
        wrong: "A short window after a start from nothing: buffers fill first (`workload.warmup`). What the sender's kernel took is not yet on the wire.",
        has: |name| name.ends_with("_bits_per_second") && !is_of_intervals(name),
    },
    Group {
        name: "Rate over time",
        read: "derived: the receiver's payload (see above) in equal intervals of the window, of 1 s where it has 20 of them or more, else 20, but none shorter than from sample to sample; sustained: the 5th percentile of them by nearest rank; dips as power quality counts those of a voltage (IEC 61000-4-30), below 75 % of the median interval",
        side: "receiver",
        wrong: "The shorter the intervals the higher the peak: compare trials of one length. Of fewer than 20 intervals the sustained rate is the lowest. A sampler that was late blurs two intervals.",
        has: is_of_intervals,
    },
    Group {
        name: "Part of the baseline",
        read: "derived: the headline metric of the cell by that of its baseline, of the same block",
        side: "receiver (requests: whoever asks)",
        wrong: "A baseline that is limited by something else than the path, such as its sender; too few blocks.",
        has: |name| name == "percent_of_baseline",
    },
    Group {
        name: "Busy cores",
        read: "`/proc/stat`: user, nice, system, irq, softirq of every core (guest and steal apart), in ticks of 10 ms",
        side: "host, guest, and every other machine of the testbed, each its own",
        wrong: "Everything that runs on the machine counts. Ticks are coarse in short windows. A guest's own count is wrong where it was denied its cores; the other hardware thread of a core is not in it.",
        has: |name| name.ends_with("_busy_percent_of_core") && !name.starts_with("unexplained"),
    },
    Group {
        name: "QEMU's threads",
        read: "`/proc/PID/task/TID/schedstat` (time on a CPU, time waiting for one), threads told apart by the names that QEMU gives them; vhost workers by theirs",
        side: "host",
        wrong: "Where `/proc` hides others' processes they are absent. Soft interrupts that happen to run on a thread's time are charged to it.",
        has: |name| name.contains("qemu_") && name.ends_with("_percent_of_core"),
    },
    Group {
        name: "Cost of work",
        read: "derived: busy time (see above) by KiB, datagrams or transactions received, or operations of a disk, in the same window",
        side: "host, QEMU, guest",
        wrong: "Whatever else was busy on the machine is in it: see `unexplained_host_busy_percent_of_core`. Under software emulation the guest's work is work of QEMU's.",
        has: |name| {
            name.ends_with("_us_per_kib")
                || name.ends_with("_ns_per_datagram")
                || name.ends_with("_us_per_transaction")
                || name.ends_with("_us_per_operation")
        },
    },
    Group {
        name: "Segments sent again",
        read: "`/proc/net/snmp`: `RetransSegs`, `OutSegs`",
        side: "sender's network namespace",
        wrong: "Counts every connection of the namespace, also those that are not the load's. Segments are counted as TCP hands them on, before they are cut.",
        has: |name| {
            name == "segments_retransmitted" || name == "retransmitted_per_million_segments"
        },
    },
    Group {
        name: "State of TCP",
        read: "`TCP_INFO` of every connection, at the end of the load",
        side: "sender",
        wrong: "One look at the end, not a mean over time. The round trip is the kernel's smoothed estimate, delayed acknowledgements included.",
        has: |name| name.starts_with("tcp_"),
    },
    Group {
        name: "Packets along the path",
        read: "`/proc/net/dev`: bytes and packets of the interface; of TCP `OutSegs`, `InSegs` of `/proc/net/snmp` and the payload",
        side: "as the name says: sender, the guest's tap or the switch's ports, receiver",
        wrong: "With offloads a packet is what the kernel handed over as one, up to 64 KiB, not a frame on a wire.",
        has: |name| {
            name.ends_with("_bytes_per_packet")
                || name.ends_with("_bytes_per_segment")
                || name.ends_with("_packets_per_second")
        },
    },
    Group {
        name: "Datagrams",
        read: "counted by the node: datagrams sent and received by system call; numbers inside the datagrams (`udp-stream`) for loss, order, duplicates and jitter; drops by `SO_MEMINFO`",
        side: "receiver; `datagrams_sent_per_second` the sender",
        wrong: "Loss of datagrams without numbers (`packet-rate`) is sent less received in the window, so what was under way at its ends blurs it. Jitter is the receiver's clock against the sender's own times.",
        has: |name| {
            name.starts_with("datagrams_")
                || ["receiver_socket_drops", "jitter_us", "percent_of_wire_rate"].contains(&name)
        },
    },
    Group {
        name: "Rate searches",
        read: "derived from the probes of the search (rate asked for, sent, received)",
        side: "receiver",
        wrong: "Probes short against what sockets can hold take what is buffered for received. Where the sender was the limit the bound is the sender's (`sender-was-the-limit`).",
        has: |name| name.starts_with("search_"),
    },
    Group {
        name: "Operations of a disk",
        read: "counted by the node as operations end, by worker; timed as latency is (below), reads and writes each for themselves; `disk_device_…` of `/proc/diskstats`, before and after the load",
        side: "the guest, of a baseline the host; `disk_device_…` the host; `neighbour_disk_…` the neighbour",
        wrong: "The host's page cache answers where `guest.drive.cache` lets it, or a device's own cache: [disk.md](disk.md). What was written before counts on flash; a file with holes is read from nowhere.",
        has: |name| name.starts_with("disk_") || name.starts_with("neighbour_disk_"),
    },
    Group {
        name: "Transactions and latency",
        read: "timed by the node with `CLOCK_MONOTONIC` around each request, or operation of a disk, kept in a histogram of two significant digits",
        side: "whoever asks",
        wrong: "Closed loop: while a request waits no other is sent, so that stalls are counted once; `requests_per_second` counts from when a request was due. High percentiles need many transactions, and are absent with too few.",
        has: |name| {
            name.starts_with("latency_")
                || name.starts_with("added_")
                || ["transactions_per_second", "timeouts"].contains(&name)
        },
    },
    Group {
        name: "How well it was measured",
        read: "QEMU's start until a carrier (conductor); the bound of the clocks' offset over the control channel; busy time less everything that was watched; the sampler's own CPU time (`CLOCK_THREAD_CPUTIME_ID`)",
        side: "as the name says",
        wrong: "These say how far others can be trusted: an error of clocks in the order of the window, or much unexplained time, spoils the rest.",
        has: |name| {
            [
                "guest_ready_ms",
                "clock_error_percent_of_window",
                "unexplained_host_busy_percent_of_core",
            ]
            .contains(&name)
                || name.ends_with("_sampler_percent_of_core")
        },
    },
    Group {
        name: "Below the sockets: cores",
        read: "`/proc/net/softnet_stat` (dropped, squeezed), `/proc/softirqs` (`NET_RX`), `/proc/interrupts`, `/proc/pressure/cpu`, `/proc/PID/task/TID/status` (context switches)",
        side: "host, guest",
        wrong: "Of the whole machine, warm-up included: read once before and once after the load. Not every kernel has pressure.",
        has: |name| {
            name.contains("_softnet_")
                || name.contains("interrupts_per_second")
                || name.ends_with("_cpu_stalled_percent")
                || name == "qemu_switches_per_second"
        },
    },
    Group {
        name: "Below the sockets: drops",
        read: "`RTM_GETQDISC` (qdiscs), `/proc/net/dev` (interfaces, taps, ports), ovs-vswitchd's own counters, `/proc/net/snmp` and `netstat` (UDP and TCP)",
        side: "as the name says: sender, switch, receiver",
        wrong: "Of the network namespace, warm-up included. A card or a guest may drop without counting: the [ledger](ledger.md) tells what no counter explains.",
        has: |name| {
            [
                "_qdisc_dropped",
                "_interface_dropped",
                "_udp_buffer_errors",
                "_udp_no_port",
                "_tcp_timeouts",
                "_tcp_dropped",
            ]
            .iter()
            .any(|end| name.ends_with(end))
        },
    },
    Group {
        name: "The ledger of datagrams",
        read: "derived from the counters of every layer on the way: [ledger.md](ledger.md) names each",
        side: "as the name says",
        wrong: "Of the whole load, warm-up included. With a background on the path not every place can be told apart; what no counter explains is `ledger_unaccounted`.",
        has: |name| name.starts_with("ledger_") || name.starts_with("lost_at_"),
    },
    Group {
        name: "What a packet costs",
        read: "`perf_event_open(2)` (cycles, instructions, misses of the last cache, all cores); `query-stats` of QEMU for KVM's exits; by the packets of the near end's interface",
        side: "host, guest; exits: host",
        wrong: "Absent in most virtual machines and without the right to count. Counters that took turns are scaled by the time they were counted. Everything that ran is in it.",
        has: |name| name.ends_with("_per_packet") && !name.ends_with("_bytes_per_packet"),
    },
];

/// The page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for group in GROUPS {
        let _ = write!(
            page,
            "\n## {}\n\n- Read from: {}.\n- On: {}.\n- What can make it wrong: {}\n\n| metric | unit | |\n| --- | --- | --- |\n",
            group.name, group.read, group.side, group.wrong
        );
        for Column { name, unit, about, .. } in of(group) {
            let _ = writeln!(page, "| `{name}` | {unit} | {} |", in_cell(about));
        }
    }
    page
}

fn of(group: &Group) -> impl Iterator<Item = &'static Column> {
    columns::all().iter().filter(|column| (group.has)(column.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_read_somewhere_and_at_one_place() {
        for column in columns::all() {
            let groups: Vec<&str> = GROUPS
                .iter()
                .filter(|group| (group.has)(column.name))
                .map(|group| group.name)
                .collect();
            assert_eq!(groups.len(), 1, "{} is read at {groups:?}", column.name);
        }
        for group in GROUPS {
            assert!(of(group).next().is_some(), "nothing is read at {}", group.name);
        }
    }
}
