//! JUnit XML, as continuous integration reads it: a test case for each cell by metric.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use vioperf_analysis::compare::result::{ComparedRow, RunComparison, Verdict};

use super::values;
use crate::report::text::clean;

/// Renders `comparison`: a row fails where `fails` says so, and counts as skipped where nothing can
/// be said of it.
///
/// # Errors
/// None that memory would not cause.
pub fn render(comparison: &RunComparison, fails: impl Fn(Verdict) -> bool) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let rows = &comparison.rows;
    let failures = rows.iter().filter(|row| fails(row.verdict)).count();
    let skipped = rows.iter().filter(|row| is_skipped(row, &fails)).count();
    let counts = [("tests", rows.len()), ("failures", failures), ("skipped", skipped)]
        .map(|(name, count)| (name, count.to_string()));
    let counts = || counts.iter().map(|(name, count)| (*name, count.as_str()));
    let suites = writer.create_element("testsuites").with_attribute(("name", "vioperf compare"));
    suites.with_attributes(counts()).write_inner_content(|writer| {
        let name = clean(&format!("{} vs {}", comparison.b.name, comparison.a.name));
        let suite = writer.create_element("testsuite").with_attribute(("name", name.as_str()));
        suite.with_attributes(counts()).write_inner_content(|writer| {
            rows.iter().try_for_each(|row| case(writer, row, &fails))?;
            let about: Vec<String> =
                comparison.notice.iter().chain(&comparison.summary).cloned().collect();
            text(writer, "system-out", &about.join("\n"))
        })?;
        Ok(())
    })?;
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned() + "\n")
}

fn is_skipped(row: &ComparedRow, fails: &impl Fn(Verdict) -> bool) -> bool {
    row.verdict.is_open() && !fails(row.verdict)
}

fn case(
    writer: &mut Writer<Vec<u8>>,
    row: &ComparedRow,
    fails: &impl Fn(Verdict) -> bool,
) -> io::Result<()> {
    let cell = clean(&row.name());
    let attributes = [("classname", cell.as_str()), ("name", row.metric)];
    let said = said(row);
    let case = writer.create_element("testcase").with_attributes(attributes);
    case.write_inner_content(|writer| {
        let outcome = match (fails(row.verdict), is_skipped(row, fails)) {
            (true, _) => Some("failure"),
            (_, true) => Some("skipped"),
            _ => None,
        };
        if let Some(outcome) = outcome {
            let element = writer.create_element(outcome);
            let mut attributes = vec![("message", said.as_str())];
            if outcome == "failure" {
                attributes.push(("type", row.verdict.name()));
            }
            element.with_attributes(attributes).write_empty()?;
        }
        text(writer, "system-out", &said)
    })?;
    Ok(())
}

fn text(writer: &mut Writer<Vec<u8>>, name: &str, text: &str) -> io::Result<()> {
    let lines = text.lines().map(clean).collect::<Vec<_>>().join("\n");
    writer.create_element(name).write_text_content(BytesText::new(&lines))?;
    Ok(())
}

/// The row in one sentence.
fn said(row: &ComparedRow) -> String {
    let mut said = format!("{}: {}", row.title, values::verdict(row));
    if row.difference.is_some() {
        said.push_str(&format!("; B vs A {}, p {}", values::difference(row), values::p_value(row)));
    }
    if let Some(reason) = &row.reason {
        said.push_str(&format!("; {reason}"));
    }
    clean(&said)
}
