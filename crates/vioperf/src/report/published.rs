//! References by themselves: their list, their figures, and what is impossible in them.

use std::fmt::Write as _;

use serde::Serialize;
use vioperf_analysis::sanity::{self, ReferenceDefect};
use vioperf_analysis::wording::{count, three_digits};
use vioperf_model::reference::{Figure, FigureKind, Reference};

use super::table::{self, number, text};
use super::text::wrap;
use crate::references::Found;

const COLUMNS: usize = 100;

/// A line of the list.
#[derive(Debug, Serialize)]
pub struct Listed<'a> {
    name: &'a str,
    title: &'a str,
    year: u16,
    figures: usize,
    impossible: usize,
    origin: &'a str,
}

/// What `reference list --json` prints.
pub fn listed(all: &[Found]) -> Vec<Listed<'_>> {
    all.iter().map(line_of).collect()
}

fn line_of(found: &Found) -> Listed<'_> {
    let Found { origin, reference } = found;
    Listed {
        name: &reference.name,
        title: &reference.title,
        year: reference.year,
        figures: reference.figures.len(),
        impossible: sanity::of_reference(reference).len(),
        origin,
    }
}

/// So many figures, in words.
pub fn figures(n: usize) -> String {
    count(n, "figure")
}

/// The year, as sure as it is.
pub fn year(reference: &Reference) -> String {
    let inferred = if reference.year_is_inferred { " (inferred)" } else { "" };
    format!("{}{inferred}", reference.year)
}

/// Every reference, a paragraph each.
pub fn list(all: &[Found]) -> String {
    let mut out = String::new();
    for Found { origin, reference } in all {
        let defects = sanity::of_reference(reference).len();
        let impossible = match defects {
            0 => String::new(),
            n => format!(", {n} of what is told cannot be (`vioperf reference check`)"),
        };
        let about = format!(
            "{}, {}{impossible}; {origin}",
            year(reference),
            figures(reference.figures.len())
        );
        out.push_str(&wrap(&reference.name, COLUMNS, "", ""));
        out.push_str(&wrap(&reference.title, COLUMNS, "  ", "  "));
        out.push_str(&wrap(&about, COLUMNS, "  ", "  "));
        out.push('\n');
    }
    out.push_str("Set a run beside one: `vioperf run SCENARIO --reference NAME`.\n");
    out
}

/// A reference with all its figures.
pub fn show(found: &Found) -> String {
    let reference = &found.reference;
    let mut out = wrap(&reference.title, COLUMNS, "", "");
    let mut line = |name: &str, said: &str| {
        out.push_str(&wrap(&format!("{name}: {said}"), COLUMNS, "  ", "    "));
    };
    line("Year", &year(reference));
    let facts = [("Author", &reference.author), ("At", &reference.url)];
    for (name, said) in facts {
        said.iter().for_each(|said| line(name, said));
    }
    line("Hardware", &reference.hardware.join("; "));
    line("Versions", &reference.versions.join("; "));
    for (name, about) in &reference.platforms {
        line(&format!("Platform {name}"), about);
    }
    reference.notes.iter().for_each(|note| line("Note", note));
    out.push('\n');
    let columns = [
        text("figure"),
        text("kind"),
        text("row"),
        text("metric"),
        text("as printed"),
        number("%"),
    ];
    let rows: Vec<Vec<String>> =
        reference.figures.iter().map(|figure| row(reference, figure)).collect();
    let (head, body) = table::lines(&columns, &rows);
    for line in head.iter().chain(&body) {
        out.push_str(line);
        out.push('\n');
    }
    out.push_str("  %: of the figure that it is divided by, mostly the same without a guest.\n");
    let checked = check(std::slice::from_ref(found));
    out + "\n" + &checked
}

fn row(reference: &Reference, figure: &Figure) -> Vec<String> {
    let prefix = format!("{}-", reference.name);
    vec![
        figure.id.strip_prefix(&prefix).unwrap_or(&figure.id).to_owned(),
        kind(figure.kind).to_owned(),
        figure.row.clone(),
        figure.printed_metric.clone(),
        figure.as_printed(),
        reference.percent_of(figure).map(three_digits).unwrap_or_default(),
    ]
}

fn kind(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::Measurement => "measured",
        FigureKind::Claim => "claimed",
        FigureKind::Restated => "told again",
        FigureKind::Setting => "setting",
        FigureKind::Theory => "theory",
    }
}

/// What is impossible in a reference.
#[derive(Debug, Serialize)]
pub struct Checked<'a> {
    name: &'a str,
    impossible: Vec<ReferenceDefect>,
}

/// What `reference check --json` prints.
pub fn checked(all: &[Found]) -> Vec<Checked<'_>> {
    all.iter().map(checked_one).collect()
}

fn checked_one(found: &Found) -> Checked<'_> {
    let Found { reference, .. } = found;
    Checked { name: &reference.name, impossible: sanity::of_reference(reference) }
}

/// The same for a person.
pub fn check(all: &[Found]) -> String {
    let mut out = String::new();
    for Checked { name, impossible } in checked(all) {
        let said = match impossible.len() {
            0 => "nothing in it is impossible",
            1 => "one thing in it cannot be",
            _ => "what in it cannot be",
        };
        let _ = writeln!(out, "{name}: {said}");
        for defect in impossible {
            let said = format!("{}: {} ({})", defect.row, defect.what, defect.check);
            out.push_str(&wrap(&said, COLUMNS, "  ", "    "));
        }
    }
    out
}
