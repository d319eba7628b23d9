//! For a pull request or an issue: GitHub's Markdown.

use vioperf_analysis::result::{CellAnalysis, Finding, RunAnalysis, Severity};

use super::provenance;
use super::text::clean;
use super::values::{
    self, Workload, capitalised, interval, mean, rate_with_interval, whole, workloads,
};

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let mut parts = Vec::new();
    parts.extend(analysis.notice.as_ref().map(|notice| format!("> **{}**\n", escape(notice))));
    parts.push(format!("## {}\n", escape(&analysis.question)));
    parts.push(format!("{}\n", escape(&analysis.headline.join(" "))));
    parts.push(ranking(analysis));
    parts.extend(workloads(analysis).iter().map(workload));
    parts.push(findings(&analysis.findings));
    parts.push(run(analysis));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Text that is shown as it is: nothing of it marks up, links, mentions or begins HTML.
fn escape(text: &str) -> String {
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

fn ranking(analysis: &RunAnalysis) -> String {
    let mut lines = vec![
        "| path | kind | % of the host's own path | 95 % interval | blocks |".to_owned(),
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
    lines.join("\n") + "\n"
}

fn workload(workload: &Workload<'_>) -> String {
    let mut lines = vec![
        format!("### {}\n", escape(&capitalised(&workload.title))),
        "| path | throughput | % of baseline | 95 % interval | guest CPU % | host CPU % | host \
         µs/KiB | guest µs/KiB | trials |"
            .to_owned(),
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    lines.extend(workload.cells.iter().map(|cell| row(cell)));
    lines.join("\n") + "\n"
}

fn row(cell: &CellAnalysis) -> String {
    let guest = cell.guest.as_ref().map(|guest| whole(&guest.busy_percent_of_core));
    let (percent, range, guest_demand) = if cell.is_baseline {
        ("100".into(), String::new(), String::new())
    } else {
        (
            mean(&cell.percent_of_baseline),
            interval(cell.percent_of_baseline.summary.as_ref()),
            mean(&cell.service_demand.guest_us_per_kib),
        )
    };
    format!(
        "| {} | {} | {percent} | {range} | {} | {} | {} | {guest_demand} | {} |",
        escape(&cell.path),
        rate_with_interval(&cell.receiver_bits_per_second),
        guest.unwrap_or_default(),
        whole(&cell.host.busy_percent_of_core),
        mean(&cell.service_demand.host_us_per_kib),
        cell.trials.completed,
    )
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
