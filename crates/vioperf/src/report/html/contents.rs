//! What is on the page and where: stays at the top of the window while the page is read.

use maud::{Markup, html};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::wording::{capitalised, count};

use super::interactive::Interactive;
use super::{factors, load, references};
use crate::report::text::clean;
use crate::report::values::{self, Workload};

/// Links to every section of a lab's page.
pub fn contents(
    analysis: &RunAnalysis,
    workloads: &[Workload<'_>],
    interactive: &Interactive,
) -> Markup {
    let findings = count(analysis.findings.len(), "finding");
    let links = [
        ("ranking", "Ranking".to_owned(), !analysis.ranking.is_empty()),
        ("factors", "Factors".to_owned(), factors::is_there(analysis)),
    ];
    let published = analysis.references.iter().zip(1..);
    let published = published.map(|(beside, number)| (references::anchor(number), &beside.name));
    let later = [
        ("interfaces", "Interfaces", !values::distinct_ends(analysis).is_empty()),
        ("void", "Void trials", !analysis.void_trials.is_empty()),
        ("run", "The run", true),
    ];
    html! {
        nav.contents aria-label="On this page" {
            ul {
                @for (to, name, _) in links.iter().filter(|(_, _, is_there)| *is_there) {
                    li { a href={ "#" (to) } { (name) } }
                }
                @for (to, name) in published {
                    li { a href={ "#" (to) } { (clean(name)) } }
                }
                @if !analysis.findings.is_empty() {
                    li { a href="#findings" { (findings) } }
                }
                @if interactive.has_choices() {
                    // Shown by the script that draws it.
                    li.explore hidden { a href="#explore" { "Look for yourself" } }
                }
                li { (loads(workloads)) }
                @for (to, name, _) in later.iter().filter(|(_, _, is_there)| *is_there) {
                    li { a href={ "#" (to) } { (name) } }
                }
            }
        }
    }
}

/// One load by its name, several as a list that unfolds.
fn loads(workloads: &[Workload<'_>]) -> Markup {
    let links = (1..).zip(workloads).map(|(number, workload)| {
        html! { a href={ "#" (load::anchor(number)) } { (capitalised(&workload.title)) } }
    });
    let mut links: Vec<Markup> = links.collect();
    if links.len() == 1 {
        return links.remove(0);
    }
    html! {
        details.menu {
            summary { (count(links.len(), "load")) }
            ol { @for link in links { li { (link) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::testing::Synthetic;
    use vioperf_analysis::{analyse, references};

    use super::*;
    use crate::report::values::workloads;

    #[test]
    fn every_section_with_a_head_is_listed() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let mut analysis = analyse(&run, &trials);
        let own = references::of_run(&analysis, "mine", None);
        analysis.references = vec![references::beside(&analysis, &own)];
        let listed =
            contents(&analysis, &workloads(&analysis), &Interactive::of(&analysis)).into_string();
        let page = crate::report::html::render(&analysis);
        let main = page.split_once("<main>").unwrap().1;
        for head in main.split("<h2 id=\"").skip(1) {
            let id = head.split_once('"').unwrap().0;
            let is_listed = listed.contains(&format!("href=\"#{}\"", id.trim_end_matches("-head")));
            assert!(is_listed, "{id} is not in {listed}");
        }
    }
}
