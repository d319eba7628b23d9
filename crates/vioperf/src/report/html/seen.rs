//! What a finding is seen in: from its evidence to the picture of the cell, and from the picture back to the
//! findings about it.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, CourseOf, Finding, RunAnalysis};
use vioperf_model::plan::CellId;

use super::opening::{severity_class, sign};
use crate::report::between;
use crate::report::ledger;
use crate::report::text::clean;

/// A picture of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What each path reached, trial by trial.
    Result,
    /// What limits it.
    Limits,
    /// Where its datagrams went.
    Losses,
    /// Who used the cores.
    Cost,
    /// How trials went over time.
    Course,
}

/// What each rule's findings are seen in; all others, in what the paths reached.
const SEEN_IN: &[(&str, Part)] = &[
    ("datagrams-lost", Part::Losses),
    ("path-loses-at-low-rate", Part::Losses),
    ("dips", Part::Course),
    ("trend-within-trials", Part::Course),
    ("frequency-moves", Part::Course),
    ("sender-receiver-disagree", Part::Course),
    ("machine-busy", Part::Cost),
    ("time-stolen", Part::Cost),
    ("polling-takes-a-core", Part::Cost),
    ("guest-clock-unsound", Part::Cost),
];

impl Part {
    fn of(finding: &Finding, cell: &CellAnalysis) -> Self {
        let listed = SEEN_IN.iter().find(|(rule, _)| *rule == finding.rule);
        let part = match listed {
            Some((_, part)) => *part,
            None if cell.limits.iter().any(|limit| limit.rule == finding.rule) => Self::Limits,
            None => Self::Result,
        };
        if part.is_drawn(cell) { part } else { Self::Result }
    }

    fn is_drawn(self, cell: &CellAnalysis) -> bool {
        match self {
            Self::Result => true,
            Self::Limits => !cell.limits.is_empty(),
            Self::Losses => ledger::of_cell(cell).is_some(),
            Self::Cost => !cell.cpu_shares.is_empty(),
            Self::Course => cell.courses.iter().any(|course| course.of == CourseOf::Typical),
        }
    }

    /// Where it is on the page: what a link names after the `#`. Of the characters that an address may have, and
    /// no two cells the same.
    pub fn anchor(self, cell: &CellId) -> String {
        let part = match self {
            Self::Result => "cell",
            Self::Limits => "limits",
            Self::Losses => "losses",
            Self::Cost => "cost",
            Self::Course => "course",
        };
        let mut anchor = format!("{part}-");
        for byte in cell.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'/' | b'_' => {
                    anchor.push(char::from(byte));
                }
                other => anchor.push_str(&format!("~{other:02x}")),
            }
        }
        anchor
    }
}

/// The findings of a run by what they are seen in.
pub struct Seen<'a> {
    analysis: &'a RunAnalysis,
    /// Nothing of it is drawn between two machines.
    is_drawn: bool,
}

impl<'a> Seen<'a> {
    /// Of a run.
    pub fn of(analysis: &'a RunAnalysis) -> Self {
        Self { analysis, is_drawn: !between::is_between(analysis) }
    }

    /// Links to the findings about a cell that are seen in this part of it.
    pub fn marks(&self, part: Part, cell: &CellAnalysis) -> Markup {
        let findings = (1..).zip(&self.analysis.findings);
        let is_here = |(_, finding): &(usize, &Finding)| {
            finding.cells.contains(&cell.id) && Part::of(finding, cell) == part
        };
        let here: Vec<(usize, &Finding)> = findings.filter(is_here).collect();
        html! {
            @if !here.is_empty() {
                span.marks {
                    @for (number, finding) in here {
                        a class=(severity_class(finding.severity)) href={ "#finding-" (number) }
                            title=(clean(&finding.title)) aria-label={ "Finding: " (clean(&finding.title)) } {
                            (sign(finding.severity)) (number)
                        }
                    }
                }
            }
        }
    }

    /// The evidence of a finding, with a link to the picture of each cell that it names.
    pub fn evidence(&self, finding: &Finding) -> Markup {
        let evidence = clean(&finding.evidence);
        let told: Vec<(Option<String>, &str)> =
            evidence.split("; ").map(|told| self.linked(finding, told)).collect();
        if told.iter().all(|(anchor, _)| anchor.is_none()) {
            return html! { p { (evidence) } };
        }
        html! {
            ul.evidence {
                @for (anchor, told) in told {
                    li {
                        @match anchor.zip(told.split_once(": ")) {
                            Some((anchor, (cell, said))) => { a href={ "#" (anchor) } { (cell) } ": " (said) },
                            None => (told),
                        }
                    }
                }
            }
        }
    }

    /// Where a piece of evidence that begins with the name of a cell leads.
    fn linked<'t>(&self, finding: &Finding, told: &'t str) -> (Option<String>, &'t str) {
        let cells = self.analysis.cells.iter().filter(|_| self.is_drawn);
        let named = told.split_once(": ").map(|(name, _)| name);
        let is_named = |cell: &&CellAnalysis| {
            finding.cells.contains(&cell.id) && named == Some(clean(&cell.id.0).as_str())
        };
        let mut cells = cells.filter(is_named);
        (cells.next().map(|cell| Part::of(finding, cell).anchor(&cell.id)), told)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vioperf_analysis::analyse;
    use vioperf_analysis::ledger::Ledger;
    use vioperf_analysis::testing::Synthetic;
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn a_link_to_a_cell_is_the_same_for_no_other_and_needs_no_escape() {
        let of = |id: &str| Part::Result.anchor(&CellId(id.into()));
        assert_eq!(of("virtio/1-stream/to-guest"), "cell-virtio/1-stream/to-guest");
        assert_eq!(of("a b\"<"), "cell-a~20b~22~3c");
        assert_ne!(of("a~20b"), of("a b"));
    }

    #[test]
    fn every_rule_that_is_listed_is_one() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../analysis/src/diagnose");
        let files = fs::read_dir(folder).unwrap().flatten();
        let rules: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
        for (rule, _) in SEEN_IN {
            assert!(rules.contains(&format!("\"{rule}\"")), "no rule is called {rule}");
        }
    }

    #[test]
    fn evidence_leads_to_its_picture_and_the_picture_back() {
        let Synthetic { run, trials } = Synthetic::of_kind(WorkloadKind::PacketRate);
        let mut analysis = analyse(&run, &trials);
        let ledger = Ledger { sent: 100, received: 80, lost: 20, ..Ledger::default() };
        analysis.cells.iter_mut().for_each(|cell| cell.ledger = Some(ledger.clone()));
        let seen = Seen::of(&analysis);
        let page = crate::report::html::render(&analysis);
        let (number, lost) =
            (1..).zip(&analysis.findings).find(|(_, f)| f.rule == "datagrams-lost").unwrap();
        let evidence = seen.evidence(lost).into_string();
        assert!(evidence.contains("<a href=\"#losses-"), "{evidence}");
        let cell = analysis.cells.iter().find(|cell| cell.id == lost.cells[0]).unwrap();
        let back = seen.marks(Part::Losses, cell).into_string();
        assert!(back.contains(&format!("href=\"#finding-{number}\"")), "{back}");
        assert!(page.contains(&format!("id=\"{}\"", Part::Losses.anchor(&cell.id))));
    }
}
