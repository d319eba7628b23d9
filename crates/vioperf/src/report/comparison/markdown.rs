//! For a pull request or an issue: GitHub's Markdown.

use vioperf_analysis::compare::result::{ComparedRow, RunComparison};
use vioperf_analysis::wording::capitalised;

use super::values::{self, Group};
use crate::report::markdown::escape;

/// Renders `comparison`.
pub fn render(comparison: &RunComparison) -> String {
    let mut parts = Vec::new();
    parts.extend(comparison.notice.as_ref().map(|notice| format!("> **{}**\n", escape(notice))));
    parts.push(format!("## {}\n", escape(&comparison.summary.join(" "))));
    let sides = values::sides(comparison).map(|side| format!("- {}\n", escape(&side)));
    parts.push(sides.concat());
    parts.extend(values::groups(comparison).iter().map(group));
    parts.push(escape(&values::legend(comparison)) + "\n");
    parts.extend(changes(comparison));
    if !comparison.doubts.is_empty() {
        let doubt = |doubt: &vioperf_analysis::result::Finding| {
            let [title, evidence, advice] =
                [&doubt.title, &doubt.evidence, &doubt.advice].map(|text| escape(text));
            format!("- **{title}.** {evidence}. *{advice}*\n")
        };
        let lines: String = comparison.doubts.iter().map(doubt).collect();
        parts.push(format!("### Doubts\n\n{lines}"));
    }
    parts.join("\n")
}

/// The same as a part of a run's report, which says the rest.
pub fn section(comparison: &RunComparison) -> String {
    let mut parts = vec![format!("## {}\n", escape(&values::beside(comparison)))];
    parts.push(escape(&comparison.summary.join(" ")) + "\n");
    parts.extend(values::groups(comparison).iter().map(group));
    parts.extend(changes(comparison));
    parts.push(escape(&values::legend(comparison)) + "\n");
    parts.join("\n")
}

fn changes(comparison: &RunComparison) -> Option<String> {
    let changes = values::changes(comparison);
    let lines: String = changes.iter().map(|line| format!("- {}\n", escape(line))).collect();
    let title = values::changes_title(comparison);
    (!changes.is_empty()).then(|| format!("### {title}\n\n{lines}"))
}

fn group(group: &Group<'_>) -> String {
    let mut lines = vec![
        format!("### {}\n", escape(&capitalised(&group.heading()))),
        "| cell | A | B | B vs A (95 % interval) | p | difference |".into(),
        "|---|---:|---:|---:|---:|---|".into(),
    ];
    let row = |row: &&ComparedRow| {
        let verdict = escape(&values::verdict(row));
        let is_strong = row.verdict.is_difference();
        let fields = [
            escape(&row.cell),
            group.mean(row.a),
            group.mean(row.b),
            values::difference(row),
            escape(&values::p_value(row)),
            if is_strong { format!("**{verdict}**") } else { verdict },
        ];
        format!("| {} |", fields.join(" | "))
    };
    lines.extend(group.rows.iter().map(row));
    let mut text = lines.join("\n") + "\n";
    for note in values::notes(group) {
        text.push_str(&format!("\n{}\n", escape(&note)));
    }
    text
}
