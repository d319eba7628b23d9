//! Numbers and names as every format for people writes them.

use vioperf_analysis::result::{CellAnalysis, EndFacts, Metric, RunAnalysis, Summary};
use vioperf_analysis::wording::{decimals, direction, rate_unit, three_digits};
use vioperf_model::nic::NicKind;
use vioperf_model::record::Place;
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::SwitchKind;
use vioperf_model::workload::Direction;

/// Stands where there is no value. The reason is told elsewhere.
pub const NO_VALUE: &str = "–";

/// `862 ± 24 Mbit/s`; of a single trial `862 Mbit/s, n=1`.
pub fn rate_with_interval(metric: &Metric) -> String {
    let Some(summary) = &metric.summary else { return NO_VALUE.into() };
    let (unit, factor) = rate_unit(summary.mean);
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

/// `paravirtual` or `emulated`.
pub fn kind(kind: NicKind) -> &'static str {
    match kind {
        NicKind::Paravirtual => "paravirtual",
        NicKind::Emulated => "emulated",
    }
}

/// The cells that differ in nothing but the path: what can be compared side by side.
#[derive(Debug)]
pub struct Workload<'a> {
    /// What they share (`towards the guest, 4 streams`).
    pub title: String,
    /// The baseline first, then as in the ranking.
    pub cells: Vec<&'a CellAnalysis>,
}

/// Every workload of the run, in the plan's order.
pub fn workloads(analysis: &RunAnalysis) -> Vec<Workload<'_>> {
    type Key = (SwitchKind, u32, u16, Direction);
    let key = |cell: &CellAnalysis| -> Key {
        (cell.switch, cell.mtu_bytes, cell.streams, cell.direction)
    };
    let mut groups: Vec<(Key, Vec<&CellAnalysis>)> = Vec::new();
    for cell in &analysis.cells {
        match groups.iter_mut().find(|(known, _)| *known == key(cell)) {
            Some((_, group)) => group.push(cell),
            None => groups.push((key(cell), vec![cell])),
        }
    }
    let rank = |cell: &CellAnalysis| {
        let place = analysis.ranking.iter().position(|ranked| ranked.nic == cell.path);
        (!cell.is_baseline, place)
    };
    let several =
        |read: fn(&Key) -> String| groups.iter().any(|(key, _)| read(key) != read(&groups[0].0));
    let (switches, mtus) = (several(|key| key.0.to_string()), several(|key| key.1.to_string()));
    let title = |(switch, mtu, streams, towards): &Key| {
        let plural = if *streams == 1 { "" } else { "s" };
        let mut title = format!("{}, {streams} stream{plural}", direction(*towards));
        if switches {
            title.push_str(&format!(", {switch}"));
        }
        if mtus {
            title.push_str(&format!(", MTU {mtu}"));
        }
        title
    };
    let titled = |(key, _): &(Key, Vec<&'_ CellAnalysis>)| title(key);
    let titles: Vec<String> = groups.iter().map(titled).collect();
    let sorted = groups.into_iter().map(|(_, mut cells)| {
        cells.sort_by_key(|cell| rank(cell));
        cells
    });
    titles.into_iter().zip(sorted).map(|(title, cells)| Workload { title, cells }).collect()
}

/// Where an end of the path is.
pub fn place(place: Place) -> &'static str {
    match place {
        Place::Peer => "peer",
        Place::Second => "second namespace",
        Place::Guest => "guest",
        Place::Host => "host",
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

/// `text` with its first letter in upper case.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Why values are missing among `metrics`, each reason once, in alphabetical order.
pub fn reasons<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Vec<&'a str> {
    let mut reasons: Vec<&str> = metrics.filter_map(Metric::reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}
