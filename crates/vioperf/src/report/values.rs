//! Numbers and names as every format for people writes them.

use vioperf_analysis::measure::{Measure, Unit};
use vioperf_analysis::result::{
    CellAnalysis, Confidence, EndFacts, Fact, Limit, Metric, Ranked, RunAnalysis, Summary,
};
use vioperf_analysis::wording::{count, decimals, load, three_digits};
use vioperf_model::nic::NicKind;
use vioperf_model::record::Place;
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::{IpVersion, SwitchKind};
use vioperf_model::workload;

use super::text::clean;

/// Stands where there is no value. The reason is told elsewhere.
pub const NO_VALUE: &str = "–";

/// Stands under a ranking of paths whose baselines differ.
const BY_FASTEST: &str = "Each load in percent of the fastest baseline with the same load, whichever path that is of; further down each \
                          is in percent of its own.";

/// What has to be said under the ranking.
pub fn note_on_ranking(analysis: &RunAnalysis) -> Option<&'static str> {
    analysis.ranks_by_fastest_baseline().then_some(BY_FASTEST)
}

/// `862 ± 24 Mbit/s`; of a single trial `862 Mbit/s, n=1`.
pub fn rate_with_interval(metric: &Metric) -> String {
    with_interval(metric, Unit::Bits)
}

/// The metric that a cell is ranked by, with its interval.
pub fn headline_with_interval(cell: &CellAnalysis) -> String {
    with_interval(cell.headline(), cell.measure().unit)
}

/// A rate with its interval (`444 ± 12 k/s`).
pub fn with_interval(metric: &Metric, unit: Unit) -> String {
    let Some(summary) = &metric.summary else { return NO_VALUE.into() };
    let (unit, factor) = unit.scale(summary.mean);
    let mean = summary.mean / factor;
    let places = decimals(mean);
    match summary.half_width() {
        Some(half) => format!("{mean:.places$} ± {:.places$} {unit}", half / factor),
        None => format!("{mean:.places$} {unit}, n={}", summary.n),
    }
}

/// Three digits of the mean.
pub fn mean(metric: &Metric) -> String {
    metric.mean().map_or_else(|| NO_VALUE.into(), three_digits)
}

/// The mean without decimals.
pub fn whole(metric: &Metric) -> String {
    metric.mean().map_or_else(|| NO_VALUE.into(), |mean| format!("{mean:.0}"))
}

/// The ends of the interval (`70.1–72.3`).
pub fn interval(summary: Option<&Summary>) -> String {
    match summary.and_then(|summary| summary.interval_95) {
        Some(interval) => {
            let places = decimals(interval.high);
            format!("{:.places$}–{:.places$}", interval.low, interval.high)
        }
        None => NO_VALUE.into(),
    }
}

/// The rule that says what limits a cell most; with a question mark where that is only possible.
pub fn limited_by(cell: &CellAnalysis) -> String {
    let Some(limit) = cell.limits.first() else { return NO_VALUE.into() };
    let doubt = if limit.confidence == Confidence::Possible { "?" } else { "" };
    format!("{}{doubt}", limit.rule)
}

/// A piece of evidence without its place (`overlimits: 412, over 2.02 s`).
pub fn fact(fact: &Fact) -> String {
    let over = fact.seconds.map(|seconds| format!(", over {} s", three_digits(seconds)));
    format!("{}: {}{}", clean(&fact.what), clean(&fact.value), over.unwrap_or_default())
}

/// In how many trials a limit was seen (`3 of 3 trials`).
pub fn trials_seen(limit: &Limit) -> String {
    let trials = usize::try_from(limit.trials).unwrap_or(usize::MAX);
    format!("{} of {}", limit.trials_seen, count(trials, "trial"))
}

/// `paravirtual`, `emulated` or `passed through`.
pub fn kind(kind: NicKind) -> &'static str {
    match kind {
        NicKind::Paravirtual => "paravirtual",
        NicKind::Emulated => "emulated",
        NicKind::PassedThrough => "passed through",
    }
}

/// The cells that differ in nothing but the path: what can be compared side by side.
#[derive(Debug)]
pub struct Workload<'a> {
    /// Their load.
    load: &'a workload::Workload,
    /// What they share (`towards the guest, 4 streams`).
    pub title: String,
    /// The baseline first, then as in the ranking.
    pub cells: Vec<&'a CellAnalysis>,
}

impl Workload<'_> {
    /// What its cells are measured by.
    pub fn measure(&self) -> &'static Measure {
        Measure::of(self.load.kind)
    }

    /// What its cells are loaded with.
    pub fn load(&self) -> &workload::Workload {
        self.load
    }
}

/// Every workload of the run, in the plan's order.
pub fn workloads(analysis: &RunAnalysis) -> Vec<Workload<'_>> {
    type Key<'a> = ((SwitchKind, u32, IpVersion, Vec<&'a str>), &'a workload::Workload);
    let mut groups: Vec<(Key<'_>, Vec<&CellAnalysis>)> = Vec::new();
    for cell in &analysis.cells {
        // What concerns the guest alone is part of a path's name.
        let of_all = cell.levels.iter().filter(|level| !level.factor.starts_with("guest."));
        let levels = of_all.map(|level| level.name.as_str()).collect();
        let key = ((cell.switch, cell.mtu_bytes, cell.ip, levels), &cell.workload);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    let rank = |cell: &CellAnalysis| {
        let is_its = |ranked: &Ranked| ranked.workloads.iter().any(|load| load.cell == cell.id);
        let place = analysis.ranking.iter().position(is_its);
        (!cell.is_baseline, place)
    };
    let several = |differs: fn(&Key<'_>, &Key<'_>) -> bool| {
        groups.iter().any(|(key, _)| differs(key, &groups[0].0))
    };
    let switches = several(|(a, _), (b, _)| a.0 != b.0);
    let mtus = several(|(a, _), (b, _)| a.1 != b.1);
    let protocols = several(|(a, _), (b, _)| a.2 != b.2);
    let title = |((switch, mtu, ip, levels), workload): &Key<'_>| {
        let mut title = load(workload);
        if switches {
            title.push_str(&format!(", {switch}"));
        }
        if mtus {
            title.push_str(&format!(", MTU {mtu}"));
        }
        if protocols {
            title.push_str(&format!(", {ip}"));
        }
        for level in levels {
            title.push_str(&format!(", {level}"));
        }
        title
    };
    let titled = |(key, _): &(Key<'_>, Vec<&'_ CellAnalysis>)| title(key);
    let titles: Vec<String> = groups.iter().map(titled).collect();
    let sorted = groups.into_iter().map(|((_, load), mut cells)| {
        cells.sort_by_key(|cell| rank(cell));
        (load, cells)
    });
    titles
        .into_iter()
        .zip(sorted)
        .map(|(title, (load, cells))| Workload { load, title, cells })
        .collect()
}

/// Of what the run's paths keep a part.
pub fn kept(analysis: &RunAnalysis) -> &'static str {
    Measure::of(analysis.run.scenario.workload.kind).kept
}

/// Where an end of the path is.
pub fn place(place: Place) -> &'static str {
    match place {
        Place::Peer => "peer",
        Place::HostEnd => "host's own end",
        Place::FarGuest => "far guest",
        Place::Forwarder => "forwarding guest",
        Place::Neighbour => "neighbour",
        Place::Second => "second namespace",
        Place::Guest => "guest",
        Place::Host => "host",
        Place::Client => "client",
        Place::Server => "server",
    }
}

/// The interfaces under test with the path they belong to, each once: what every fresh guest has
/// otherwise (its addresses) makes no difference, and the peer's end is the same for every path.
pub fn distinct_ends(analysis: &RunAnalysis) -> Vec<(&str, &EndFacts)> {
    let mut seen: Vec<(&str, &EndFacts)> = Vec::new();
    for cell in &analysis.cells {
        for end in &cell.ends {
            let path = if end.place == Place::Peer { "every path" } else { cell.path.as_str() };
            let is_known = |(known, facts): &(&str, &EndFacts)| {
                *known == path
                    && facts.place == end.place
                    && facts.kernel_release == end.kernel_release
                    && same_but_for_address(&facts.interface, &end.interface)
            };
            if !seen.iter().any(is_known) {
                seen.push((path, end));
            }
        }
    }
    seen
}

fn same_but_for_address(a: &InterfaceFacts, b: &InterfaceFacts) -> bool {
    let renamed = InterfaceFacts {
        name: b.name.clone(),
        mac: b.mac.clone(),
        bus_address: b.bus_address.clone(),
        ..a.clone()
    };
    renamed == *b
}

/// Why values are missing among `metrics`, each reason once, in alphabetical order.
pub fn reasons<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Vec<&'a str> {
    let mut reasons: Vec<&str> = metrics.filter_map(Metric::reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}
