//! Where a cell's time and packets went, layer by layer, in words: the same for the terminal and the page.

use vioperf_analysis::result::{CellAnalysis, CoreUse, MachineLayers, Metric};
use vioperf_analysis::wording::{percent, three_digits};

/// What it is called.
pub const TITLE: &str = "Layer by layer";

/// One line: where, what, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The machine, or the part of the path.
    pub place: &'static str,
    /// What is counted.
    pub what: String,
    /// How much of it.
    pub value: String,
}

/// Means of the trials that count: cores first, then who works for packets, then where any were dropped.
/// What is not known or nothing at all is left out.
pub fn lines(cell: &CellAnalysis) -> Vec<Line> {
    let mut lines = Vec::new();
    for machine in cell.machines() {
        let cores = machine.cores.cores.iter();
        lines.extend(cores.filter_map(|core| of_core(machine.name, core)));
    }
    if let Some(qemu) = &cell.qemu {
        let threads = [
            ("virtual CPUs", &qemu.vcpu_percent_of_core),
            ("main loop", &qemu.main_loop_percent_of_core),
            ("I/O threads", &qemu.io_percent_of_core),
            ("vhost workers", &qemu.vhost_percent_of_core),
        ];
        let of_core = |share| format!("{} of a core", percent(share));
        lines.extend(
            threads.iter().filter_map(|(name, metric)| line("QEMU", name, metric, of_core)),
        );
    }
    lines.extend(of_machine("host", &cell.layers.host));
    lines.extend(cell.layers.guest.iter().flat_map(|layers| of_machine("guest", layers)));
    let (path, sockets) = (&cell.layers.path, &cell.layers.sockets);
    let dropped = [
        ("sender", "dropped by queueing disciplines", &path.sender_qdisc_dropped),
        ("sender", "dropped by interfaces", &path.sender_interface_dropped),
        ("switch", "dropped by queueing disciplines", &path.switch_qdisc_dropped),
        ("switch", "dropped by ports and taps", &path.switch_interface_dropped),
        ("receiver", "dropped by interfaces", &path.receiver_interface_dropped),
        ("receiver", "UDP sockets had no room for", &sockets.receiver_udp_buffer_errors),
        ("receiver", "UDP had no socket for", &sockets.receiver_udp_no_port),
        ("receiver", "dropped by TCP", &sockets.receiver_tcp_dropped),
        ("sender", "time-outs of TCP", &sockets.sender_tcp_timeouts),
    ];
    lines.extend(
        dropped.iter().filter_map(|(place, what, metric)| line(place, what, metric, a_trial)),
    );
    lines
}

fn of_core(place: &'static str, core: &CoreUse) -> Option<Line> {
    let busy = core.busy_percent.mean()?;
    let states = &core.mean_percent;
    let split = [
        ("user", states.user),
        ("system", states.system),
        ("interrupts", states.irq),
        ("soft interrupts", states.softirq),
        ("virtual CPUs", states.guest),
        ("stolen", states.steal),
    ];
    let split = split.iter().filter_map(|(name, share)| {
        share.filter(|share| *share >= 0.5).map(|share| format!("{name} {share:.0}"))
    });
    let split: Vec<String> = split.collect();
    let value = match split.is_empty() {
        true => percent(busy),
        false => format!("{}: {}", percent(busy), split.join(", ")),
    };
    Some(Line { place, what: format!("CPU {} busy", core.core), value })
}

fn of_machine(place: &'static str, layers: &MachineLayers) -> Vec<Line> {
    let a_second = |rate: f64| format!("{} a second", three_digits(rate));
    let rates = [
        ("soft interrupts to receive", &layers.receive_soft_interrupts_per_second),
        ("soft interrupts to send", &layers.send_soft_interrupts_per_second),
        ("interrupts of network devices", &layers.network_interrupts_per_second),
    ];
    let counts = [
        ("left for later, a core's budget used up", &layers.softnet_squeezed),
        ("dropped, a core's backlog full", &layers.softnet_dropped),
    ];
    let rates = rates.iter().filter_map(|(what, metric)| line(place, what, metric, a_second));
    let counts = counts.iter().filter_map(|(what, metric)| line(place, what, metric, a_trial));
    rates.chain(counts).collect()
}

fn a_trial(count: f64) -> String {
    format!("{} a trial", three_digits(count))
}

fn line(
    place: &'static str,
    what: &str,
    metric: &Metric,
    say: impl Fn(f64) -> String,
) -> Option<Line> {
    let mean = metric.mean().filter(|mean| *mean > 0.0)?;
    Some(Line { place, what: what.to_owned(), value: say(mean) })
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn cores_are_split_and_what_is_nothing_is_left_out() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let analysis = analyse(&run, &trials);
        let cell = analysis.cells.iter().find(|cell| cell.id.0 == "rtl8139/4-streams/to-guest");
        let mut cell = cell.unwrap().clone();
        let told = lines(&cell);
        let of = |place: &str| told.iter().filter(|line| line.place == place).count();
        assert!(of("host") >= 2 && of("guest") >= 1 && of("QEMU") >= 1, "{told:?}");
        assert!(told.iter().any(|line| line.what == "CPU 0 busy" && line.value.contains(": ")));
        assert!(!told.iter().any(|line| line.value.starts_with("0 ")), "{told:?}");
        cell.guest = None;
        cell.qemu = None;
        assert!(lines(&cell).iter().all(|line| line.place != "QEMU"));
    }
}
