//! For a terminal: at most 80 columns, more only when asked for.

mod course;
mod ranking;

use vioperf_analysis::measure::{Measure, Unit};
use vioperf_analysis::result::{
    CellAnalysis, EndFacts, Finding, Metric, QemuUse, RunAnalysis, Severity,
};
use vioperf_analysis::wording::capitalised;
use vioperf_model::workload::{self, Direction};

use super::between;
use super::columns::{self, Extra, Place};
use super::comparison;
use super::ledger;
use super::machines;
use super::picture;
use super::provenance;
use super::queues;
use super::references;
use super::table::{self, Column, number, text};
use super::text::{clip, pad, width, wrap};
use super::values::{
    self, NO_VALUE, Workload, headline_with_interval, interval, mean, rate_with_interval, whole,
    workloads,
};

const COLUMNS: usize = 80;

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy)]
enum Style {
    Strong,
    Faint,
    Notice,
    Warning,
}

/// Renders `analysis`: with every column, cores, interfaces and consoles where `wide`, and with
/// ANSI sequences where `colours`.
pub fn render(analysis: &RunAnalysis, wide: bool, colours: bool) -> String {
    let page = Page { analysis, wide, colours };
    let mut parts = vec![page.top()];
    if between::is_between(analysis) {
        parts.extend([page.between(), page.references()]);
    } else {
        let variants = analysis.variants.as_ref();
        parts.extend(variants.map(|variants| comparison::terminal::section(variants, colours)));
        parts.push(page.ranking());
        parts.extend(workloads(analysis).iter().map(|workload| page.workload(workload)));
        parts.push(page.legend());
        parts.push(page.references());
    }
    parts.push(page.other_guests());
    parts.extend([page.queues(), page.ledger()]);
    if wide {
        parts.extend([page.cores(), page.interfaces(), page.void_trials()]);
    }
    parts.extend([page.findings(), page.bottom()]);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

struct Page<'a> {
    analysis: &'a RunAnalysis,
    wide: bool,
    colours: bool,
}

impl Page<'_> {
    /// Colours `text`, which is already clean, line by line.
    fn style(&self, style: Style, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let code = match style {
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Notice => "1;35",
            Style::Warning => "1;33",
        };
        let mut styled = String::new();
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches('\n');
            styled.push_str(&format!("\x1b[{code}m{content}\x1b[0m{}", &line[content.len()..]));
        }
        styled
    }

    fn top(&self) -> String {
        let mut top = String::new();
        if let Some(notice) = &self.analysis.notice {
            top.push_str(&self.style(Style::Notice, &wrap(notice, COLUMNS, "", "")));
            top.push('\n');
        }
        let question = wrap(&self.analysis.question, COLUMNS, "", "");
        top.push_str(&self.style(Style::Strong, &question));
        top.push('\n');
        for sentence in &self.analysis.headline {
            top.push_str(&wrap(sentence, COLUMNS, "  ", "  "));
        }
        top
    }

    /// A path between two machines: facts, one a line.
    fn between(&self) -> String {
        let mut lines = String::new();
        for cell in &self.analysis.cells {
            lines.push_str(
                &self.style(Style::Strong, &wrap(&between::title(cell), COLUMNS, "", "")),
            );
            let facts = between::facts(cell);
            let names = facts.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
            let indent = " ".repeat(names + 4);
            for (name, value) in &facts {
                let first = format!("  {}  ", pad(name, names, false));
                lines.push_str(&wrap(value, COLUMNS, &first, &indent));
            }
        }
        let legend = between::legend(self.analysis);
        lines + &self.style(Style::Faint, &wrap(&legend, COLUMNS, "  ", "  "))
    }

    fn workload(&self, workload: &Workload<'_>) -> String {
        let mut shown = narrow(workload.load());
        if self.wide {
            shown.extend(wide(workload.load()));
        }
        shown.push(Shown { column: text("limited by"), field: Box::new(values::limited_by) });
        let (mut head, mut body) = table_of(&shown, workload);
        let fits = self.wide || head.iter().chain(&body).all(|line| width(line) <= COLUMNS);
        if !fits {
            shown.pop();
            (head, body) = table_of(&shown, workload);
        }
        let title = wrap(&capitalised(&workload.title), COLUMNS, "", "");
        let mut lines = self.style(Style::Strong, &title);
        lines.push_str(&self.style(Style::Faint, &(head.join("\n") + "\n")));
        for line in body {
            lines.push_str(&if self.wide { line } else { clip(&line, COLUMNS) });
            lines.push('\n');
        }
        if !fits {
            let limited =
                |cell: &&CellAnalysis| format!("{} {}", cell.path, values::limited_by(cell));
            let limited: Vec<String> = workload.cells.iter().map(limited).collect();
            let first = format!("Limited by: {}.", limited.join(", "));
            lines.push_str(&wrap(&first, COLUMNS, "  ", "    "));
        }
        lines + &self.course(workload)
    }

    fn legend(&self) -> String {
        let measure = Measure::of(self.analysis.run.scenario.workload.kind);
        let mut legend = format!(
            "± is half the 95 % interval. CPU: all cores added up, 100 is one core. {}: busy time of \
             all the host's cores per {}.",
            measure.demand_unit, measure.demand_per
        );
        for sentence in columns::explanations(&self.analysis.cells) {
            legend.push(' ');
            legend.push_str(&sentence);
        }
        let metrics = self.analysis.cells.iter().flat_map(shown_metrics);
        let reasons = values::reasons(metrics);
        if !reasons.is_empty() {
            legend.push_str(&format!(" {NO_VALUE} stands for no value: {}.", reasons.join("; ")));
        }
        self.style(Style::Faint, &wrap(&legend, COLUMNS, "  ", "  "))
    }

    /// The run beside published figures.
    fn references(&self) -> String {
        let section = |beside| {
            let (title, lines) = references::terminal(beside, self.wide);
            self.style(Style::Strong, &title) + &lines
        };
        self.analysis.references.iter().map(section).collect::<Vec<_>>().join("\n")
    }

    fn queues(&self) -> String {
        let lines = queues::lines(self.analysis, self.wide, COLUMNS);
        if lines.is_empty() {
            return lines;
        }
        self.style(Style::Strong, &format!("{}\n", queues::TITLE)) + &lines
    }

    fn ledger(&self) -> String {
        let lines = ledger::lines(self.analysis, self.wide, COLUMNS);
        if lines.is_empty() {
            return lines;
        }
        let title = self.style(Style::Strong, &format!("{}\n", ledger::TITLE));
        title + &lines + &self.style(Style::Faint, &wrap(ledger::LEGEND, COLUMNS, "  ", "  "))
    }

    fn cores(&self) -> String {
        let mut rows = Vec::new();
        for cell in &self.analysis.cells {
            rows.extend(cell.machines().iter().flat_map(|machine| machines::rows(cell, machine)));
        }
        self.titled("Cores, in percent of the window", machines::CORES, &rows)
    }

    /// The guests beside the one under test, which the tables of workloads have no room for.
    fn other_guests(&self) -> String {
        let lines = machines::other_guests(self.analysis, COLUMNS);
        if lines.is_empty() {
            return lines;
        }
        let title = "Guests beside the one under test: CPU in percent of one core\n";
        self.style(Style::Strong, title) + &lines
    }

    fn interfaces(&self) -> String {
        let ends = values::distinct_ends(self.analysis);
        let rows: Vec<Vec<String>> =
            ends.iter().map(|(path, end)| interface_row(path, end)).collect();
        self.titled("Interfaces under test, as they really were", INTERFACES, &rows)
    }

    fn titled(&self, title: &str, columns: &[Column], rows: &[Vec<String>]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let (head, body) = table::lines(columns, rows);
        let mut lines = self.style(Style::Strong, &format!("{title}\n"));
        lines.push_str(&self.style(Style::Faint, &(head.join("\n") + "\n")));
        lines.push_str(&(body.join("\n") + "\n"));
        lines
    }

    fn void_trials(&self) -> String {
        let mut lines = String::new();
        for trial in &self.analysis.void_trials {
            let what = format!(
                "Void: trial {} (block {}, {}, attempt {}): {}",
                trial.sequence, trial.block, trial.cell, trial.attempt, trial.reason
            );
            lines.push_str(&wrap(&what, COLUMNS, "", "  "));
            for line in &trial.console_tail {
                lines.push_str(&self.style(Style::Faint, &wrap(line, COLUMNS, "  | ", "  | ")));
            }
        }
        lines
    }

    fn findings(&self) -> String {
        let findings = self.analysis.findings.iter().map(|finding| self.finding(finding));
        findings.collect::<Vec<_>>().join("")
    }

    fn finding(&self, finding: &Finding) -> String {
        let (name, style) = match finding.severity {
            Severity::Warning => ("Warning", Style::Warning),
            Severity::Doubt => ("Doubt", Style::Warning),
            Severity::Note => ("Note", Style::Strong),
        };
        let title = wrap(&format!("{name}: {}", finding.title), COLUMNS, "", "  ");
        let mut lines = self.style(style, &title);
        lines.push_str(&wrap(&finding.evidence, COLUMNS, "  ", "  "));
        for line in picture::lines(&finding.pictures) {
            lines.push_str(&format!("    {}\n", clip(&line, COLUMNS - 4)));
        }
        lines.push_str(&wrap(&finding.advice, COLUMNS, "  → ", "    "));
        lines
    }

    fn bottom(&self) -> String {
        let facts = provenance::facts(self.analysis);
        let shown = facts.iter().filter(|(name, _)| {
            self.wide || ["Trials", "Each trial", "Host", "CPU", "QEMU"].contains(name)
        });
        let mut lines = String::new();
        for (name, fact) in shown {
            lines.push_str(&wrap(&format!("{name}: {fact}"), COLUMNS, "", "  "));
        }
        if let Some(command) = provenance::repeat_command(&self.analysis.run) {
            lines.push_str(&wrap(&format!("Repeat: {command}"), COLUMNS, "", "  "));
        }
        self.style(Style::Faint, &lines)
    }
}

/// Head and body.
fn table_of(shown: &[Shown], workload: &Workload<'_>) -> (Vec<String>, Vec<String>) {
    let columns: Vec<Column> = shown.iter().map(|shown| shown.column).collect();
    let row = |cell: &&CellAnalysis| shown.iter().map(|shown| (shown.field)(cell)).collect();
    let rows: Vec<Vec<String>> = workload.cells.iter().map(row).collect();
    table::lines_of_named(&columns, &rows)
}

/// A column of a workload's table, and its field of a row.
struct Shown {
    column: Column,
    field: Box<dyn Fn(&CellAnalysis) -> String>,
}

fn shown(column: Column, field: impl Fn(&CellAnalysis) -> String + 'static) -> Shown {
    Shown { column, field: Box::new(field) }
}

fn extra(extra: &'static Extra) -> Shown {
    shown(number(extra.title), |cell| extra.field(cell))
}

/// What fits into 80 columns.
fn narrow(load: &workload::Workload) -> Vec<Shown> {
    let measure = Measure::of(load.kind);
    let mut columns = vec![
        shown(text("path"), |cell| cell.path.clone()),
        shown(number(measure.title), headline_with_interval),
        shown(number("% of\nbaseline"), |cell| {
            if cell.is_baseline { "100".into() } else { mean(&cell.percent_of_baseline) }
        }),
    ];
    columns.extend(columns::of(load).filter(|extra| extra.place == Place::Narrow).map(extra));
    // The wide table has the rest.
    if !measure.unit.is_timed() && load.direction != Direction::Both {
        columns.extend(cpu());
    }
    if load.background_load().is_none() {
        columns.push(demand(measure, 0));
    }
    columns
}

/// How busy both machines were: of transactions there is no room for it beside their latency.
fn cpu() -> [Shown; 2] {
    [
        shown(number("guest\nCPU %"), |cell| {
            let guest = cell.guest.as_ref().map(|guest| whole(&guest.busy_percent_of_core));
            guest.unwrap_or_default()
        }),
        shown(number("host\nCPU %"), |cell| whole(&cell.host.busy_percent_of_core)),
    ]
}

/// Service demand of the host, of it QEMU's, or of the guest.
fn demand(measure: &'static Measure, of: usize) -> Shown {
    shown(number(measure.demand_heads[of]), move |cell| match (measure.demand)(cell) {
        Some(demand) if of == 0 || !cell.is_baseline => mean(demand[of]),
        _ => String::new(),
    })
}

/// The metrics of [`narrow`], for the reasons of those that are missing.
fn shown_metrics(cell: &CellAnalysis) -> impl Iterator<Item = &Metric> {
    let percent = (!cell.is_baseline).then_some(&cell.percent_of_baseline);
    let guest = cell.guest.as_ref().map(|guest| &guest.busy_percent_of_core);
    let demand = (cell.measure().demand)(cell).map(|demand| demand[0]);
    let extras = columns::of(&cell.workload).filter(|extra| extra.place == Place::Narrow);
    let extras = extras.filter_map(|extra| extra.shown(cell));
    let always = [cell.headline(), &cell.host.busy_percent_of_core];
    always.into_iter().chain(demand).chain(percent).chain(guest).chain(extras)
}

/// What there is beside, for those who ask.
fn wide(load: &workload::Workload) -> Vec<Shown> {
    let measure = Measure::of(load.kind);
    let mut columns = vec![shown(number("95 %\nof baseline"), |cell| {
        let summary = cell.percent_of_baseline.summary;
        if cell.is_baseline { String::new() } else { interval(summary.as_ref()) }
    })];
    if measure.unit == Unit::Bits {
        columns.push(shown(number("sender's"), |cell| {
            rate_with_interval(&cell.sender_bits_per_second)
        }));
    }
    if measure.unit.is_timed() {
        columns.extend(cpu());
    }
    let rest = |extra: &&Extra| ![Place::Narrow, Place::Course].contains(&extra.place);
    columns.extend(columns::of(load).filter(rest).map(extra));
    columns.extend([
        qemu("QEMU\nvCPU %", |q| &q.vcpu_percent_of_core),
        qemu("main\nloop %", |q| &q.main_loop_percent_of_core),
        qemu("I/O\n%", |q| &q.io_percent_of_core),
        qemu("vhost\n%", |q| &q.vhost_percent_of_core),
        qemu("other\n%", |q| &q.other_percent_of_core),
        demand(measure, 1),
        demand(measure, 2),
    ]);
    if measure.may_retransmit {
        columns.extend([
            shown(number("segments\nsent again"), |cell| whole(&cell.retransmissions.segments)),
            shown(number("per\nmillion"), |cell| {
                mean(&cell.retransmissions.per_million_segments_sent)
            }),
        ]);
    }
    let of_guest = |read: fn(&CellAnalysis) -> &Metric| {
        move |cell: &CellAnalysis| match cell.is_baseline {
            true => String::new(),
            false => whole(read(cell)),
        }
    };
    columns.extend([
        shown(number("B/packet\nsender"), |cell| whole(&cell.bytes_per_packet.sender)),
        shown(number("B/packet\ntap"), of_guest(|cell| &cell.bytes_per_packet.tap)),
        shown(number("B/packet\nreceiver"), |cell| whole(&cell.bytes_per_packet.receiver)),
        shown(number("ready\nms"), of_guest(|cell| &cell.guest_ready_ms)),
        shown(number("trials"), |cell| cell.trials.completed.to_string()),
    ]);
    columns
}

fn qemu(title: &'static str, read: fn(&QemuUse) -> &Metric) -> Shown {
    shown(number(title), move |cell| {
        cell.qemu.as_ref().map(|qemu| whole(read(qemu))).unwrap_or_default()
    })
}

const INTERFACES: &[Column] = &[
    text("path"),
    text("end"),
    text("driver"),
    text("version"),
    number("MTU"),
    number("Mbit/s\nclaimed"),
    number("queues\nrx/tx"),
    text("active offloads"),
];

fn interface_row(path: &str, end: &EndFacts) -> Vec<String> {
    let facts = &end.interface;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NO_VALUE.into());
    let active = facts.offloads.iter().filter(|(_, active)| **active);
    vec![
        path.to_owned(),
        values::place(end.place).into(),
        or_none(facts.driver.clone()),
        or_none(facts.driver_version.clone()),
        facts.mtu.to_string(),
        or_none(facts.speed_mbit_per_s.map(|speed| speed.to_string())),
        or_none(facts.queues.map(|queues| format!("{}/{}", queues.rx, queues.tx))),
        active.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "),
    ]
}
