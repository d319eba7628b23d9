//! The explorer's pages, one file each.

mod choose;
mod compare;
mod runs;
mod trend;

use std::path::PathBuf;

use maud::{Markup, html};

use super::address::{Address, Chosen, TrendOf};
use super::shelf::{Shelf, ShelfError};
use crate::history::Facet;
use crate::report::html::frame::{Frame, Page};
use crate::report::html::interactive::Interactive;
use crate::report::html::page as report;
use crate::report::text::clean;
use crate::report::trend::short_time;

/// Styles of the report's page that are here, too.
const STYLES: [&str; 3] = [
    include_str!("../report/html/opening.css"),
    include_str!("../report/html/figures.css"),
    include_str!("../report/html/interactive.css"),
];

/// The page at `address`; `directories` are those of the runs that it names.
///
/// # Errors
/// When it cannot be read what is to be shown.
pub fn of(address: &Address, shelf: &Shelf, directories: &[PathBuf]) -> Result<Page, ShelfError> {
    match (address, directories) {
        (Address::Runs(chosen), _) => runs::page(shelf, chosen),
        (Address::Run(id), [directory]) => run(shelf, id, directory),
        (Address::Trend(chosen, of), _) => trend::page(shelf, chosen, of),
        (Address::Compare(pair), [a, b]) => compare::page(shelf, pair, [a, b]),
        (Address::Run(_) | Address::Compare(_), _) => Err(ShelfError::Wrong(
            "Choose two runs, A and B, in the list, then press Compare.".into(),
        )),
    }
}

/// A run's report, as `vioperf report --format html` writes it, with a way back.
fn run(shelf: &Shelf, id: &str, directory: &std::path::Path) -> Result<Page, ShelfError> {
    let analysis = shelf.analysis(directory)?;
    let info = &analysis.run;
    let of = Chosen::default()
        .with(Facet::Scenario, &info.scenario.name)
        .with(Facet::Host, &info.host.name);
    let trend = Address::Trend(of.clone(), TrendOf::default());
    let way = html! {
        (way(None))
        a href=(trend) { "These cells over time" }
        a href=(Address::Runs(of)) { "Runs of the same scenario and host" }
        span.note { "run " (clean(id)) }
    };
    Ok(report(&analysis, Some(way)))
}

/// Says what cannot be shown, and leads back.
pub fn trouble(why: &str) -> Page {
    page("Not shown", Some(way(None)), None, &said("This cannot be shown", why))
}

/// Says why somebody is not let in.
pub fn refused(why: &str) -> Page {
    page("Refused", None, None, &said("This address does not lead in", why))
}

fn said(title: &str, why: &str) -> Markup {
    html! {
        header { p.kicker { "vioperf view" } h1 { (title) } }
        main { p { (clean(why)) } }
    }
}

/// Which of the pages that are not of a run one is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Here {
    Runs,
    Trend,
}

/// The way to the pages that are not of a run.
fn way(here: Option<Here>) -> Markup {
    let all = [
        (Here::Runs, Address::Runs(Chosen::default()), "All runs"),
        (Here::Trend, Address::Trend(Chosen::default(), TrendOf::default()), "Over time"),
    ];
    html! {
        @for (page, address, name) in all {
            a href=(address) aria-current=[(here == Some(page)).then_some("page")] { (name) }
        }
    }
}

/// A page of the explorer's own.
fn page(title: &str, way: Option<Markup>, notice: Option<&str>, content: &Markup) -> Page {
    let frame = Frame {
        title: format!("{title} – vioperf view"),
        styles: STYLES.to_vec(),
        notice,
        way,
        interactive: &Interactive::none(),
        version: env!("CARGO_PKG_VERSION"),
    };
    frame.around(content)
}

/// A time as the list and the trend write it.
fn time(started_at: &str) -> Markup {
    html! { time datetime=(clean(started_at)) { (clean(&short_time(started_at))) } }
}

/// The same as a number, by which a table is sorted; none of what is no time.
fn seconds(started_at: &str) -> Option<i64> {
    Some(started_at.parse::<jiff::Timestamp>().ok()?.as_second())
}
