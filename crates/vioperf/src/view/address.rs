//! The addresses of the explorer's pages: read from a request, and written into links.
//!
//! All are one step below the token, so that links are relative and no page holds the token.

use std::fmt;

use form_urlencoded::{Serializer, parse};

use crate::history::{Facet, Filter, HEADLINE};

/// What longer is typed or sent is no name of anything.
const LONGEST_VALUE: usize = 512;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The list of runs.
    Runs(Chosen),
    /// A run's report, by its id.
    Run(String),
    /// Cells over time.
    Trend(Chosen, TrendOf),
    /// Two runs beside each other.
    Compare(Pair),
}

/// Which runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Of each facet one level, or all.
    levels: [Option<String>; Facet::ALL.len()],
    /// Begun since then, as it was typed.
    pub since: Option<String>,
    /// The first page is 0.
    pub page: u32,
}

/// Of what a trend is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrendOf {
    /// The metric.
    pub metric: String,
    /// One cell, or all.
    pub cell: Option<String>,
}

/// What is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pair {
    /// The run that is compared with, by its id.
    pub a: String,
    /// The run that is compared.
    pub b: String,
    /// A metric other than those that are compared anyway.
    pub metric: Option<String>,
}

/// The name of a facet in addresses.
pub fn facet_name(facet: Facet) -> &'static str {
    match facet {
        Facet::Scenario => "scenario",
        Facet::Host => "host",
        Facet::Kernel => "kernel",
        Facet::Qemu => "qemu",
    }
}

impl Chosen {
    /// What is chosen of a facet.
    pub fn level(&self, facet: Facet) -> Option<&str> {
        self.levels[facet as usize].as_deref()
    }

    /// The same with another level of a facet.
    pub fn with(mut self, facet: Facet, level: &str) -> Self {
        self.levels[facet as usize] = Some(level.to_owned());
        self
    }

    /// The same on another page.
    pub fn on_page(&self, page: u32) -> Self {
        Self { page, ..self.clone() }
    }

    /// Whether every run is meant.
    pub fn is_everything(&self) -> bool {
        self.levels.iter().all(Option::is_none) && self.since.is_none()
    }

    /// As the history is asked, but for the time.
    pub fn filter(&self) -> Filter {
        let of = |facet| self.level(facet).map(str::to_owned);
        Filter {
            scenario: of(Facet::Scenario),
            host: of(Facet::Host),
            kernel: of(Facet::Kernel),
            qemu: of(Facet::Qemu),
            ..Filter::default()
        }
    }

    fn of(fields: &Fields) -> Self {
        Self {
            levels: Facet::ALL.map(|facet| fields.get(facet_name(facet))),
            since: fields.get("since"),
            page: fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(0),
        }
    }

    fn write(&self, out: &mut Serializer<'_, String>) {
        for facet in Facet::ALL {
            append(out, facet_name(facet), self.level(facet));
        }
        append(out, "since", self.since.as_deref());
        append(out, "page", (self.page > 0).then(|| self.page.to_string()).as_deref());
    }
}

impl Default for TrendOf {
    fn default() -> Self {
        Self { metric: HEADLINE.to_owned(), cell: None }
    }
}

/// Names and values after the question mark.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn of(query: &str) -> Self {
        Self(parse(query.as_bytes()).map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// A value; empty, as forms send what is not filled in, is none.
    fn get(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value);
        found.filter(|value| !value.is_empty() && value.len() <= LONGEST_VALUE).cloned()
    }
}

fn append(out: &mut Serializer<'_, String>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        out.append_pair(name, value);
    }
}

impl Address {
    /// What `name?query` is, after the token; none of them is `None`.
    pub fn read(name: &str, query: &str) -> Option<Self> {
        let fields = Fields::of(query);
        match name {
            "" => Some(Self::Runs(Chosen::of(&fields))),
            "run" => Some(Self::Run(fields.get("id")?)),
            "trend" => {
                let metric = fields.get("metric").unwrap_or_else(|| HEADLINE.to_owned());
                let of = TrendOf { metric, cell: fields.get("cell") };
                Some(Self::Trend(Chosen::of(&fields), of))
            }
            "compare" => Some(Self::Compare(Pair {
                a: fields.get("a").unwrap_or_default(),
                b: fields.get("b").unwrap_or_default(),
                metric: fields.get("metric"),
            })),
            _ => None,
        }
    }

    /// Of a run's report.
    pub fn of_run(id: &str) -> Self {
        Self::Run(id.to_owned())
    }
}

/// As a link from any other page.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = Serializer::new(String::new());
        let name = match self {
            Self::Runs(chosen) => {
                chosen.write(&mut query);
                "./"
            }
            Self::Run(id) => {
                query.append_pair("id", id);
                "run"
            }
            Self::Trend(chosen, of) => {
                append(&mut query, "metric", (of.metric != HEADLINE).then_some(&of.metric));
                append(&mut query, "cell", of.cell.as_deref());
                chosen.write(&mut query);
                "trend"
            }
            Self::Compare(Pair { a, b, metric }) => {
                query.append_pair("a", a).append_pair("b", b);
                append(&mut query, "metric", metric.as_deref());
                "compare"
            }
        };
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "{name}{mark}{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(link: &str) -> Option<Address> {
        let (name, query) = link.split_once('?').unwrap_or((link, ""));
        Address::read(name.trim_start_matches("./"), query)
    }

    #[test]
    fn what_is_written_into_a_link_is_read_from_it_again() {
        let hostile = "a&b=c d\"<'/../%2e\u{202e}é";
        let chosen = Chosen::default().with(Facet::Qemu, hostile).on_page(3);
        let of = TrendOf { metric: "host_us_per_kib".into(), cell: Some(hostile.into()) };
        let pair = Pair { a: hostile.into(), b: "x".into(), metric: None };
        for address in [
            Address::Runs(Chosen::default()),
            Address::Runs(chosen.clone()),
            Address::of_run(hostile),
            Address::Trend(chosen, of),
            Address::Trend(Chosen::default(), TrendOf::default()),
            Address::Compare(pair),
        ] {
            let link = address.to_string();
            assert!(link.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'), "{link}");
            assert_eq!(read(&link).as_ref(), Some(&address), "{link}");
        }
    }

    #[test]
    fn what_names_no_page_is_none_and_what_is_empty_or_too_long_is_not_chosen() {
        for nothing in ["etc/passwd", "../x", "run", "run?id=", "Run?id=1", "report.html"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
        let long = format!("?host={}&scenario=&since=&page=x", "x".repeat(LONGEST_VALUE + 1));
        assert_eq!(read(&long), Some(Address::Runs(Chosen::default())));
    }
}
