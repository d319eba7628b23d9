//! Forms that choose runs. They only ask (GET), so that what was chosen is an address.

use std::str::FromStr;

use maud::{Markup, html};

use crate::cli::Since;
use crate::history::{Facet, Filter, History, HistoryError};
use crate::report::text::clean;
use crate::view::address::{Chosen, facet_name};

/// What can be chosen of each facet.
pub struct Choices(Vec<(Facet, Vec<String>)>);

impl Choices {
    /// Of the runs that there are.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn of(history: &History) -> Result<Self, HistoryError> {
        let levels = |facet| Ok((facet, history.levels(facet)?));
        Facet::ALL.into_iter().map(levels).collect::<Result<_, HistoryError>>().map(Self)
    }

    /// A field each, and one for the time.
    pub fn fields(&self, chosen: &Chosen) -> Markup {
        html! {
            @for (facet, levels) in &self.0 {
                label {
                    (label(*facet)) " "
                    select name=(facet_name(*facet)) {
                        option value="" { "all" }
                        @for level in levels {
                            option value=(level) selected[chosen.level(*facet) == Some(level.as_str())] {
                                (if level.is_empty() { "unknown".into() } else { clean(level) })
                            }
                        }
                    }
                }
            }
            label {
                "since "
                input type="text" name="since" size="12" placeholder="30d, 2026-01-31"
                    value=(chosen.since.as_deref().unwrap_or_default());
            }
        }
    }
}

fn label(facet: Facet) -> &'static str {
    match facet {
        Facet::Scenario => "scenario",
        Facet::Host => "host",
        Facet::Kernel => "host kernel",
        Facet::Qemu => "QEMU",
    }
}

/// As the history is asked, and what is wrong with what was typed.
pub fn filter(chosen: &Chosen) -> (Filter, Option<String>) {
    let mut filter = chosen.filter();
    let Some(typed) = &chosen.since else { return (filter, None) };
    match Since::from_str(typed) {
        Ok(since) => {
            filter.since = Some(since.text());
            (filter, None)
        }
        Err(why) => {
            (filter, Some(format!("“{typed}” is no time, so runs of all times are shown: {why}.")))
        }
    }
}
