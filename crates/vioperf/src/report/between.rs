//! What every format for people shows of a path between two machines: facts with their names, in
//! place of a lab's comparison of paths.

use vioperf_analysis::measure::{Measure, Unit};
use vioperf_analysis::result::{
    CellAnalysis, HypervisorUse, MachineEnd, MachineUse, Metric, RunAnalysis,
};
use vioperf_analysis::wording::{capitalised, count, three_digits};
use vioperf_model::workload::{Direction, WorkloadKind};

use super::columns;
use super::values::{NO_VALUE, headline_with_interval, mean, whole, with_interval};

/// A core that was less busy than this is not worth its place, in percent.
const IDLE_PERCENT: f64 = 1.0;

/// Whether the run was between two machines.
pub fn is_between(analysis: &RunAnalysis) -> bool {
    analysis.run.scenario.testbed.server.is_some()
}

/// A cell's load in words (`TCP, 4 streams, to 192.0.2.1`).
pub fn title(cell: &CellAnalysis) -> String {
    let workload = &cell.workload;
    let kind = match workload.kind {
        WorkloadKind::TcpStream => "TCP".into(),
        WorkloadKind::UdpStream => "UDP".into(),
        WorkloadKind::PacketRate => format!("UDP, {} bytes each", workload.payload_bytes()),
        WorkloadKind::RequestResponse => {
            let transport = workload.transport.map(|transport| transport.to_string());
            format!("requests over {}", transport.unwrap_or_else(|| "tcp".into()).to_uppercase())
        }
        WorkloadKind::ConnectRate => "connections".into(),
        WorkloadKind::Disk => "disk".into(),
        WorkloadKind::RateSearch => {
            format!("highest rate of UDP, {} bytes each", workload.payload_bytes())
        }
    };
    let way = match workload.direction {
        Direction::ToGuest => "to",
        Direction::FromGuest => "from",
        Direction::Both => "to and from",
    };
    let streams = count(usize::from(workload.streams), "stream");
    format!("{kind}, {streams}, {way} {}", cell.path)
}

/// What was measured of a cell: names and values.
pub fn facts(cell: &CellAnalysis) -> Vec<(String, String)> {
    if cell.trials.completed == 0 {
        return Vec::new();
    }
    let measure = cell.measure();
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact(named(measure), known(cell.headline(), || headline_with_interval(cell)));
    for goal in cell.rate_search.iter().flat_map(|search| &search.goals) {
        let bounds = [&goal.lower_bound_per_second, &goal.upper_bound_per_second];
        let [lower, upper] =
            bounds.map(|bound| known(bound, || with_interval(bound, measure.unit)));
        let ends: Vec<&str> = goal.ends.keys().copied().collect();
        fact(&goal.name, format!("from {lower} to {upper}: {}", ends.join(", ")));
    }
    if cell.rate_search.is_none() && !measure.unit.is_timed() {
        let sent = (measure.sent)(cell).unwrap_or(&cell.sender_bits_per_second);
        fact("Sent", known(sent, || with_interval(sent, measure.unit)));
    }
    for extra in columns::of(&cell.workload).filter(|extra| extra.of_baseline) {
        // What was sent is said already.
        if let Some(metric) =
            extra.shown(cell).filter(|_| extra.name != "datagrams_sent_per_second")
            && metric.summary.is_some()
        {
            let (name, unit) = name_and_unit(&extra.head(), &cell.path);
            fact(&name, format!("{}{unit}", extra.field(cell)));
        }
    }
    tcp(cell, &mut fact);
    cpu(cell, &mut fact);
    facts
}

/// `Jitter` and ` µs` of a column's head; what a lab calls the guest is the server here.
fn name_and_unit(head: &str, server: &str) -> (String, &'static str) {
    let (name, unit) = [" µs", " %"]
        .into_iter()
        .find_map(|unit| Some((head.strip_suffix(unit)?, unit)))
        .unwrap_or((head, ""));
    let name = match name {
        "to guest" => format!("To {server}"),
        "from guest" => format!("From {server}"),
        percentile if percentile.starts_with("p5") || percentile.starts_with("p9") => {
            percentile.to_owned()
        }
        other => capitalised(other),
    };
    (name, unit)
}

fn named(measure: &Measure) -> &'static str {
    if measure.metric.starts_with("rate_search") {
        return "Within goal";
    }
    match measure.unit {
        Unit::Bits | Unit::Datagrams => "Received",
        Unit::Transactions => "Answered",
        Unit::Operations => "Ended",
    }
}

/// The value, or why there is none.
fn known(metric: &Metric, text: impl FnOnce() -> String) -> String {
    match metric.reason() {
        Some(reason) => format!("{NO_VALUE} ({reason})"),
        // That it was one trial is said once, below.
        None => text().trim_end_matches(", n=1").to_owned(),
    }
}

fn tcp(cell: &CellAnalysis, fact: &mut impl FnMut(&str, String)) {
    let Some(tcp) = cell.tcp.as_ref().filter(|tcp| tcp.rtt_us.summary.is_some()) else { return };
    let again = &cell.retransmissions;
    if again.segments.summary.is_some() {
        fact(
            "Sent again",
            format!(
                "{} segments, {} of a million ({} by these connections since they began)",
                whole(&again.segments),
                mean(&again.per_million_segments_sent),
                whole(&tcp.retransmissions)
            ),
        );
    }
    fact(
        "Round trip",
        format!("{} µs, varying by {} µs", mean(&tcp.rtt_us), mean(&tcp.rtt_variation_us)),
    );
    let kib = |metric: &Metric| metric.mean().map_or(0.0, |bytes| bytes / 1024.0);
    fact(
        "Congestion window",
        format!(
            "{} KiB a connection, in segments of {} bytes",
            three_digits(kib(&tcp.congestion_window_bytes)),
            whole(&tcp.send_mss_bytes)
        ),
    );
}

fn cpu(cell: &CellAnalysis, fact: &mut impl FnMut(&str, String)) {
    let Some(between) = &cell.between else { return };
    let receives = match cell.direction {
        Direction::ToGuest => Some("server"),
        Direction::FromGuest => Some("client"),
        Direction::Both => None,
    };
    let ends = [("CPU here", "client", &between.client), ("CPU there", "server", &between.server)];
    for (name, which, end) in ends {
        let does = match (receives.map(|receives| receives == which), cell.measure().unit) {
            (None, _) => "sending and receiving",
            (Some(true), Unit::Transactions) => "answering",
            (Some(false), Unit::Transactions) => "asking",
            (Some(true), _) => "receiving",
            (Some(false), _) => "sending",
        };
        fact(name, known(&end.machine.busy_percent_of_core, || used(end, does, cell.measure())));
    }
    if let Some(hypervisor) = &between.hypervisor {
        let busy = &hypervisor.machine.busy_percent_of_core;
        fact("CPU of hypervisor", known(busy, || used_by_guest(hypervisor, cell.measure())));
    }
}

/// What the third party did.
fn used_by_guest(hypervisor: &HypervisorUse, measure: &Measure) -> String {
    let HypervisorUse { machine, cpu_seconds_per_unit, qemu } = hypervisor;
    let cost = cost(cpu_seconds_per_unit, measure);
    let mut text = format!("{} % of a core{cost}", whole(&machine.busy_percent_of_core));
    match qemu.total_percent_of_core.reason() {
        Some(reason) => text.push_str(&format!("; QEMU's threads: {reason}")),
        None => {
            let tasks = [
                ("virtual CPUs", &qemu.vcpu_percent_of_core),
                ("main loop", &qemu.main_loop_percent_of_core),
                ("vhost", &qemu.vhost_percent_of_core),
                ("I/O", &qemu.io_percent_of_core),
                ("others", &qemu.other_percent_of_core),
            ];
            let is_busy =
                |metric: &Metric| metric.mean().is_some_and(|percent| percent >= IDLE_PERCENT);
            let tasks = tasks.into_iter().filter(|(_, metric)| is_busy(metric));
            let tasks: Vec<String> =
                tasks.map(|(name, metric)| format!("{name} {} %", whole(metric))).collect();
            let tasks = if tasks.is_empty() { "idle".to_owned() } else { tasks.join(", ") };
            text.push_str(&format!("; the guest's QEMU: {tasks}"));
        }
    }
    text + &cores(machine)
}

/// `: 3.1 s per GB`.
fn cost(seconds_per_unit: &Metric, measure: &Measure) -> String {
    let Some(seconds) = seconds_per_unit.mean() else { return String::new() };
    let (factor, unit) = match measure.unit {
        Unit::Bits => (8e9, "s per GB"),
        Unit::Datagrams => (1e9, "ns each"),
        Unit::Transactions | Unit::Operations => (1e6, "µs each"),
    };
    format!(": {} {unit}", three_digits(seconds * factor))
}

fn used(end: &MachineEnd, does: &str, measure: &Measure) -> String {
    let mut text = format!("{} % of a core, {does}", whole(&end.machine.busy_percent_of_core));
    text.push_str(&cost(&end.cpu_seconds_per_unit, measure));
    if end.node_percent_of_core.summary.is_some() {
        text.push_str(&format!("; vioperf itself {} %", whole(&end.node_percent_of_core)));
    }
    text + &cores(&end.machine)
}

/// `; cores: 0 67 %, 3 12 %`.
fn cores(machine: &MachineUse) -> String {
    let busy = |core: &&vioperf_analysis::result::CoreUse| {
        core.busy_percent.mean().is_some_and(|percent| percent >= IDLE_PERCENT)
    };
    let named: Vec<String> = machine
        .cores
        .iter()
        .filter(busy)
        .map(|core| format!("{} {} %", core.core, whole(&core.busy_percent)))
        .collect();
    if named.is_empty() { String::new() } else { format!("; by core: {}", named.join(", ")) }
}

/// What has to be known to read the numbers.
pub fn legend(analysis: &RunAnalysis) -> String {
    let trials = analysis.cells.iter().map(|cell| cell.trials.completed).max().unwrap_or(0);
    let scatter = match trials {
        0 => "No trial was finished.",
        1 | 2 => "Fewer than 3 trials, so the scatter is not known: --blocks 3 tells it.",
        _ => "± is half the 95 % interval.",
    };
    if trials == 0 {
        return scatter.to_owned();
    }
    let tells = |cell: &CellAnalysis| cell.tcp.as_ref().is_some_and(|t| t.rtt_us.summary.is_some());
    let tcp = match analysis.cells.iter().any(tells) {
        true => " Round trip and window: as TCP saw them at the sender, at the end.",
        false => "",
    };
    format!(
        "{scatter} CPU: all cores of the machine together, whatever they did; 100 % is one core.{tcp}"
    )
}
