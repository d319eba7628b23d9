//! For a pull request or an issue: GitHub's Markdown.

use vioperf_analysis::result::{CellAnalysis, Finding, RunAnalysis, Severity};
use vioperf_analysis::wording::capitalised;

use super::between;
use super::columns::{self, Extra, Place};
use super::comparison;
use super::ledger;
use super::picture;
use super::provenance;
use super::references;
use super::text::clean;
use super::values::{self, Workload, headline_with_interval, interval, mean, whole, workloads};

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let mut parts = Vec::new();
    parts.extend(analysis.notice.as_ref().map(|notice| format!("> **{}**\n", escape(notice))));
    parts.push(format!("## {}\n", escape(&analysis.question)));
    parts.push(format!("{}\n", escape(&analysis.headline.join(" "))));
    if between::is_between(analysis) {
        parts.extend(analysis.cells.iter().map(two_machines));
        parts.push(escape(&between::legend(analysis)) + "\n");
        parts.extend(analysis.references.iter().map(references::markdown));
    } else {
        parts.extend(analysis.variants.as_ref().map(comparison::markdown::section));
        parts.push(ranking(analysis));
        parts.extend(analysis.references.iter().map(references::markdown));
        parts.extend(workloads(analysis).iter().map(workload));
        parts.push(explanations(analysis));
    }
    parts.push(losses(analysis));
    parts.push(findings(&analysis.findings));
    parts.push(run(analysis));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Text that is shown as it is: nothing of it marks up, links, mentions or begins HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn two_machines(cell: &CellAnalysis) -> String {
    let mut lines = vec![format!("### {}\n", escape(&between::title(cell)))];
    lines.extend(["| what | measured |".to_owned(), "|---|---|".to_owned()]);
    let row =
        |(name, value): &(String, String)| format!("| {} | {} |", escape(name), escape(value));
    lines.extend(between::facts(cell).iter().map(row));
    lines.join("\n") + "\n"
}

fn ranking(analysis: &RunAnalysis) -> String {
    let mut lines = vec![
        format!(
            "| path | kind | % of the host's own {} | 95 % interval | blocks |",
            values::kept(analysis)
        ),
        "|---|---|---:|---:|---:|".to_owned(),
    ];
    for ranked in &analysis.ranking {
        let percent = &ranked.percent_of_baseline;
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            escape(&ranked.path),
            values::kind(ranked.kind),
            mean(percent),
            interval(percent.summary.as_ref()),
            percent.values.len(),
        ));
    }
    if let Some(note) = values::note_on_ranking(analysis) {
        lines.extend([String::new(), note.to_owned()]);
    }
    lines.join("\n") + "\n"
}

fn workload(workload: &Workload<'_>) -> String {
    let measure = workload.measure();
    let extras = columns::of(workload.load()).filter(is_of_first).map(Extra::head).collect();
    let demand = measure.demand_heads.map(|head| head.replace('\n', " "));
    let title = measure.title.replace('\n', " ");
    let heads = [
        vec!["path".to_owned(), title, "% of baseline".into(), "95 % interval".into()],
        extras,
        vec!["guest CPU %".into(), "host CPU %".into(), demand[0].clone(), demand[2].clone()],
        vec!["trials".into(), "limited by".into()],
    ]
    .concat();
    let mut lines = vec![
        format!("### {}\n", escape(&capitalised(&workload.title))),
        format!("| {} |", heads.join(" | ")),
        format!("|---|{}", "---:|".repeat(heads.len() - 1)),
    ];
    lines.extend(workload.cells.iter().map(|cell| row(cell)));
    lines.join("\n") + "\n" + &course(workload)
}

fn is_of_first(extra: &&'static Extra) -> bool {
    extra.place != Place::Course
}

/// How streams went over time, and their packets on both sides of the switch.
fn course(workload: &Workload<'_>) -> String {
    let extras = columns::of_course(workload.load(), &workload.cells);
    if extras.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = extras.iter().map(|extra| extra.head()).collect();
    let mut lines = vec![
        format!("\n| path | {} |", heads.join(" | ")),
        format!("|---|{}", "---:|".repeat(heads.len())),
    ];
    for cell in &workload.cells {
        let fields: Vec<String> = extras.iter().map(|extra| extra.field(cell)).collect();
        lines.push(format!("| {} | {} |", escape(&cell.path), fields.join(" | ")));
    }
    lines.join("\n") + "\n"
}

fn row(cell: &CellAnalysis) -> String {
    let guest = cell.guest.as_ref().map(|guest| whole(&guest.busy_percent_of_core));
    let demand = (cell.measure().demand)(cell);
    let (host_demand, guest_demand) = match demand {
        Some([host, _, guest]) => (mean(host), mean(guest)),
        None => (String::new(), String::new()),
    };
    let (percent, range, guest_demand) = if cell.is_baseline {
        ("100".into(), String::new(), String::new())
    } else {
        let percent = &cell.percent_of_baseline;
        (mean(percent), interval(percent.summary.as_ref()), guest_demand)
    };
    let extras = columns::of(&cell.workload).filter(is_of_first).map(|extra| extra.field(cell));
    let fields: Vec<String> = [escape(&cell.path), headline_with_interval(cell), percent, range]
        .into_iter()
        .chain(extras)
        .chain([guest.unwrap_or_default(), whole(&cell.host.busy_percent_of_core)])
        .chain([host_demand, guest_demand, cell.trials.completed.to_string()])
        .chain([values::limited_by(cell)])
        .collect();
    format!("| {} |", fields.join(" | "))
}

fn explanations(analysis: &RunAnalysis) -> String {
    let said = columns::explanations(&analysis.cells);
    if said.is_empty() { String::new() } else { escape(&said.join(" ")) + "\n" }
}

fn losses(analysis: &RunAnalysis) -> String {
    let told = ledger::told(analysis);
    if told.is_empty() {
        return String::new();
    }
    let mut lines = vec![
        format!("### {}\n", ledger::TITLE),
        "| path | load | lost of sent | where |".to_owned(),
        "|---|---|---:|---|".to_owned(),
    ];
    lines.extend(told.iter().map(|told| {
        format!(
            "| {} | {} | {} | {} |",
            escape(&told.cell.path),
            escape(told.load.as_deref().unwrap_or_default()),
            ledger::lost_of_sent(told.ledger),
            ledger::places(told.ledger)
        )
    }));
    lines.push(format!("\n{}", ledger::LEGEND));
    lines.join("\n") + "\n"
}

fn findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut lines = vec!["### Findings\n".to_owned()];
    for finding in findings {
        let severity = match finding.severity {
            Severity::Warning => "Warning",
            Severity::Doubt => "Doubt",
            Severity::Note => "Note",
        };
        lines.push(format!(
            "- **{severity}: {}.** {}. *{}*",
            escape(finding.title.trim_end_matches('.')),
            escape(finding.evidence.trim_end_matches('.')),
            escape(&finding.advice)
        ));
        let pictures = picture::lines(&finding.pictures);
        // Indented under its item, it is code: its columns stay.
        lines.extend(pictures.first().map(|_| String::new()));
        lines.extend(pictures.iter().map(|line| format!("      {line}")));
        lines.extend(pictures.first().map(|_| String::new()));
    }
    lines.join("\n") + "\n"
}

fn run(analysis: &RunAnalysis) -> String {
    let mut lines = vec!["<details><summary>The run</summary>\n".to_owned()];
    for (name, fact) in provenance::facts(analysis) {
        lines.push(format!("- {name}: {}", escape(&fact)));
    }
    if let Some(command) = provenance::repeat_command(&analysis.run) {
        // Indented code needs no fence, which the command could end.
        lines.push(format!("\nRepeat it:\n\n    {}", clean(&command)));
    }
    lines.push("\n</details>\n".to_owned());
    lines.join("\n")
}
