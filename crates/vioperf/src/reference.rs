//! Pages of the documentation that are made from the program's own tables, so that they cannot tell
//! otherwise than it does: `make reference` writes them, a test compares them.

pub mod metrics;
pub mod scenario;

/// Text for a cell of a Markdown table: on one line.
fn in_cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page: its file, what is written there, and what is made.
    type Page = (&'static str, &'static str, fn() -> String);

    const PAGES: &[Page] = &[
        (
            "scenario-reference.md",
            include_str!("../../../docs/scenario-reference.md"),
            scenario::page,
        ),
        ("metrics.md", include_str!("../../../docs/metrics.md"), metrics::page),
    ];

    #[test]
    fn pages_are_as_they_are_made() {
        for (name, written, make) in PAGES {
            let made = make();
            let differs = written.lines().zip(made.lines()).find(|(a, b)| a != b);
            assert!(*written == made, "docs/{name} is old: `make reference`; {differs:#?}");
        }
    }
}
