//! For a terminal: the verdict first, then a table a metric.

use vioperf_analysis::compare::result::{ComparedRow, RunComparison};
use vioperf_analysis::result::Severity;
use vioperf_analysis::wording::capitalised;

use super::values::{self, Group};
use crate::report::table::{self, number, text};
use crate::report::text::wrap;

const COLUMNS: usize = 80;

/// Renders `comparison`, with ANSI sequences where `colours`.
pub fn render(comparison: &RunComparison, colours: bool) -> String {
    let page = Page { comparison, colours };
    let mut parts = vec![page.top()];
    parts.extend(values::groups(comparison).iter().map(|group| page.group(group)));
    parts.extend([page.legend(), page.changes(), page.doubts()]);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// The same as a part of a run's report, which says the rest.
pub fn section(comparison: &RunComparison, colours: bool) -> String {
    let page = Page { comparison, colours };
    let mut parts = vec![page.variants()];
    parts.extend(values::groups(comparison).iter().map(|group| page.group(group)));
    parts.extend([page.changes(), page.legend()]);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

struct Page<'a> {
    comparison: &'a RunComparison,
    colours: bool,
}

/// ANSI codes.
const STRONG: &str = "1";
const FAINT: &str = "2";
const NOTICE: &str = "1;35";
const WARNING: &str = "1;33";

impl Page<'_> {
    /// Colours clean text line by line.
    fn style(&self, code: &str, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let line = |line: &str| {
            let content = line.trim_end_matches('\n');
            format!("\x1b[{code}m{content}\x1b[0m{}", &line[content.len()..])
        };
        text.split_inclusive('\n').map(line).collect()
    }

    fn top(&self) -> String {
        let mut top = String::new();
        if let Some(notice) = &self.comparison.notice {
            top.push_str(&self.style(NOTICE, &wrap(notice, COLUMNS, "", "")));
            top.push('\n');
        }
        for sentence in &self.comparison.summary {
            top.push_str(&self.style(STRONG, &wrap(sentence, COLUMNS, "", "  ")));
        }
        top.push('\n');
        for side in values::sides(self.comparison) {
            top.push_str(&wrap(&side, COLUMNS, "  ", "     "));
        }
        top
    }

    fn variants(&self) -> String {
        let title = wrap(&values::beside(self.comparison), COLUMNS, "", "  ");
        let mut lines = self.style(STRONG, &title);
        for sentence in &self.comparison.summary {
            lines.push_str(&wrap(sentence, COLUMNS, "  ", "    "));
        }
        lines
    }

    fn group(&self, group: &Group<'_>) -> String {
        let columns = [
            text("cell"),
            number("A"),
            number("B"),
            number("B vs A\n(95 % interval)"),
            number("p"),
            text("difference"),
        ];
        let row = |row: &&ComparedRow| {
            let difference = values::difference(row);
            let verdict = values::verdict(row);
            let p = values::p_value(row);
            vec![row.cell.clone(), group.mean(row.a), group.mean(row.b), difference, p, verdict]
        };
        let rows: Vec<Vec<String>> = group.rows.iter().map(row).collect();
        let (head, body) = table::lines(&columns, &rows);
        let mut lines =
            self.style(STRONG, &wrap(&capitalised(&group.heading()), COLUMNS, "", "  "));
        lines.push_str(&self.style(FAINT, &(head.join("\n") + "\n")));
        for (line, row) in body.iter().zip(&group.rows) {
            let line = format!("{line}\n");
            let stands_out = row.verdict.is_difference();
            lines.push_str(&if stands_out { self.style(STRONG, &line) } else { line });
        }
        for note in values::notes(group) {
            lines.push_str(&self.style(FAINT, &wrap(&note, COLUMNS, "  ", "    ")));
        }
        lines
    }

    fn legend(&self) -> String {
        self.style(FAINT, &wrap(&values::legend(self.comparison), COLUMNS, "  ", "  "))
    }

    fn changes(&self) -> String {
        let changes = values::changes(self.comparison);
        if changes.is_empty() {
            return String::new();
        }
        let mut lines =
            self.style(STRONG, &format!("{}\n", values::changes_title(self.comparison)));
        lines.extend(changes.iter().map(|change| wrap(change, COLUMNS, "  ", "    ")));
        lines
    }

    fn doubts(&self) -> String {
        let mut lines = String::new();
        for doubt in &self.comparison.doubts {
            let word = if doubt.severity == Severity::Note { "Note" } else { "Doubt" };
            let title = format!("{word}: {}", doubt.title);
            lines.push_str(&self.style(WARNING, &wrap(&title, COLUMNS, "", "  ")));
            lines.push_str(&wrap(&doubt.evidence, COLUMNS, "  ", "  "));
            lines.push_str(&wrap(&doubt.advice, COLUMNS, "  → ", "    "));
        }
        lines
    }
}
