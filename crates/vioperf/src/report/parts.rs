//! A run in parts: what each came to, then every part's own report.

use std::path::Path;

use maud::{Markup, html};
use serde::Serialize;
use vioperf_analysis::result::RunAnalysis;
use vioperf_model::record::RunInParts;

use super::html::frame::Frame;
use super::html::interactive::Interactive;
use super::text::{clean, wrap};
use super::{csv, markdown, terminal};
use crate::commands::report::analysis_of;
use crate::output::Output;
use crate::store::{self, StoreError};

const COLUMNS: usize = 80;

/// A run in parts, analysed.
#[derive(Debug, Serialize)]
pub struct Whole {
    /// Said before any number, as the parts' own reports do.
    notice: Option<String>,
    /// The scenario.
    scenario: String,
    /// Its question.
    question: String,
    /// When it began.
    started_at: String,
    /// The command line.
    command_line: Vec<String>,
    /// Version of the vioperf that measured.
    vioperf_version: String,
    /// Its parts in their order.
    parts: Vec<Part>,
}

/// A part of it.
#[derive(Debug, Serialize)]
struct Part {
    name: String,
    question: String,
    /// Why nothing of it can be had on the machine that measured.
    left_out: Option<String>,
    /// Absent also where it is not measured yet.
    report: Option<Box<RunAnalysis>>,
}

impl Whole {
    /// The reports of parts that are there.
    pub fn reports(&mut self) -> impl Iterator<Item = &mut RunAnalysis> {
        self.parts.iter_mut().filter_map(|part| part.report.as_deref_mut())
    }

    /// Reads and analyses all parts that are there.
    ///
    /// # Errors
    /// As [`store::read`].
    pub fn read(directory: &Path, output: &Output) -> Result<Self, StoreError> {
        let RunInParts { scenario, parts, started_at, command_line, vioperf_version, .. } =
            store::parts::read(directory)?;
        let mut read = Vec::new();
        for part in parts {
            let own = directory.join(&part.name);
            let report = match store::holds_run(&own) {
                true => Some(Box::new(analysis_of(&own, output)?)),
                false => None,
            };
            let question = part.scenario.question;
            read.push(Part { name: part.name, question, left_out: part.lacks, report });
        }
        let reports = read.iter().filter_map(|part| part.report.as_ref());
        let notice = reports.filter_map(|report| report.notice.clone()).next();
        Ok(Self {
            notice,
            scenario: scenario.name,
            question: scenario.question,
            started_at,
            command_line,
            vioperf_version,
            parts: read,
        })
    }

    /// Whether a part that can be had is not there.
    pub fn is_incomplete(&self) -> bool {
        self.parts.iter().any(|part| part.left_out.is_none() && part.report.is_none())
    }
}

impl Part {
    /// What came of it, in a sentence or some.
    fn came_to(&self) -> Vec<String> {
        match (&self.report, &self.left_out) {
            (Some(report), _) => report.headline.clone(),
            (None, Some(why)) => vec![format!("Left out: {why}")],
            (None, None) => vec!["Not measured yet.".to_owned()],
        }
    }
}

/// For a terminal.
pub fn terminal(whole: &Whole, wide: bool, colours: bool) -> String {
    let strong = |text: String| match (colours, text.trim_end_matches('\n')) {
        (true, line) => format!("\x1b[1m{line}\x1b[0m\n"),
        (false, _) => text,
    };
    let mut text = strong(wrap(&whole.question, COLUMNS, "", ""));
    for part in &whole.parts {
        text.push('\n');
        text.push_str(&strong(wrap(
            &format!("{}: {}", part.name, part.question),
            COLUMNS,
            "",
            "  ",
        )));
        for sentence in part.came_to() {
            text.push_str(&wrap(&sentence, COLUMNS, "  ", "  "));
        }
    }
    for part in &whole.parts {
        let Some(report) = &part.report else { continue };
        let rule = "=".repeat(COLUMNS.saturating_sub(part.name.len() + 9));
        text.push_str(&strong(format!("\n== part {} {rule}\n", part.name)));
        text.push('\n');
        text.push_str(&terminal::render(report, wide, colours));
    }
    text
}

/// For programs: an object with the parts, each with its own report.
pub fn json(whole: &Whole) -> String {
    super::json::render(whole)
}

/// For a pull request.
pub fn markdown(whole: &Whole) -> String {
    let escape = markdown::escape;
    let mut text =
        format!("# {}\n\n| part | what came of it |\n|---|---|\n", escape(&whole.question));
    for part in &whole.parts {
        text.push_str(&format!(
            "| {} | {} |\n",
            escape(&part.name),
            escape(&part.came_to().join(" "))
        ));
    }
    for part in &whole.parts {
        if let Some(report) = &part.report {
            text.push_str(&format!(
                "\n# Part {}\n\n{}",
                escape(&part.name),
                markdown::render(report)
            ));
        }
    }
    text
}

/// One row a cell, the part before it.
pub fn csv(whole: &Whole) -> String {
    let mut text = String::new();
    for part in &whole.parts {
        let Some(report) = &part.report else { continue };
        let table = csv::render(report);
        let mut lines = table.split_inclusive('\n');
        let (notice, heading) = match lines.next() {
            Some(line) if line.starts_with('#') => (Some(line), lines.next()),
            line => (None, line),
        };
        if text.is_empty() {
            text.push_str(notice.unwrap_or_default());
            text.push_str(&format!("part,{}", heading.unwrap_or_default()));
        }
        // Names of parts are words: nothing of them has to be quoted.
        lines.for_each(|line| text.push_str(&format!("{},{line}", part.name)));
    }
    text
}

/// A page that leads to the parts' own pages beside it.
pub fn html(whole: &Whole) -> String {
    let interactive = Interactive::none();
    let frame = Frame {
        title: format!("{} – vioperf", clean(&whole.scenario)),
        styles: Vec::new(),
        notice: whole.notice.as_deref(),
        way: None,
        interactive: &interactive,
        version: &whole.vioperf_version,
    };
    frame.around(&contents(whole)).text
}

fn contents(whole: &Whole) -> Markup {
    html! {
        header {
            p.kicker { "vioperf · " (clean(&whole.scenario)) " · " time { (clean(&whole.started_at)) } }
            h1 { (clean(&whole.question)) }
        }
        main {
            @for part in &whole.parts {
                section aria-labelledby=(part.name) {
                    h2 id=(part.name) {
                        @if part.report.is_some() {
                            a href={ (part.name) "/report.html" } { (part.name) }
                        } @else { (part.name) }
                    }
                    p.explain { (clean(&part.question)) }
                    @for sentence in part.came_to() { p { (clean(&sentence)) } }
                }
            }
            section aria-labelledby="run" {
                h2 #run { "The run" }
                pre.command { code { (clean(&whole.command_line.join(" "))) } }
            }
        }
    }
}
