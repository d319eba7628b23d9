//! What limits cells, told as a short story: `vioperf explain`.

use vioperf_analysis::result::{CellAnalysis, Fact, Limit};
use vioperf_analysis::wording::{capitalised, load, three_digits};
use vioperf_model::workload::WorkloadKind;

use super::layers;
use super::settings;
use super::text::{clean, clip, pad, width, wrap};
use super::values::{self, headline_with_interval};

const COLUMNS: usize = 80;

/// Tells it of each of the cells, in that order; of a single one also how its ends were set up.
pub fn render(cells: &[&CellAnalysis], colours: bool) -> String {
    let stories: Vec<String> = cells.iter().map(|cell| story(cell, colours)).collect();
    let mut told = stories.join("\n");
    if let [cell] = cells {
        let settings = settings::of(cell);
        if !settings.is_empty() {
            told.push_str("  How its ends were set up:\n");
            told.push_str(&facts(&settings));
        }
    }
    told
}

fn story(cell: &CellAnalysis, colours: bool) -> String {
    let mut lines = strong(&heading(cell), colours);
    let Some((first, others)) = cell.limits.split_first() else {
        lines.push_str(&wrap(unknown(cell), COLUMNS, "  ", "  "));
        lines.push_str(&by_layer(cell));
        return lines;
    };
    lines.push_str(&wrap(&format!("{}.", first.title), COLUMNS, "  ", "  "));
    lines.push_str(&wrap(&how_sure(first), COLUMNS, "  ", "  "));
    lines.push_str(&facts(&first.evidence));
    lines.push_str(&wrap(&first.advice, COLUMNS, "  → ", "    "));
    for other in others {
        let sure =
            format!("Also {}: {} ({}).", other.confidence, uncapitalised(&other.title), other.rule);
        lines.push_str(&wrap(&sure, COLUMNS, "  ", "  "));
        lines.push_str(&facts(&other.evidence));
    }
    lines.push_str(&by_layer(cell));
    lines
}

/// Where time and packets went, whatever limits.
fn by_layer(cell: &CellAnalysis) -> String {
    let told = layers::lines(cell);
    if told.is_empty() {
        return String::new();
    }
    let mut lines = format!("  {} (means of the trials):\n", layers::TITLE);
    for layers::Line { place, what, value } in &told {
        let first = format!("    {}  ", pad(place, 8, false));
        lines.push_str(&wrap(&format!("{what}: {value}"), COLUMNS, &first, "              "));
    }
    lines
}

fn strong(text: &str, colours: bool) -> String {
    let lines = wrap(text, COLUMNS, "", "");
    if !colours {
        return lines;
    }
    lines.lines().map(|line| format!("\x1b[1m{line}\x1b[0m\n")).collect()
}

/// `virtio, towards the guest, 4 streams: 862 ± 24 Mbit/s, 24.1 % of the baseline (virtio/4-streams)`.
fn heading(cell: &CellAnalysis) -> String {
    let beside = cell.percent_of_baseline.mean().filter(|_| !cell.is_baseline);
    let beside = beside.map(|percent| format!(", {} % of the baseline", three_digits(percent)));
    let measured = headline_with_interval(cell);
    format!(
        "{}, {}: {measured}{} ({})",
        cell.path,
        load(&cell.workload),
        beside.unwrap_or_default(),
        cell.id
    )
}

fn how_sure(limit: &Limit) -> String {
    format!(
        "{}: seen in {} ({}).",
        capitalised(&limit.confidence.to_string()),
        values::trials_seen(limit),
        limit.rule
    )
}

fn facts(evidence: &[Fact]) -> String {
    let places = evidence.iter().map(|fact| width(&clean(&fact.place))).max().unwrap_or(0).min(20);
    let line = |fact: &Fact| {
        let first = format!("    {}  ", pad(&clip(&clean(&fact.place), places), places, false));
        let indent = " ".repeat(places + 8);
        wrap(&values::fact(fact), COLUMNS, &first, &indent)
    };
    evidence.iter().map(line).collect()
}

fn unknown(cell: &CellAnalysis) -> &'static str {
    if cell.trials.completed == 0 {
        return "No trial of it counts.";
    }
    if cell.workload.kind == WorkloadKind::RateSearch {
        return "It was searched for its limit: the bounds are in the report, and what packets are lost to \
                above them a packet-rate load tells.";
    }
    "Nothing that was read at either end says what limits it: no thread, core, queue or window was full, \
     and no counter of drops moved. What lies between the ends and cannot be read may."
}

fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_lowercase);
    match text.split_whitespace().next() {
        // A name stays as it is.
        Some(word) if word.chars().skip(1).any(char::is_uppercase) => text.to_owned(),
        _ => first.into_iter().flatten().chain(chars).collect(),
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn a_story_has_its_evidence_and_its_advice_and_holds_its_width() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let analysis = analyse(&run, &trials);
        let limited = analysis.cells.iter().find(|cell| cell.id.0 == "rtl8139/4-streams/to-guest");
        let mut cell = limited.unwrap().clone();
        let told = render(&[&cell], false);
        assert!(told.contains("QEMU's main loop uses a whole core"), "{told}");
        assert!(told.contains("Certain: seen in 3 of 3 trials (main-loop-full)."), "{told}");
        assert!(told.contains("host   CPU time of QEMU's main loop: 96"), "{told}");
        assert!(told.contains("→") && told.contains("virtio"), "{told}");
        // What a guest told is no command to a terminal.
        let fact = &mut cell.limits[0].evidence[0];
        fact.value = "\u{1b}[31m".to_owned() + &"x".repeat(300);
        let told = render(&[&cell], false);
        assert!(
            !told.contains('\u{1b}') && told.lines().all(|line| width(line) <= COLUMNS),
            "{told}"
        );
    }

    #[test]
    fn what_is_not_known_is_said() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        let mut cell = analysis.cells[0].clone();
        cell.limits.clear();
        assert!(render(&[&cell], false).contains("Nothing that was read"));
        cell.trials.completed = 0;
        assert!(render(&[&cell], false).contains("No trial of it counts"));
    }
}
