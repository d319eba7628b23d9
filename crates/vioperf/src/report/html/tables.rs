//! The page's tables.

use maud::{Markup, html};
use vioperf_analysis::measure::{Measure, Unit};
use vioperf_analysis::result::{
    CellAnalysis, CoreUse, EndFacts, MachineUse, Metric, QemuUse, RankedWorkload, RunAnalysis,
};
use vioperf_analysis::wording::{capitalised, three_digits};
use vioperf_model::plan::Plan;

use crate::report::columns::{self, Extra, Place, signed};
use crate::report::text::clean;
use crate::report::values::{
    self, NO_VALUE, Workload, headline_with_interval, interval, mean, rate_with_interval, whole,
};

/// A cell of a table: the number, or a dash that tells the reason.
pub fn number(metric: &Metric, written: fn(&Metric) -> String) -> Markup {
    match metric.reason() {
        Some(reason) => html! { td.none title=(clean(reason)) { (NO_VALUE) } },
        None => html! { td { (written(metric)) } },
    }
}

/// Where a baseline has no such thing.
pub fn not_for_baseline() -> Markup {
    html! { td.none {} }
}

pub fn path_name(cell: &CellAnalysis) -> Markup {
    html! { th scope="row" { (cell.path) } }
}

/// Why numbers are missing, below a table.
pub fn reasons<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Markup {
    let reasons = values::reasons(metrics);
    html! {
        @if !reasons.is_empty() {
            p.small { (NO_VALUE) " no value: " (clean(&reasons.join("; "))) "." }
        }
    }
}

/// The percentages of each workload.
pub fn ranking(analysis: &RunAnalysis) -> Markup {
    let Some(first) = analysis.ranking.first() else { return html! {} };
    html! {
        div.scroll tabindex="0" {
            table {
                caption { "Percent of the baseline by workload, with its 95 % interval" }
                thead {
                    tr {
                        th scope="col" { "path" }
                        @for workload in &first.workloads {
                            th scope="col" { (workload.title) }
                        }
                        th scope="col" { "of the best" }
                    }
                }
                tbody {
                    @for (ranked, number) in analysis.ranking.iter().zip(0..) {
                        tr {
                            th scope="row" { (clean(&ranked.path)) }
                            @for workload in &ranked.workloads {
                                @match &workload.percent_of_baseline {
                                    Some(summary) => td {
                                        (three_digits(summary.mean)) " "
                                        span.range { (interval(Some(summary))) }
                                        (added(workload))
                                    },
                                    None => td.none { (NO_VALUE) },
                                }
                            }
                            @match &ranked.versus_best {
                                Some(versus) => td {
                                    (three_digits(versus.percent.mean)) " % "
                                    span.range { (told_apart(versus.told_apart)) }
                                },
                                None if number == 0 => td { "best" },
                                None => td.none { (NO_VALUE) },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the path adds to the latency of the baseline.
fn added(workload: &RankedWorkload) -> Markup {
    let parts = [("p50", workload.added_p50_us), ("p99", workload.added_p99_us)];
    html! {
        @for (name, summary) in parts {
            @if let Some(summary) = summary {
                span.note { (name) " " (signed(summary.mean)) " µs" }
            }
        }
    }
}

fn told_apart(told_apart: Option<bool>) -> &'static str {
    match told_apart {
        Some(true) => "",
        Some(false) => "not told apart",
        None => "too few blocks",
    }
}

/// What is measured, and what it costs.
pub fn throughput(workload: &Workload<'_>) -> Markup {
    let measure = workload.measure();
    let extras: Vec<&Extra> = columns::of(workload.load())
        .filter(|extra| {
            !measure.unit.is_timed() && ![Place::Latency, Place::Course].contains(&extra.place)
        })
        .collect();
    let metrics = workload.cells.iter().flat_map(|cell| {
        let ratio = (!cell.is_baseline).then_some(&cell.percent_of_baseline);
        let demand = (measure.demand)(cell);
        let guest = demand.filter(|_| !cell.is_baseline).map(|[_, _, guest]| guest);
        let sender = (measure.unit == Unit::Bits).then_some(&cell.sender_bits_per_second);
        let extras = extras.iter().filter_map(|extra| extra.shown(cell));
        std::iter::once(cell.headline())
            .chain(sender)
            .chain(demand.map(|[host, _, _]| host))
            .chain(ratio)
            .chain(guest)
            .chain(extras)
    });
    let unit = measure.demand_unit;
    let per = measure.demand_per;
    let [host, _, guest] = measure.demand_heads.map(|head| head.replace('\n', " "));
    html! {
        div.scroll tabindex="0" {
            table {
                caption { (capitalised(noun(measure))) " and cost. " (unit) " is CPU time per " (per) }
                thead {
                    tr {
                        th scope="col" { "path" }
                        th scope="col" { (head(measure)) " ± 95 %" }
                        @if measure.unit == Unit::Bits { th scope="col" { "taken from sender" } }
                        th scope="col" { "% of baseline" }
                        th scope="col" { "95 % interval" }
                        @for extra in &extras { th scope="col" { (extra.head()) } }
                        th scope="col" { (host) }
                        th scope="col" { "of it QEMU" }
                        th scope="col" { (guest) }
                        th scope="col" { "trials" }
                    }
                }
                tbody { @for cell in &workload.cells { (throughput_row(cell, &extras)) } }
            }
        }
        (reasons(metrics))
    }
}

/// The head of the headline metric's column.
fn head(measure: &Measure) -> String {
    match measure.unit {
        Unit::Bits => "received".into(),
        _ => measure.title.replace('\n', " ") + " a second",
    }
}

fn noun(measure: &Measure) -> &'static str {
    if measure.unit == Unit::Bits { "throughput" } else { measure.kept }
}

/// A field of such a column.
pub fn extra_field(extra: &Extra, cell: &CellAnalysis) -> Markup {
    match extra.shown(cell) {
        Some(metric) => number(metric, extra.written),
        None => not_for_baseline(),
    }
}

fn throughput_row(cell: &CellAnalysis, extras: &[&Extra]) -> Markup {
    let percent = &cell.percent_of_baseline;
    let measure = cell.measure();
    html! {
        tr.base[cell.is_baseline] {
            (path_name(cell))
            @match cell.headline().reason() {
                Some(reason) => td.none title=(clean(reason)) { (NO_VALUE) },
                None => td { (headline_with_interval(cell)) },
            }
            @if measure.unit == Unit::Bits {
                (number(&cell.sender_bits_per_second, rate_with_interval))
            }
            @if cell.is_baseline {
                td { "100" } (not_for_baseline())
            } @else {
                (number(percent, mean))
                td { (interval(percent.summary.as_ref())) }
            }
            @for extra in extras { (extra_field(extra, cell)) }
            @if let Some([host, qemu, guest]) = (measure.demand)(cell) {
                (number(host, mean))
                @if cell.is_baseline {
                    (not_for_baseline()) (not_for_baseline())
                } @else {
                    (number(qemu, mean))
                    (number(guest, mean))
                }
            }
            td {
                (cell.trials.completed)
                @if cell.trials.void > 0 { span.range { " + " (cell.trials.void) " void" } }
            }
        }
    }
}

/// Where CPU time went.
pub fn cpu(workload: &Workload<'_>) -> Markup {
    let metrics = workload.cells.iter().flat_map(|cell| {
        let qemu = cell.qemu.as_ref().map(|qemu| &qemu.total_percent_of_core);
        let guest = cell.guest.as_ref().map(|guest| &guest.busy_percent_of_core);
        std::iter::once(&cell.host.busy_percent_of_core).chain(qemu).chain(guest)
    });
    html! {
        div.scroll tabindex="0" {
            table {
                caption { "CPU, in percent of one core" }
                (cpu_head(["host’s cores", "guest’s cores"], "QEMU’s threads"))
                tbody {
                    @for cell in &workload.cells {
                        tr.base[cell.is_baseline] {
                            (path_name(cell))
                            (cores(&cell.host))
                            @match &cell.guest {
                                Some(guest) => (cores(guest)),
                                None => (not_for_baseline()),
                            }
                            (qemu(cell.qemu.as_ref()))
                        }
                    }
                }
            }
        }
        p.legend.small {
            @for (name, class) in STATES {
                span.key { svg width="10" height="10" aria-hidden="true" {
                    rect class=(class) width="10" height="10" {}
                } (name) }
            }
        }
        (reasons(metrics))
    }
}

/// The head of a table whose rows are a path, two fields of text, and the fields of [`qemu`].
pub fn cpu_head(texts: [&str; 2], threads: &str) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" rowspan="2" { "path" }
                @for text in texts { th.text scope="col" rowspan="2" { (text) } }
                th.group scope="colgroup" colspan=(QEMU_TASKS.len()) { (threads) }
            }
            tr { @for task in QEMU_TASKS { th scope="col" { (task) } } }
        }
    }
}

/// Heads of the fields of [`qemu`].
const QEMU_TASKS: [&str; 6] = ["vCPU", "main loop", "I/O", "vhost", "other", "waiting"];

pub fn qemu(qemu: Option<&QemuUse>) -> Markup {
    let Some(qemu) = qemu else { return html! { td.none colspan="6" {} } };
    let tasks = [
        &qemu.vcpu_percent_of_core,
        &qemu.main_loop_percent_of_core,
        &qemu.io_percent_of_core,
        &qemu.vhost_percent_of_core,
        &qemu.other_percent_of_core,
        &qemu.waiting_percent_of_core,
    ];
    html! { @for task in tasks { (number(task, whole)) } }
}

/// The states that make a core busy, and their class; in the order in which a bar is stacked.
const STATES: [(&str, &str); 6] = [
    ("user", "s-user"),
    ("kernel", "s-system"),
    ("soft interrupts", "s-softirq"),
    ("interrupts", "s-irq"),
    ("virtual CPU", "s-guest"),
    ("stolen", "s-steal"),
];

pub fn cores(machine: &MachineUse) -> Markup {
    html! {
        @if machine.cores.is_empty() {
            (number(&machine.busy_percent_of_core, whole))
        } @else {
            td.cores { @for core in &machine.cores { (core_bar(core)) } }
        }
    }
}

fn core_bar(core: &CoreUse) -> Markup {
    let states = &core.mean_percent;
    let shares =
        [states.user, states.system, states.softirq, states.irq, states.guest, states.steal]
            .map(|share| share.unwrap_or(0.0).clamp(0.0, 100.0));
    let starts = shares.iter().scan(0.0, |sum, share| {
        let start = *sum;
        *sum += share;
        Some(start)
    });
    let told: Vec<String> = STATES
        .iter()
        .zip(&shares)
        .filter(|(_, share)| **share >= 0.5)
        .map(|((name, _), share)| format!("{name} {share:.0} %"))
        .collect();
    html! {
        span.core {
            span.core-name { (core.core) }
            svg.core-bar height="10" role="img" aria-label=(told.join(", ")) {
                title { (told.join(", ")) }
                rect.s-idle width="100%" height="10" {}
                @for (((_, class), share), start) in STATES.iter().zip(&shares).zip(starts) {
                    @if *share > 0.0 {
                        rect class=(class) x={ (format!("{start:.1}")) "%" }
                            width={ (format!("{share:.1}")) "%" } height="10" {}
                    }
                }
            }
            span.core-value { (whole(&core.busy_percent)) }
        }
    }
}

/// The interfaces, each with the path it belongs to.
pub fn interfaces(seen: &[(&str, &EndFacts)]) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.facts {
                caption { "Drivers, links, queues and offloads" }
                thead {
                    tr {
                        th scope="col" { "path" }
                        th.text scope="col" { "end" }
                        th.text scope="col" { "driver" }
                        th.text scope="col" { "kernel" }
                        th scope="col" { "claims Mbit/s" }
                        th scope="col" { "MTU" }
                        th scope="col" { "queues rx/tx" }
                        th scope="col" { "rings rx/tx" }
                        th.text scope="col" { "active offloads" }
                    }
                }
                tbody { @for (path, end) in seen { (interface_row(path, end)) } }
            }
        }
    }
}

fn interface_row(path: &str, end: &EndFacts) -> Markup {
    let facts = &end.interface;
    let driver = facts.driver.as_deref().unwrap_or(NO_VALUE);
    let version = facts.driver_version.as_deref().unwrap_or("");
    let missing = |key: &str| facts.absent.get(key).map(|reason| clean(reason)).unwrap_or_default();
    let pair = |pair: Option<(u32, u32)>| match pair {
        Some((rx, tx)) => format!("{rx}/{tx}"),
        None => NO_VALUE.into(),
    };
    let active: Vec<&str> =
        facts.offloads.iter().filter(|(_, on)| **on).map(|(name, _)| name.as_str()).collect();
    html! {
        tr {
            th scope="row" { (path) }
            td.text { (values::place(end.place)) }
            td.text title=(missing("driver")) { (clean(driver)) " " span.range { (clean(version)) } }
            td.text { (clean(&end.kernel_release)) }
            td title=(missing("speed")) {
                (facts.speed_mbit_per_s.map_or_else(|| NO_VALUE.into(), |speed| speed.to_string()))
            }
            td { (facts.mtu) }
            td title=(missing("queues")) { (pair(facts.queues.map(|queues| (queues.rx, queues.tx)))) }
            td title=(missing("rings")) { (pair(facts.rings.map(|rings| (rings.rx, rings.tx)))) }
            td.text {
                @if facts.offloads.is_empty() {
                    (NO_VALUE)
                } @else {
                    details {
                        summary { (active.len()) " of " (facts.offloads.len()) }
                        (clean(&active.join(", ")))
                    }
                }
            }
        }
    }
}

/// The order in which cells were to be measured.
pub fn plan(plan: &Plan) -> Markup {
    html! {
        details {
            summary { "Order of the blocks, from the seed " (plan.seed) }
            ol {
                @for block in &plan.blocks {
                    li {
                        @for (index, number) in block.iter().zip(0..) {
                            @if number > 0 { ", " }
                            @match plan.cells.get(*index) {
                                Some(cell) => (clean(&cell.id.0)),
                                None => "unknown",
                            }
                        }
                    }
                }
            }
        }
    }
}
