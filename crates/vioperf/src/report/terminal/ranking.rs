//! What each path keeps of the host's own, as bars.

use vioperf_analysis::result::Ranked;

use super::{COLUMNS, Page, Style};
use crate::report::table::WIDEST_NAME;
use crate::report::text::{clean, clip, pad, width, wrap};
use crate::report::values::{self, interval, mean};

/// What a line takes beside the name and the bar.
const NUMBERS: usize = 43;

impl Page<'_> {
    /// The paths as bars, best first.
    pub(super) fn ranking(&self) -> String {
        let ranking = &self.analysis.ranking;
        let most = ranking.iter().filter_map(|r| r.percent_of_baseline.mean()).fold(0.0, f64::max);
        if most <= 0.0 {
            return String::new();
        }
        let title = format!(
            "Kept of the host's own {}, in percent (95 % interval), over all workloads",
            values::kept(self.analysis)
        );
        let names = ranking.iter().map(|ranked| width(&ranked.path));
        let names = names.filter(|name| *name <= WIDEST_NAME).max().unwrap_or(0);
        let bars = COLUMNS.saturating_sub(NUMBERS + names).clamp(4, 26);
        let mut lines = self.style(Style::Strong, &wrap(&title, COLUMNS, "", ""));
        for ranked in ranking {
            if width(&ranked.path) > WIDEST_NAME {
                lines.push_str(&wrap(&ranked.path, COLUMNS, "  ", "    "));
            }
            lines.push_str(&line_of(ranked, most, names, bars));
            lines.push('\n');
        }
        if let Some(note) = values::note_on_ranking(self.analysis) {
            lines.push_str(&self.style(Style::Faint, &wrap(note, COLUMNS, "  ", "  ")));
        }
        if ranking.iter().any(|ranked| !ranked.complete) {
            let note = "* not every workload was measured: not to be compared with the others";
            lines.push_str(&self.style(Style::Faint, &format!("  {note}\n")));
        }
        lines
    }
}

fn line_of(ranked: &Ranked, most: f64, names: usize, bars: usize) -> String {
    let percent = &ranked.percent_of_baseline;
    let share = percent.mean().map_or(0.0, |mean| mean / most);
    let name = if width(&ranked.path) > WIDEST_NAME { "" } else { &ranked.path };
    let mut line = format!(
        "  {}  {}  {}  {}  {}",
        pad(&clean(name), names, false),
        pad(&bar(share, bars), bars, false),
        pad(&mean(percent), 6, true),
        pad(&interval(percent.summary.as_ref()), 11, false),
        values::kind(ranked.kind),
    );
    if !ranked.complete {
        line.push('*');
    }
    clip(line.trim_end(), COLUMNS)
}

/// A bar of at most `columns`, to an eighth of a column.
fn bar(share: f64, columns: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (columns * 8) as f64).round();
    let mut bar = String::new();
    let mut left = eighths;
    while left >= 8.0 {
        bar.push('█');
        left -= 8.0;
    }
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let at = (1..8).rev().find(|n| left >= f64::from(*n)).unwrap_or(0);
    bar + part.get(usize::try_from(at).unwrap_or(0)).copied().unwrap_or("")
}
