//! Two runs beside each other: what `vioperf compare` says, as pictures and tables.

use std::path::PathBuf;

use maud::{Markup, html};
use vioperf_analysis::compare::metric::{METRICS, Wanted};
use vioperf_analysis::compare::result::RunComparison;
use vioperf_analysis::compare::{self, Options};

use super::{time, way};
use crate::report::comparison::values;
use crate::report::html::comparison as drawn;
use crate::report::html::findings::doubts;
use crate::report::html::frame::Page;
use crate::report::text::clean;
use crate::view::address::{Address, Pair};
use crate::view::shelf::{Shelf, ShelfError};

/// The page; `directories` are those of A and B.
///
/// # Errors
/// When one of them cannot be read, or there is no such metric.
pub fn page(shelf: &Shelf, pair: &Pair, directories: [&PathBuf; 2]) -> Result<Page, ShelfError> {
    let mut options = Options::default();
    if let Some(metric) = &pair.metric {
        options.metrics = vec![Wanted::parse(metric).map_err(ShelfError::Wrong)?];
    }
    if pair.a == pair.b {
        return Err(ShelfError::Wrong("A and B are the same run: choose another one.".into()));
    }
    let [a, b] = [shelf.analysis(directories[0])?, shelf.analysis(directories[1])?];
    let names = directories.map(|directory| directory.display().to_string());
    let names = names.each_ref().map(String::as_str);
    let comparison = compare::runs(names, &a, &b, &options);
    let content = html! {
        header {
            p.kicker { "vioperf view" }
            h1 { "Two runs side by side" }
            @for (sentence, nth) in comparison.summary.iter().zip(0..) { p.lead[nth == 0] { (clean(sentence)) } }
            (sides(pair, &comparison))
            (metrics(pair))
        }
        main {
            section aria-label="comparison" { (drawn::groups(&comparison, true)) }
            p.small { (clean(&values::legend(&comparison))) }
            (changed(&comparison))
            (doubts(&comparison.doubts))
        }
    };
    let way = html! {
        (way(None))
        @let turned = Pair { a: pair.b.clone(), b: pair.a.clone(), metric: pair.metric.clone() };
        a href=(Address::Compare(turned)) { "B with A" }
    };
    Ok(super::page("Two runs", Some(way), comparison.notice.as_deref(), &content))
}

fn sides(pair: &Pair, comparison: &RunComparison) -> Markup {
    html! {
        dl.pair-of {
            @for (name, id, side) in [("A", &pair.a, &comparison.a), ("B", &pair.b, &comparison.b)] {
                dt { (name) }
                dd {
                    a href=(Address::of_run(id)) { (clean(&side.scenario)) ", " (time(&side.started_at)) }
                    " " span.small { (clean(&side.name)) }
                }
            }
        }
    }
}

fn metrics(pair: &Pair) -> Markup {
    html! {
        form.choose method="get" action="compare" {
            input type="hidden" name="a" value=(pair.a);
            input type="hidden" name="b" value=(pair.b);
            label {
                "metric "
                select name="metric" {
                    option value="" { "headline, CPU per unit of work and p99" }
                    @for metric in METRICS {
                        option value=(metric.name) selected[pair.metric.as_deref() == Some(metric.name)] {
                            (metric.title)
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn changed(comparison: &RunComparison) -> Markup {
    let dash = |value: &Option<String>| value.as_deref().map_or_else(|| "–".into(), clean);
    html! {
        @if !comparison.changed.is_empty() {
            section aria-labelledby="changed" {
                h2 #changed { "What else differs" }
                div.scroll tabindex="0" {
                    table.facts {
                        thead {
                            tr { @for head in ["what", "A", "B"] { th.text scope="col" { (head) } } }
                        }
                        tbody {
                            @for change in &comparison.changed {
                                tr {
                                    th.text scope="row" { (clean(&change.what)) }
                                    td.text { (dash(&change.a)) }
                                    td.text { (dash(&change.b)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
