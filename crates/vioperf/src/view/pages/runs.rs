//! The list of runs.

use maud::{Markup, html};
use vioperf_analysis::provenance::{self, Facts};
use vioperf_analysis::wording::count;

use super::choose::{self, Choices};
use super::{Here, seconds, time, way};
use crate::history::entry::Run;
use crate::history::{Filter, HistoryError};
use crate::report::html::frame::Page;
use crate::report::text::clean;
use crate::report::values::NO_VALUE;
use crate::view::address::{Address, Chosen};
use crate::view::shelf::{Shelf, ShelfError};

/// Runs on one page.
const ON_A_PAGE: u32 = 100;

/// What the page is made of.
struct List {
    runs: Vec<(Run, Facts)>,
    total: u32,
    choices: Choices,
}

/// The page.
///
/// # Errors
/// When the history cannot be read.
pub fn page(shelf: &Shelf, chosen: &Chosen) -> Result<Page, ShelfError> {
    let (filter, wrong) = choose::filter(chosen);
    let skip = chosen.page.saturating_mul(ON_A_PAGE);
    let list = shelf.ask(|history| {
        let some = Filter { limit: Some(ON_A_PAGE), skip, ..filter.clone() };
        let with_facts = |run: Run| Ok((history.facts_of(&run.id)?, run));
        let runs = history.runs(&some)?.into_iter().map(with_facts);
        let runs = runs.collect::<Result<Vec<_>, HistoryError>>()?;
        Ok(List {
            runs: runs.into_iter().map(|(facts, run)| (run, facts)).collect(),
            total: history.count(&filter)?,
            choices: Choices::of(history)?,
        })
    })?;
    let whose = if shelf.is_history() { "in the history" } else { "named" };
    let content = html! {
        header {
            p.kicker { "vioperf view" }
            h1 { "Runs" }
            form.choose method="get" action="./" {
                (list.choices.fields(chosen))
                button type="submit" { "Show" }
                @if !chosen.is_everything() { a href=(Address::Runs(Chosen::default())) { "show all" } }
            }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (clean(&wrong)) } }
            p.small aria-live="polite" {
                (count(list.total as usize, "run"))
                @if chosen.is_everything() { " " (whose) } @else { " of those " (whose) }
                ", the newest first. Times are UTC."
            }
        }
        main {
            @if list.runs.is_empty() { (nothing(shelf, chosen)) } @else { (table(&list.runs)) }
            (pages(chosen, list.total))
        }
    };
    Ok(super::page("Runs", Some(way(Some(Here::Runs))), None, &content))
}

fn nothing(shelf: &Shelf, chosen: &Chosen) -> Markup {
    html! {
        @if shelf.is_history() && chosen.is_everything() {
            p { "The history is empty. Every " code { "vioperf run" } " enters itself; " code { "vioperf history add RUN" }
                " enters runs from before or from elsewhere." }
        } @else {
            p { "No run is like that. " a href=(Address::Runs(Chosen::default())) { "Show all runs" } }
        }
    }
}

/// Whether its records can be read.
fn is_there(run: &Run) -> bool {
    run.directory.is_some() && !run.is_gone()
}

/// The newest run of which there is one before of the same scenario and host, after that: what one mostly wants to
/// compare.
fn first_pair(runs: &[(Run, Facts)]) -> [Option<&str>; 2] {
    let there: Vec<&Run> = runs.iter().map(|(run, _)| run).filter(|run| is_there(run)).collect();
    let before = |(nth, newer): (usize, &&Run)| {
        let mut older = there.iter().skip(nth + 1);
        older.find(|run| run.scenario == newer.scenario && run.host == newer.host).copied()
    };
    let mut all = there.iter().enumerate();
    let found = all.find_map(|(nth, newer)| Some((before((nth, newer))?, newer)));
    match found {
        Some((older, newer)) => [Some(&older.id), Some(&newer.id)],
        None => [None, None],
    }
}

/// What `qemu --version` begins with and ends in says no more than its number does.
fn short_version(qemu: &str) -> &str {
    let number = qemu.strip_prefix("QEMU emulator version ").unwrap_or(qemu);
    number.split(' ').next().unwrap_or(number)
}

fn table(runs: &[(Run, Facts)]) -> Markup {
    let sides = ["a", "b"].into_iter().zip(first_pair(runs));
    let texts = ["began", "scenario", "host", "host kernel", "QEMU"];
    html! {
        form method="get" action="compare" {
            div.scroll tabindex="0" {
                table.runs {
                    thead {
                        tr {
                            th scope="col" data-unsorted { "A" }
                            th scope="col" data-unsorted { "B" }
                            @for head in texts { th.text scope="col" { (head) } }
                            @for head in ["cells", "trials"] { th scope="col" { (head) } }
                            @for head in ["end", "id"] { th.text scope="col" { (head) } }
                        }
                    }
                    tbody {
                        @for (run, facts) in runs { (line(run, facts, sides.clone())) }
                    }
                }
            }
            p.compare {
                button type="submit" { "Compare A with B" }
                span.small { "Choose a run in column A and one in column B." }
            }
        }
    }
}

fn line<'a>(
    run: &Run,
    facts: &Facts,
    sides: impl Iterator<Item = (&'static str, Option<&'a str>)>,
) -> Markup {
    let fact = |name: &str| facts.get(name).map_or_else(|| NO_VALUE.into(), |value| clean(value));
    let qemu = fact(provenance::QEMU);
    let is_there = is_there(run);
    html! {
        tr {
            @for (side, chosen) in sides {
                td {
                    @if is_there {
                        input type="radio" name=(side) value=(run.id) required checked[chosen == Some(run.id.as_str())]
                            aria-label={ (side.to_uppercase()) ": " (clean(&run.scenario)) ", " (clean(&run.started_at)) };
                    }
                }
            }
            td.text data-value=[seconds(&run.started_at)] { (time(&run.started_at)) }
            th.text.what scope="row" {
                @if is_there { a href=(Address::of_run(&run.id)) { (clean(&run.scenario)) } }
                @else { (clean(&run.scenario)) }
                span.note title=(clean(&run.headline)) { (clean(&run.headline)) }
            }
            td.text { (if run.host.is_empty() { "unknown".into() } else { clean(&run.host) }) }
            td.text { (fact(provenance::HOST_KERNEL)) }
            td.text title=(qemu) { (short_version(&qemu)) }
            td { (run.cells) }
            td {
                (run.trials_completed)
                @if run.trials_void > 0 { span.note { "+ " (run.trials_void) " void" } }
            }
            td.text {
                (clean(run.ending.as_deref().unwrap_or("not recorded")))
                @match &run.directory {
                    None => span.note { "not stored" },
                    Some(directory) if run.is_gone() =>
                        span.note.gone title=(clean(directory)) { "gone from the disk" },
                    Some(_) => {},
                }
            }
            td.text { code { (clean(&run.id)) } }
        }
    }
}

/// To the pages before and after.
fn pages(chosen: &Chosen, total: u32) -> Markup {
    let page = chosen.page;
    let is_last = u64::from(page.saturating_add(1)) * u64::from(ON_A_PAGE) >= u64::from(total);
    html! {
        @if page > 0 || !is_last {
            nav.pages aria-label="further runs" {
                @if page > 0 { a rel="prev" href=(Address::Runs(chosen.on_page(page - 1))) { "← newer" } }
                @if !is_last { a rel="next" href=(Address::Runs(chosen.on_page(page + 1))) { "older →" } }
            }
        }
    }
}
