//! What a terminal shows of a run while it runs: where it is, what goes over the path now, how busy the
//! cores are, and what was found so far.

use std::cell::RefCell;
use std::time::Duration;

use vioperf_analysis::result::{RunAnalysis, Severity};
use vioperf_analysis::wording::{percent, three_digits};

use crate::live::{Moment, Watch};
use crate::output::Output;
use crate::prepare::spoken;
use crate::report::text::{clean, pad};

/// Columns of the bar that tells how far the run is.
const BAR: usize = 20;
/// Columns that a cell's name takes at least, so that rates stay where they are.
const NAME: usize = 36;
/// So many cores are shown one by one; of more there is only the sum.
const CORES: usize = 64;
/// Findings that are shown.
const FINDINGS: usize = 2;
/// From low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lines at the bottom of the terminal. Whoever has one sees to it that there is a terminal.
#[derive(Debug)]
pub struct Dashboard<'a> {
    output: &'a Output,
    colours: bool,
    shown: RefCell<Shown>,
}

/// Where in its plan a run is.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The scenario's name.
    pub scenario: String,
    /// Trials that are behind.
    pub done: usize,
    /// Trials in all.
    pub total: usize,
    /// The block, from 1.
    pub block: usize,
    /// Blocks in all.
    pub blocks: usize,
    /// Whether it may be done before the last of them.
    pub may_settle: bool,
    /// How long the rest takes; absent before anything tells.
    pub left: Option<Duration>,
    /// The cell, and which attempt at it.
    pub what: String,
}

#[derive(Debug, Default)]
struct Shown {
    place: Place,
    step: Option<String>,
    /// Rates of the trial that runs.
    rates: Vec<f64>,
    moment: Option<Moment>,
    /// Paths with their percentages of the baseline, best first.
    ranking: Vec<(String, f64)>,
    findings: Vec<String>,
}

impl<'a> Dashboard<'a> {
    /// One that shows nothing yet.
    pub fn new(output: &'a Output) -> Self {
        Self { output, colours: output.colors_status(), shown: RefCell::default() }
    }

    /// A trial begins.
    pub fn trial_begins(&self, place: Place) {
        let before = self.shown.take();
        let Shown { ranking, findings, .. } = before;
        self.shown.replace(Shown { place, ranking, findings, ..Shown::default() });
        self.show();
    }

    /// What the trials so far come to.
    pub fn found(&self, analysis: &RunAnalysis) {
        let mut shown = self.shown.borrow_mut();
        let ranked = analysis.ranking.iter();
        shown.ranking = ranked
            .filter_map(|ranked| Some((clean(&ranked.path), ranked.percent_of_baseline.mean()?)))
            .collect();
        let telling =
            analysis.findings.iter().filter(|finding| finding.severity == Severity::Warning);
        shown.findings = telling.map(|finding| clean(&finding.title)).collect();
    }

    fn show(&self) {
        self.output.status_lines(lines(&self.shown.borrow(), self.colours));
    }
}

impl Watch for Dashboard<'_> {
    fn sees(&self, moment: &Moment) {
        let mut shown = self.shown.borrow_mut();
        shown.rates.extend(moment.moved.map(|moved| moved.per_second));
        shown.moment = Some(moment.clone());
        drop(shown);
        self.show();
    }

    fn step(&self, step: &str) {
        self.shown.borrow_mut().step = Some(clean(step));
        self.show();
    }
}

fn lines(shown: &Shown, colours: bool) -> Vec<String> {
    let faint = |text: &str| match colours {
        true => format!("\x1b[2m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let mut lines = vec![where_it_is(&shown.place), what_runs(shown)];
    lines.extend(shown.moment.as_ref().map(|moment| faint("cores   ") + &cores(moment)));
    if !shown.ranking.is_empty() {
        let of = |(path, kept): &(String, f64)| format!("{path} {}", percent(*kept));
        let paths: Vec<String> = shown.ranking.iter().map(of).collect();
        lines.push(faint("so far  ") + &paths.join("   "));
    }
    let findings = &shown.findings;
    lines.extend(findings.iter().take(FINDINGS).map(|title| faint("finding ") + title));
    if findings.len() > FINDINGS {
        lines.push(faint(&format!("        and {} more", findings.len() - FINDINGS)));
    }
    lines
}

fn where_it_is(place: &Place) -> String {
    let Place { scenario, done, total, block, blocks, may_settle, left, .. } = place;
    let full = done * BAR / (*total).max(1);
    let bar = "━".repeat(full.min(BAR)) + &"╌".repeat(BAR.saturating_sub(full));
    let at_most = if *may_settle { "at most " } else { "" };
    let left = left.map_or_else(String::new, |left| format!("   {at_most}{} left", spoken(left)));
    format!("{scenario}  {bar}  trial {} of {total}, block {block} of {blocks}{left}", done + 1)
}

fn what_runs(shown: &Shown) -> String {
    let what = pad(&clean(&shown.place.what), NAME, false);
    let step = shown.step.as_deref().unwrap_or_default();
    let Some(moment) = &shown.moment else {
        return format!("{what}  {}", if step.is_empty() { "is made ready" } else { step });
    };
    let rate = moment.moved.map_or_else(|| "–".to_owned(), |moved| moved.text());
    let again = moment.sent_again.filter(|again| *again > 0);
    let again = again.map_or_else(String::new, |again| format!("   {again} sent again"));
    let line = format!("{what}  {}  {}{again}", pad(&rate, 12, true), sparkline(&shown.rates));
    if step.is_empty() { line } else { format!("{line}   {step}") }
}

/// Machine by machine: a bar for each core, and all together, where 100 % is one.
fn cores(moment: &Moment) -> String {
    let mut machines: Vec<String> = Vec::new();
    for (index, (name, cores)) in moment.cores.iter().enumerate() {
        // Both ends of a baseline are on the host.
        if moment.cores[..index].iter().any(|(other, _)| other == name) {
            continue;
        }
        let bars: String = match cores.len() {
            0..=CORES => cores.iter().map(|percent| level(percent / 100.0)).collect(),
            many => format!("{many} cores"),
        };
        machines.push(format!("{name} {bars} {} %", three_digits(cores.iter().sum())));
    }
    machines.join("   ")
}

/// Rates over time, the highest as the full height.
fn sparkline(rates: &[f64]) -> String {
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let part = |rate: &f64| if highest > 0.0 { rate / highest } else { 0.0 };
    rates.iter().map(|rate| level(part(rate))).collect()
}

fn level(part: f64) -> char {
    // So small a number of levels is exact, and what is no number the lowest.
    let mut steps = LEVELS.iter().enumerate().skip(1).rev();
    let reached = steps.find(|(step, _)| part * LEVELS.len() as f64 > *step as f64);
    reached.map_or(LEVELS[0], |(_, level)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            scenario: "nic-models".into(),
            done: 12,
            total: 32,
            block: 2,
            blocks: 4,
            may_settle: true,
            left: Some(Duration::from_secs(100)),
            what: "virtio/to-guest/1".into(),
        }
    }

    #[test]
    fn a_trial_that_is_made_ready_has_no_rate() {
        let shown = Shown { place: place(), ..Shown::default() };
        assert_eq!(
            lines(&shown, false),
            [
                "nic-models  ━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌  trial 13 of 32, block 2 of 4   at most 1 min 40 s left",
                "virtio/to-guest/1                     is made ready",
            ]
        );
    }

    #[test]
    fn cores_of_a_machine_are_told_once_and_what_was_found_is_beside_them() {
        let host = || ("host".to_owned(), vec![100.0, 12.0]);
        let moment = Moment {
            seconds: 1.0,
            moved: None,
            sent_again: Some(3),
            cores: vec![host(), host(), ("guest".to_owned(), vec![50.0])],
        };
        let findings = ["one", "two", "three"].map(str::to_owned).to_vec();
        let ranking = vec![("virtio".to_owned(), 71.23)];
        let shown = Shown {
            place: place(),
            moment: Some(moment),
            rates: vec![1.0, 4.0, 8.0],
            ranking,
            findings,
            ..Shown::default()
        };
        let lines = lines(&shown, false);
        assert!(lines[1].ends_with("–  ▁▄█   3 sent again"), "{lines:?}");
        assert_eq!(
            lines[2..],
            [
                "cores   host █▁ 112 %   guest ▄ 50.0 %",
                "so far  virtio 71.2 %",
                "finding one",
                "finding two",
                "        and 1 more"
            ]
        );
    }

    #[test]
    fn levels_hold_what_is_out_of_their_range() {
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!([f64::NAN, -1.0, 9.0].map(level), ['▁', '▁', '█']);
    }
}
