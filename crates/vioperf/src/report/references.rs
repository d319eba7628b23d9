//! A run beside published figures, in words that every form of the report uses; and its section on a terminal and in
//! Markdown.

use std::collections::BTreeSet;

use vioperf_analysis::columns;
use vioperf_analysis::compare::metric::title_of_column;
use vioperf_analysis::references::{
    Agreement, BesideReference, FigureBeside, RankingBeside, Reason, Reversed, Untold,
};
use vioperf_analysis::result::Summary;
use vioperf_analysis::wording::{capitalised, count, three_digits};
use vioperf_model::plan::CellId;

use super::markdown::escape;
use super::table::{self, Column, number, text};
use super::text::{clean, width, wrap};
use super::values::interval;

const COLUMNS: usize = 80;

/// The heading.
pub fn title(beside: &BesideReference) -> String {
    let inferred = if beside.year_is_inferred { ", inferred" } else { "" };
    format!("Beside {} ({}{inferred}): ratios and ranking, not rates", beside.name, beside.year)
}

/// What stands against what.
pub fn facts(beside: &BesideReference) -> [(&'static str, String); 2] {
    let said = |parts: [&[String]; 2]| parts.concat().join("; ");
    [
        ("There", format!("{}: {}", beside.title, said([&beside.hardware, &beside.versions]))),
        ("Here", said([&beside.own_hardware, &beside.own_versions])),
    ]
}

/// What the table says, and what it does not.
pub const LEGEND: &str = "Percentages are of what each was divided by, there and here. = says that a published \
                          repetition lies within the 95 % interval of this run, ≠ that none does, ? that it \
                          cannot be told. The values are as printed, on other hardware, in another year: they are not \
                          to be compared with this run's.";

/// A metric in words, by its name in exports.
pub fn said_of(metric: &str) -> String {
    let about = || columns::named(metric).map(|column| column.about);
    title_of_column(metric).or_else(about).unwrap_or(metric).to_owned()
}

/// How a ratio compares, as a sign.
pub fn sign(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Agrees => "=",
        Agreement::Differs => "≠",
        Agreement::NotTold => "?",
    }
}

/// The figure's name without its reference's.
pub fn short<'a>(beside: &BesideReference, figure: &'a str) -> &'a str {
    figure.strip_prefix(&format!("{}-", beside.name)).unwrap_or(figure)
}

/// A ratio with its interval.
fn percent(summary: &Summary) -> String {
    match summary.half_width() {
        Some(half) => format!("{} ± {}", three_digits(summary.mean), three_digits(half)),
        None => three_digits(summary.mean),
    }
}

/// Best first: `virtio > e1000 ≈ rtl8139`. Figures of one level that follow on each other are said once.
pub fn order<'a>(levels: impl Iterator<Item = (&'a str, bool)>) -> String {
    let mut said = String::new();
    let mut levels = levels.peekable();
    while let Some((level, is_told)) = levels.next() {
        let next = levels.peek();
        if next.is_some_and(|(next, _)| *next == level) {
            continue;
        }
        said.push_str(level);
        if next.is_some() {
            said.push_str(if is_told { " > " } else { " ≈ " });
        }
    }
    said
}

/// The orders of a ranking, and whether they agree.
pub fn ranking(ranking: &RankingBeside) -> String {
    let there = order(ranking.published.iter().map(|r| (r.level.as_str(), r.is_told_from_next)));
    let here = order(ranking.own.iter().map(|r| (r.level.as_str(), r.is_told_from_next)));
    let common = match ranking.common.as_str() {
        "" => String::new(),
        common => format!(" ({common})"),
    };
    let open = match ranking.not_told {
        0 => String::new(),
        1 => ", but for a pair that cannot be told apart there or here".to_owned(),
        n => format!(", but for {n} pairs that cannot be told apart there or here"),
    };
    let verdict = match ranking.agreement {
        Agreement::Agrees => format!("The ranking agrees{open}."),
        Agreement::Differs => "The ranking differs.".to_owned(),
        Agreement::NotTold => "Whether the ranking agrees cannot be told.".to_owned(),
    };
    format!(
        "By {}{common}, {}, best first: there {there}; here {here}. {verdict}",
        ranking.factor,
        said_of(&ranking.metric)
    )
}

/// The pairs of a ranking that cannot be told apart here, and why; nothing where there are none.
fn untold(ranking: &RankingBeside) -> Option<String> {
    let level = |cell: &CellId| {
        let own = ranking.own.iter().find(|own| own.cell == *cell);
        own.map_or_else(|| cell.0.clone(), |own| own.level.clone())
    };
    let pair = |pair: &Untold| {
        let names = format!("{} and {}", level(&pair.better_there), level(&pair.other));
        let of = |own: &Summary| {
            let percent = three_digits(own.mean);
            format!(" ({percent} % of the latter, {})", interval(Some(own)))
        };
        names + &pair.own_percent.as_ref().map(of).unwrap_or_default()
    };
    let pairs: Vec<String> = ranking.untold.iter().map(pair).collect();
    let is_explained = ranking.untold.iter().all(|pair| !pair.why.is_empty());
    let why =
        if is_explained { "" } else { ": no finding of this run says why, measure more blocks" };
    (!pairs.is_empty()).then(|| format!("not told apart here: {}{why}", pairs.join(", ")))
}

/// What was found about pairs that cannot be told apart here, each finding once: it stands behind many a pair.
fn why_untold(beside: &BesideReference) -> Option<String> {
    let pairs = beside.rankings.iter().flat_map(|ranking| &ranking.untold);
    let mut reasons: Vec<String> = Vec::new();
    for why in pairs.flat_map(|pair| &pair.why) {
        let said = format!("{} ({})", why.title, why.rule);
        if !reasons.contains(&said) {
            reasons.push(said);
        }
    }
    let said = || format!("Why pairs are not told apart here: {}.", reasons.join("; "));
    (!reasons.is_empty()).then(said)
}

/// What stands below a ranking: what cannot be told here, and what is the other way round, each with why.
pub fn explained(ranking: &RankingBeside) -> Vec<String> {
    ranking.reversed.iter().map(reversed).chain(untold(ranking)).collect()
}

/// A pair that is the other way round, and why.
fn reversed(pair: &Reversed) -> String {
    let Reversed { better_there, better_here, own_percent, why } = pair;
    let why = match why.as_slice() {
        [] => "no finding of this run says why".to_owned(),
        why => {
            let reasons: Vec<String> = why.iter().map(reason).collect();
            format!("what was found here: {}", reasons.join("; "))
        }
    };
    format!(
        "there {better_there} was the better one, here {better_here} is (the former has {} % of the latter, {}): {why}",
        three_digits(own_percent.mean),
        interval(Some(own_percent)),
    )
}

fn reason(reason: &Reason) -> String {
    match &reason.cell {
        Some(cell) => format!("{} ({}, {cell})", reason.title, reason.rule),
        None => format!("{} ({})", reason.title, reason.rule),
    }
}

/// What has to be known of the figures that are shown.
pub fn notes(beside: &BesideReference) -> Vec<String> {
    let mut notes: Vec<String> = why_untold(beside).into_iter().collect();
    let divisors = beside.figures.iter().map(|figure| figure.divided_by.as_str());
    let divisors: BTreeSet<&str> = divisors.filter(|divisor| *divisor != "baseline").collect();
    let (own, others): (Vec<&str>, Vec<&str>) =
        divisors.into_iter().partition(|divisor| divisor.starts_with("its "));
    if !others.is_empty() {
        notes.push(format!(
            "Divided not by a baseline, as there was none, but by {}.",
            others.join(", ")
        ));
    }
    if !own.is_empty() {
        notes.push(format!("Divided by another metric of the same trials: {}.", own.join(", ")));
    }
    let mut otherwise: Vec<&str> =
        beside.figures.iter().flat_map(|figure| &figure.otherwise).map(String::as_str).collect();
    otherwise.sort_unstable();
    otherwise.dedup();
    if !otherwise.is_empty() {
        notes.push(format!("Otherwise than there: {}.", otherwise.join(", ")));
    }
    for defect in &beside.impossible {
        let said = format!("What is published cannot be: {}: {}.", defect.row, defect.what);
        // A number that is told of both ends is wrong once.
        if !notes.contains(&said) {
            notes.push(said);
        }
    }
    notes.extend(beside.notes.iter().cloned());
    let left = |(reason, n): (&String, &u32)| {
        format!("{}: {reason}", count(usize::try_from(*n).unwrap_or(usize::MAX), "figure"))
    };
    let left: Vec<String> = beside.not_compared.iter().map(left).collect();
    if !left.is_empty() {
        notes.push(format!("Not in the table: {}.", left.join("; ")));
    }
    notes
}

/// What is said where no cell has a figure's setting.
pub const NOTHING: &str = "No figure of it has the setting of a cell of this run.";

/// The section for a terminal, before it is coloured: the title, then the rest.
pub fn terminal(beside: &BesideReference, wide: bool) -> (String, String) {
    let mut lines = String::new();
    for (name, said) in facts(beside) {
        lines.push_str(&wrap(&format!("{name}: {said}"), COLUMNS, "  ", "    "));
    }
    if beside.figures.is_empty() && beside.rankings.is_empty() {
        lines.push_str(&wrap(NOTHING, COLUMNS, "  ", "  "));
    }
    if !beside.figures.is_empty() {
        lines.push_str(&tables(beside, wide));
        lines.push_str(&wrap(LEGEND, COLUMNS, "  ", "  "));
    }
    for ranked in &beside.rankings {
        lines.push_str(&wrap(&ranking(ranked), COLUMNS, "  ", "    "));
        for said in explained(ranked) {
            lines.push_str(&wrap(&said, COLUMNS, "    - ", "      "));
        }
    }
    for note in notes(beside) {
        lines.push_str(&wrap(&note, COLUMNS, "  ", "    "));
    }
    (wrap(&title(beside), COLUMNS, "", ""), lines)
}

/// The metrics of a reference's figures, each once.
pub fn metrics(beside: &BesideReference) -> Vec<&str> {
    let mut metrics: Vec<&str> = Vec::new();
    for figure in &beside.figures {
        if !metrics.contains(&figure.metric.as_str()) {
            metrics.push(&figure.metric);
        }
    }
    metrics
}

/// A table a metric.
fn tables(beside: &BesideReference, wide: bool) -> String {
    let table = |metric: &str| {
        let figures = beside.figures.iter().filter(|figure| figure.metric == metric);
        let title = capitalised(&said_of(metric));
        wrap(&format!("{title}, in percent of what it is divided by"), COLUMNS, "  ", "  ")
            + &rows(&figures.collect::<Vec<_>>(), wide)
    };
    metrics(beside).into_iter().map(table).collect()
}

/// The table: without the printed values where they do not fit.
fn rows(figures: &[&FigureBeside], wide: bool) -> String {
    let lines = |printed: bool| {
        let mut columns: Vec<Column> = vec![text("cell")];
        columns.extend(printed.then(|| text("as printed")));
        columns.extend([number("%\nthere"), number("%\nhere"), text("")]);
        let row = |figure: &&FigureBeside| {
            let mut row = vec![figure.cell.0.clone()];
            row.extend(printed.then(|| figure.published.clone()));
            row.push(three_digits(figure.published_percent));
            row.push(percent(&figure.own_percent));
            row.push(sign(figure.agreement).to_owned());
            row
        };
        let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
        let (head, body) = table::lines_of_named(&columns, &rows);
        [head, body].concat()
    };
    let whole = lines(true);
    let fits = wide || whole.iter().all(|line| width(line) <= COLUMNS);
    let shown = if fits { whole } else { lines(false) };
    shown.join("\n") + "\n"
}

/// The section in Markdown.
pub fn markdown(beside: &BesideReference) -> String {
    let mut lines = vec![format!("### {}\n", escape(&title(beside)))];
    for (name, said) in facts(beside) {
        lines.push(format!("- {name}: {}", escape(&said)));
    }
    lines.push(String::new());
    if beside.figures.is_empty() && beside.rankings.is_empty() {
        lines.push(format!("{}\n", escape(NOTHING)));
    }
    if !beside.figures.is_empty() {
        lines.push(
            "| figure | metric | cell | as printed | divided by | % there | % here | 95 % interval | |"
                .into(),
        );
        lines.push("|---|---|---|---|---|---:|---:|---:|---|".into());
        for figure in &beside.figures {
            let fields = [
                short(beside, &figure.figure).to_owned(),
                said_of(&figure.metric),
                figure.cell.0.clone(),
                figure.published.clone(),
                figure.divided_by.clone(),
                three_digits(figure.published_percent),
                three_digits(figure.own_percent.mean),
                interval(Some(&figure.own_percent)),
                sign(figure.agreement).to_owned(),
            ];
            let fields: Vec<String> = fields.iter().map(|field| escape(field)).collect();
            lines.push(format!("| {} |", fields.join(" | ")));
        }
        lines.push(format!("\n{}\n", escape(LEGEND)));
    }
    for ranked in &beside.rankings {
        lines.push(format!("- {}", escape(&ranking(ranked))));
        lines.extend(explained(ranked).iter().map(|said| format!("  - {}", escape(said))));
    }
    lines.extend(notes(beside).iter().map(|note| format!("- {}", escape(&clean(note)))));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_told_twice_are_said_once() {
        let of =
            |levels: &[(&str, bool)]| order(levels.iter().map(|(name, is_told)| (*name, *is_told)));
        assert_eq!(of(&[("4", true), ("4", true), ("32", false), ("32", false)]), "4 > 32");
        assert_eq!(of(&[("4", true), ("32", false), ("4", true)]), "4 > 32 ≈ 4");
        assert_eq!(of(&[]), "");
    }
}
