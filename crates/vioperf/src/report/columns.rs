//! What tables show of a kind of load beside what they show of every kind: one list, for every
//! format.

use std::collections::BTreeMap;

use vioperf_analysis::columns;
use vioperf_analysis::measure::{Measure, Unit};
use vioperf_analysis::result::{CellAnalysis, Disk, Metric};
use vioperf_analysis::wording::{percent, three_digits};
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

use super::values::{NO_VALUE, mean, whole};

/// Where tables for people show a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Wherever there is a table.
    Narrow,
    /// Only where there is room.
    Wide,
    /// Only on the page's table of latency, and where there is room.
    Latency,
    /// In a table of its own on a terminal, and where there is room.
    Course,
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Its name in [`columns`], where its metric is.
    pub name: &'static str,
    /// Its head; a line break makes two lines of it on a terminal.
    pub title: &'static str,
    /// Whether people are shown it of such a load.
    pub is_of: fn(&Workload) -> bool,
    /// Where.
    pub place: Place,
    /// A mean, written.
    pub written: fn(&Metric) -> String,
    /// Whether a baseline has it too.
    pub of_baseline: bool,
}

fn is_udp_stream(load: &Workload) -> bool {
    load.kind == WorkloadKind::UdpStream
}

fn is_packet_rate(load: &Workload) -> bool {
    load.kind == WorkloadKind::PacketRate
}

fn is_stream(load: &Workload) -> bool {
    Measure::of(load.kind).unit == Unit::Bits
}

/// Whether its packets are counted on both sides of the switch, all of them going one way.
fn is_told_by_packet(load: &Workload) -> bool {
    (is_stream(load) || is_packet_rate(load)) && !goes_both_ways(load)
}

fn is_of_datagrams(load: &Workload) -> bool {
    is_udp_stream(load) || is_packet_rate(load)
}

fn is_search(load: &Workload) -> bool {
    load.kind == WorkloadKind::RateSearch
}

/// Whether a goal that allows no loss stands beside the one that the load is measured by.
fn has_non_drop_beside(load: &Workload) -> bool {
    let goals = load.search.goals();
    is_search(load) && goals.len() > 1 && goals.first().is_some_and(|goal| goal.as_f64() == 0.0)
}

fn is_request_response(load: &Workload) -> bool {
    load.kind == WorkloadKind::RequestResponse
}

/// Whether it is measured how long each of what it does takes.
fn is_timed(load: &Workload) -> bool {
    Measure::of(load.kind).unit.is_timed()
}

fn is_of_disk(load: &Workload) -> bool {
    load.kind == WorkloadKind::Disk
}

/// Whether reads and writes are to be told apart.
fn is_of_both(load: &Workload) -> bool {
    is_of_disk(load) && (0.0..1.0).contains(&load.read_fraction()) && load.read_fraction() > 0.0
}

fn goes_both_ways(load: &Workload) -> bool {
    load.direction == Direction::Both
}

fn has_background(load: &Workload) -> bool {
    load.background_load().is_some()
}

const fn extra(name: &'static str, title: &'static str, is_of: fn(&Workload) -> bool) -> Extra {
    Extra { name, title, is_of, place: Place::Wide, written: mean, of_baseline: true }
}

const fn narrow(extra: Extra) -> Extra {
    Extra { place: Place::Narrow, ..extra }
}

const fn course(extra: Extra) -> Extra {
    Extra { place: Place::Course, ..extra }
}

const fn latency(extra: Extra) -> Extra {
    Extra { place: Place::Latency, ..extra }
}

/// In the order in which they are shown.
const ALL: &[Extra] = &[
    Extra {
        written: bit_rate,
        ..narrow(extra("to_guest_bits_per_second", "to\nguest", goes_both_ways))
    },
    Extra {
        written: bit_rate,
        ..narrow(extra("from_guest_bits_per_second", "from\nguest", goes_both_ways))
    },
    Extra {
        written: bit_rate,
        ..narrow(extra("background_bits_per_second", "back-\nground", has_background))
    },
    Extra {
        written: count_rate,
        ..narrow(extra("datagrams_sent_per_second", "sent", is_packet_rate))
    },
    Extra {
        written: count_rate,
        ..extra("datagrams_received_per_second", "datagrams\nreceived", is_udp_stream)
    },
    narrow(extra("datagrams_lost_percent", "lost\n%", is_of_datagrams)),
    Extra {
        written: whole,
        ..extra("receiver_socket_drops", "dropped by\nsockets", is_of_datagrams)
    },
    narrow(extra("jitter_us", "jitter\nµs", is_udp_stream)),
    Extra { written: whole, ..extra("datagrams_duplicated", "dupli-\ncated", is_udp_stream) },
    Extra { written: whole, ..extra("datagrams_reordered", "out of\norder", is_udp_stream) },
    Extra {
        written: count_rate,
        ..narrow(extra("search_upper_bound_per_second", "upper\nbound", is_search))
    },
    Extra {
        written: count_rate,
        ..narrow(extra("search_ndr_lower_bound_per_second", "NDR", has_non_drop_beside))
    },
    Extra {
        written: count_rate,
        ..extra("search_ndr_upper_bound_per_second", "NDR upper\nbound", has_non_drop_beside)
    },
    Extra {
        written: count_rate,
        ..extra("search_throughput_per_second", "arrives\nof it", is_search)
    },
    Extra {
        written: count_rate,
        ..extra("search_max_rate_per_second", "highest\ntried", is_search)
    },
    extra("search_percent_of_wire_rate", "% of\nwire", is_search),
    Extra {
        written: bit_rate,
        ..course(extra("sustained_bits_per_second", "sustained", is_stream))
    },
    Extra { written: bit_rate, ..course(extra("peak_bits_per_second", "peak", is_stream)) },
    Extra { written: few, ..course(extra("rate_dips", "dips", is_stream)) },
    Extra { written: whole, ..course(extra("deepest_dip_percent", "deepest\ndip %", is_stream)) },
    course(extra("percent_of_wire_rate", "% of\nwire", is_packet_rate)),
    Extra {
        written: count_rate,
        ..course(extra("switch_in_packets_per_second", "into\nswitch", is_told_by_packet))
    },
    Extra {
        written: whole,
        ..course(extra("switch_in_bytes_per_packet", "B each\nin", is_told_by_packet))
    },
    Extra {
        written: count_rate,
        ..course(extra("switch_out_packets_per_second", "out of\nswitch", is_told_by_packet))
    },
    Extra {
        written: whole,
        ..course(extra("switch_out_bytes_per_packet", "B each\nout", is_told_by_packet))
    },
    narrow(extra("disk_mb_per_second", "MB/s", is_of_disk)),
    extra("disk_mib_per_second", "MiB/s", is_of_disk),
    Extra { written: count_rate, ..narrow(extra("disk_reads_per_second", "reads", is_of_both)) },
    Extra { written: count_rate, ..narrow(extra("disk_writes_per_second", "writes", is_of_both)) },
    latency(extra("disk_read_mean_us", "read\nmean µs", is_of_both)),
    latency(extra("disk_read_p99_us", "read\np99 µs", is_of_both)),
    latency(extra("disk_read_max_us", "read\nmax µs", is_of_both)),
    latency(extra("disk_write_mean_us", "write\nmean µs", is_of_both)),
    latency(extra("disk_write_p99_us", "write\np99 µs", is_of_both)),
    latency(extra("disk_write_max_us", "write\nmax µs", is_of_both)),
    narrow(extra("latency_p50_us", "p50\nµs", is_timed)),
    latency(extra("latency_p90_us", "p90\nµs", is_timed)),
    narrow(extra("latency_p99_us", "p99\nµs", is_timed)),
    latency(extra("latency_p99_9_us", "p99.9\nµs", is_timed)),
    latency(extra("latency_p99_99_us", "p99.99\nµs", is_timed)),
    latency(extra("latency_mean_us", "mean\nµs", is_timed)),
    latency(extra("latency_max_us", "max\nµs", is_timed)),
    added(narrow(extra("added_p50_us", "added\nto p50", is_timed))),
    added(narrow(extra("added_p99_us", "added\nto p99", is_timed))),
    added(latency(extra("added_mean_us", "added\nto mean", is_timed))),
    Extra { written: few, ..latency(extra("timeouts", "timed\nout", is_request_response)) },
];

const fn added(extra: Extra) -> Extra {
    Extra {
        written: |metric| metric.mean().map_or_else(|| NO_VALUE.into(), signed),
        of_baseline: false,
        ..extra
    }
}

fn count_rate(metric: &Metric) -> String {
    metric.mean().map_or_else(|| NO_VALUE.into(), |mean| Unit::Datagrams.short(mean))
}

fn bit_rate(metric: &Metric) -> String {
    metric.mean().map_or_else(|| NO_VALUE.into(), |mean| Unit::Bits.short(mean))
}

/// A difference, with its sign.
pub fn signed(difference: f64) -> String {
    format!("{}{}", if difference > 0.0 { "+" } else { "" }, three_digits(difference))
}

/// A count: none is 0, few have a decimal.
pub fn few(metric: &Metric) -> String {
    let Some(mean) = metric.mean() else { return NO_VALUE.into() };
    let places = vioperf_analysis::wording::decimals(mean).min(1);
    format!("{mean:.places$}")
}

impl Extra {
    /// Its field of a row for people: empty where a baseline has none.
    pub fn field(&self, cell: &CellAnalysis) -> String {
        match self.shown(cell) {
            Some(metric) => (self.written)(metric),
            None => String::new(),
        }
    }

    /// The metric, where the cell has such a thing.
    pub fn shown<'a>(&self, cell: &'a CellAnalysis) -> Option<&'a Metric> {
        let metric = columns::named(self.name).and_then(|column| column.read(cell));
        metric.filter(|_| self.of_baseline || !cell.is_baseline)
    }

    /// Its head in one line.
    pub fn head(&self) -> String {
        self.title.replace("-\n", "").replace('\n', " ")
    }
}

/// Every column, whatever the kind.
pub fn all() -> &'static [Extra] {
    ALL
}

/// Those of a load.
pub fn of(load: &Workload) -> impl Iterator<Item = &'static Extra> {
    ALL.iter().filter(move |extra| (extra.is_of)(load))
}

/// Those of a table of how such loads went, so far as any of the cells has them.
pub fn of_course(load: &Workload, cells: &[&CellAnalysis]) -> Vec<&'static Extra> {
    let is_told = |extra: &&Extra| {
        cells.iter().any(|cell| extra.shown(cell).is_some_and(|metric| metric.mean().is_some()))
    };
    of(load).filter(|extra| extra.place == Place::Course).filter(is_told).collect()
}

/// What the numbers of such cells mean, as sentences; none for what needs no saying.
pub fn explanations(cells: &[CellAnalysis]) -> Vec<String> {
    let Some(first) = cells.first() else { return Vec::new() };
    let measure = Measure::of(first.workload.kind);
    let mut said = Vec::new();
    said.extend(over_time(cells));
    said.extend(at_the_switch(cells));
    if cells.iter().any(|cell| cell.workload.segmentation) {
        said.push(
            "Segmentation mode: datagrams are counted, many of which pass the stack as one; they are \
             not packets on a wire."
                .into(),
        );
    }
    match measure.unit {
        Unit::Bits if measure.may_lose => said.push(
            "Lost: numbers that never arrived, in percent of those sent; jitter: RFC 3550.".into(),
        ),
        Unit::Bits => {}
        Unit::Datagrams if is_search(&first.workload) => said.extend(searched(first)),
        Unit::Datagrams => said.extend(lost_and_wire(cells)),
        Unit::Operations => {
            said.push(OPERATIONS_EXPLAINED.into());
            said.extend(past_the_cache(cells));
        }
        Unit::Transactions => said.push(
            "Percentiles are means over trials, and told only where at least ten transactions of a \
             trial lie beyond; added: less the baseline's of the same block."
                .into(),
        ),
    }
    said
}

/// What is told of rates over time, and how long an interval is.
fn over_time(cells: &[CellAnalysis]) -> Option<String> {
    let of = |cell: &CellAnalysis| cell.rate_over_time.as_ref()?.interval_seconds.mean();
    let lengths: Vec<f64> = cells.iter().filter_map(of).collect();
    let low = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let high = lengths.iter().copied().fold(0.0, f64::max);
    let [low, high] = [low, high].map(three_digits);
    let length = if low == high { high } else { format!("{low} to {high}") };
    (!lengths.is_empty()).then(|| {
        format!(
            "Each trial in intervals of {length} s: sustained is the rate that 95 % of them reach, peak the best of \
             them, a dip one or several in a row below three quarters of the median."
        )
    })
}

/// What is told of packets on both sides of the switch.
fn at_the_switch(cells: &[CellAnalysis]) -> Option<String> {
    let is_told = |name| {
        let column = columns::named(name);
        cells.iter().any(|cell| {
            column.and_then(|column| column.read(cell)).is_some_and(|told| told.mean().is_some())
        })
    };
    (is_told("switch_in_packets_per_second") || is_told("switch_out_packets_per_second")).then(|| {
        "Into and out of the switch: packets a second at its ports, and their bytes; more than the MTU where a \
         later place cuts them, or an earlier one merged them."
            .into()
    })
}

const OPERATIONS_EXPLAINED: &str = "MB/s: 1 000 000 bytes a second; MiB/s: 1 048 576. Percentiles are means over trials, and \
     told only where at least ten operations of a trial lie beyond; added: less the baseline's, the host's \
     own file, of the same block.";

/// Where the page cache of the machine with the load has a part in the numbers, and where operations
/// got to the kernel otherwise than by io_uring.
fn past_the_cache(cells: &[CellAnalysis]) -> Vec<String> {
    let of = |wrong: fn(&Disk) -> bool| -> Vec<&str> {
        let with = cells.iter().filter(|cell| cell.disk.as_ref().is_some_and(wrong));
        with.map(|cell| cell.path.as_str()).collect()
    };
    let cached = of(|disk| disk.direct == Some(false));
    let by_threads = of(|disk| disk.engines.contains(&"threads"));
    let mut said = by_fio(cells);
    if !cached.is_empty() {
        said.push(format!(
            "Through the page cache of the machine with the load, which refused O_DIRECT: {}.",
            cached.join(", ")
        ));
    }
    if !by_threads.is_empty() {
        said.push(format!(
            "By threads, as the kernel refused io_uring: {}.",
            by_threads.join(", ")
        ));
    }
    said
}

/// Which cells fio read and wrote, in which versions and by what.
fn by_fio(cells: &[CellAnalysis]) -> Vec<String> {
    let mut of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for cell in cells {
        if let Some(disk) = cell.disk.as_ref().filter(|disk| !disk.fio.is_empty()) {
            let by = format!("{} with {}", disk.fio.join(", "), disk.engines.join(", "));
            of.entry(by).or_default().push(cell.id.0.as_str());
        }
    }
    of.into_iter()
        .map(|(by, cells)| format!("Read and written by {by}: {}.", cells.join(", ")))
        .collect()
}

/// What was searched for, and what the numbers beside the bounds are of.
fn searched(cell: &CellAnalysis) -> Option<String> {
    let search = cell.rate_search.as_ref()?;
    let most = search.most_allowed()?;
    let lost = if most.allowed_loss_percent == 0.0 {
        "none".to_owned()
    } else {
        format!("no more than {}", percent(most.allowed_loss_percent))
    };
    let beside = if has_non_drop_beside(&cell.workload) {
        " NDR: the same with none lost, its lower bound."
    } else {
        ""
    };
    Some(format!(
        "Within goal ({}): the highest rate that was proved to lose {lost} of its datagrams (lower bound; \
         draft-ietf-bmwg-mlrsearch); upper bound: the lowest that was proved to lose more.{beside} CPU and \
         what comes of it are those of a probe at the lower bound.",
        most.name
    ))
}

/// Preamble and gap: on the wire, but not of the frame.
const AROUND_FRAME: u64 = 8 + 12;

/// What loss is, how large the frames are, and how the wire's share is made up.
fn lost_and_wire(cells: &[CellAnalysis]) -> Vec<String> {
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    for datagrams in cells.iter().filter_map(|cell| cell.datagrams.as_ref()) {
        let size = datagrams.bytes_on_wire.map(|bytes| (datagrams.payload_bytes, bytes));
        sizes.extend(size.filter(|size| !sizes.contains(size)));
    }
    let frames: Vec<String> = sizes
        .iter()
        .map(|(payload, bytes)| {
            format!("{payload} bytes of payload make {}", bytes.saturating_sub(AROUND_FRAME))
        })
        .collect();
    let known = |cell: &CellAnalysis| {
        cell.datagrams.as_ref().is_some_and(|d| d.percent_of_wire_rate.mean().is_some())
    };
    let mut said =
        vec!["Lost: what was sent and did not arrive, in percent of what was sent.".to_owned()];
    if !frames.is_empty() {
        let frames = frames.join(", ");
        said.push(format!("Ethernet frames, checksum included: {frames} bytes."));
    }
    if !sizes.is_empty() && cells.iter().any(known) {
        let sizes: Vec<String> = sizes
            .iter()
            .map(|(payload, bytes)| format!("{payload} bytes of payload take {bytes}"))
            .collect();
        said.push(format!(
            "% of wire: of the datagrams that a wire can carry of the rate that the link is held to, else of the \
             speed that the card claims, which an emulated card need not keep to; on it {} (46 of headers and \
             checksum, at least a frame of 64, then preamble 8 and gap 12; RFC 2544, appendix B).",
            sizes.join(", ")
        ));
    }
    said
}
