//! What was told of all plants, as a page: planted against told first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use vioperf_plants::plant::Plant;

/// The least part of plants that are told right first, and the most of controls that are told false.
const LEAST_RIGHT_PERCENT: f64 = 90.0;
const MOST_FALSE_PERCENT: f64 = 2.0;

const BEGIN: &str = "<!-- planted: written by `make bottlenecks` -->";
const END: &str = "<!-- planted ends -->";

/// What was told first of one try.
pub struct Told {
    pub first: String,
    /// Other programs kept the machine busy when it began or ended.
    pub beside_others: bool,
}

impl Told {
    /// Of a control beside other programs they are what may be told, too: that is what they do.
    pub fn is_right(&self, plant: &Plant) -> bool {
        let others = plant.is_control() && self.beside_others && self.first == "noisy-neighbour";
        others || plant.is_right(&self.first)
    }
}

/// A plant, and what was told first of each try.
pub struct Tried {
    pub plant: Plant,
    pub told: Vec<Told>,
    /// Why it could not be tried, the last time.
    pub trouble: Option<String>,
}

impl Tried {
    fn right(&self) -> usize {
        self.told.iter().filter(|told| told.is_right(&self.plant)).count()
    }
}

/// Tries that were told right, and all of them.
fn counts(all: &[Tried], of_controls: bool) -> (usize, usize) {
    let those = || all.iter().filter(|tried| tried.plant.is_control() == of_controls);
    (those().map(Tried::right).sum(), those().map(|tried| tried.told.len()).sum())
}

fn percent(part: usize, of: usize) -> f64 {
    part as f64 * 100.0 / of.max(1) as f64
}

/// Whether so many plants are told right, and so few controls false, as should be.
pub fn holds(all: &[Tried]) -> bool {
    let ((right, planted), (clean, controls)) = (counts(all, false), counts(all, true));
    let enough = planted == 0 || percent(right, planted) >= LEAST_RIGHT_PERCENT;
    enough && percent(controls - clean, controls) <= MOST_FALSE_PERCENT
}

/// The tables, in Markdown.
pub fn page(all: &[Tried], took: Duration) -> String {
    let ((right, planted), (clean, controls)) = (counts(all, false), counts(all, true));
    let mut text = format!(
        "{right} of {planted} planted bottlenecks were told right first ({:.0} %; at least \
         {LEAST_RIGHT_PERCENT:.0} % should be), {} of {controls} controls were told something false first \
         ({:.1} %; at most {MOST_FALSE_PERCENT:.0} % may be). It took {:.0} min on {}.\n\n",
        percent(right, planted),
        controls - clean,
        percent(controls - clean, controls),
        took.as_secs_f64() / 60.0,
        machine(),
    );
    let beside = all.iter().flat_map(|tried| &tried.told).filter(|told| told.beside_others).count();
    if beside > 0 {
        let _ = writeln!(
            text,
            "Other programs kept the machine busy at {beside} of these {} tries; where they did, noisy-neighbour is \
             not false of a control.\n",
            planted + controls,
        );
    }
    text.push_str("Planted (down) against told first (across); how many tries:\n\n");
    text.push_str(&confusion(all));
    text.push_str("\nEach plant:\n\n| plant | what is planted | right | told first |\n");
    text.push_str("| --- | --- | --- | --- |\n");
    for tried in all {
        let plant = &tried.plant;
        let why = if plant.why.is_empty() { String::new() } else { format!(" ({})", plant.why) };
        let _ = writeln!(
            text,
            "| {} | {} | {}{why} | {} |",
            plant.name,
            plant.about,
            plant.right.join(" or "),
            told(tried),
        );
    }
    text
}

fn told(tried: &Tried) -> String {
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for told in &tried.told {
        *counts.entry((&told.first, told.is_right(&tried.plant))).or_default() += 1;
    }
    let mut parts: Vec<String> = counts
        .iter()
        .map(|((told, is_right), count)| {
            let mark = if *is_right { "" } else { "**" };
            format!("{mark}{told}{mark} {count}×")
        })
        .collect();
    parts.extend(tried.trouble.iter().map(|trouble| format!("could not be tried: {trouble}")));
    parts.join(", ").replace(['\n', '|'], " ")
}

/// A row for each rule that is planted, a column for each that was told.
fn confusion(all: &[Tried]) -> String {
    let mut rows: BTreeMap<(bool, &str), BTreeMap<&str, usize>> = BTreeMap::new();
    let mut columns: BTreeSet<&str> = BTreeSet::new();
    for tried in all {
        let expected =
            if tried.plant.is_control() { tried.plant.name } else { tried.plant.right[0] };
        let row = rows.entry((tried.plant.is_control(), expected)).or_default();
        for told in &tried.told {
            columns.insert(&told.first);
            *row.entry(&told.first).or_default() += 1;
        }
    }
    let mut text =
        format!("| |{}\n", columns.iter().map(|name| format!(" {name} |")).collect::<String>());
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(columns.len()));
    for ((_, expected), row) in &rows {
        let cell =
            |name: &&str| row.get(name).map_or_else(|| " |".to_owned(), |n| format!(" {n} |"));
        let cells: String = columns.iter().map(cell).collect();
        let _ = writeln!(text, "| {expected} |{cells}");
    }
    text
}

/// The machine, as far as it matters.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let field = |key: &str| info.lines().find(|line| line.starts_with(key));
    let model =
        field("model name").and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown CPU");
    let cores = info.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease");
    let version: Vec<&str> = kernel.trim().splitn(3, '.').take(2).collect();
    format!("{cores} cores ({model}), Linux {}", version.join("."))
}

/// Replaces what is between the markers of a page.
///
/// # Errors
/// Where the page or its markers are missing.
pub fn put_between_markers(path: &Path, text: &str) -> Result<()> {
    let page =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let missing = || format!("{} lacks `{BEGIN}` or `{END}`", path.display());
    let (head, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, tail) = rest.split_once(END).with_context(missing)?;
    let page = format!("{head}{BEGIN}\n\n{text}\n{END}{tail}");
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vioperf_plants::plants::named;

    fn tried(name: &str, told: &[&str]) -> Tried {
        let told = told.iter().map(|&rule| Told { first: rule.to_owned(), beside_others: false });
        let told = told.collect();
        Tried { plant: named(name).unwrap(), told, trouble: None }
    }

    #[test]
    fn what_is_wrong_shows_and_counts() {
        let all = [
            tried("tbf-at-sender-tcp", &["shaper", "mtu-small"]),
            tried("clean-udp-rate", &["rate-asked"]),
        ];
        assert!(!holds(&all));
        let text = page(&all, Duration::from_secs(60));
        assert!(text.contains("1 of 2 planted"), "{text}");
        assert!(text.contains("| shaper | 1 | | 1 |"), "{text}");
        assert!(text.contains("**mtu-small** 1×"), "{text}");
        assert!(holds(&all[1..]));
        assert!(!holds(&[tried("clean-udp-rate", &["shaper"])]));
        let mut beside = tried("clean-tcp-1", &["noisy-neighbour"]);
        assert!(!holds(std::slice::from_ref(&beside)));
        beside.told[0].beside_others = true;
        assert!(holds(&[beside]));
    }
}
