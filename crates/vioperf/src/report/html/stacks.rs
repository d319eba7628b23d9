//! Who used the host's cores, as stacked bars: of what was busy, and of what a unit of work costs.
//!
//! Each user has a colour and a hatch of its own, so that it is known by either alone.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, CpuShare, CpuUser, RunAnalysis};
use vioperf_analysis::wording::three_digits;

use super::seen::{Part, Seen};
use crate::report::text::clean;
use crate::report::values::{NO_VALUE, Workload};

/// How a user is drawn.
struct Style {
    user: CpuUser,
    name: &'static str,
    /// Of its colour, and of its hatch.
    class: &'static str,
    /// The lines of a field of 8 by 8; none for plain ground.
    hatch: &'static str,
}

const STYLES: &[Style] = &[
    Style { user: CpuUser::Guest, name: "guest’s own code", class: "u-guest", hatch: "" },
    Style {
        user: CpuUser::Vcpu,
        name: "vCPU threads",
        class: "u-vcpu",
        hatch: "M-2 2 L2 -2 M-2 10 L10 -2 M6 10 L10 6",
    },
    Style { user: CpuUser::MainLoop, name: "main loop", class: "u-main", hatch: "M1 2 H3 M5 6 H7" },
    Style { user: CpuUser::Io, name: "I/O threads", class: "u-io", hatch: "M0 0 L8 8 M8 0 L0 8" },
    Style { user: CpuUser::Vhost, name: "vhost", class: "u-vhost", hatch: "M0 2 H8 M0 6 H8" },
    Style {
        user: CpuUser::OtherQemu,
        name: "QEMU’s others",
        class: "u-qemu",
        hatch: "M-2 6 L2 10 M-2 -2 L10 10 M6 -2 L10 2",
    },
    Style { user: CpuUser::OtherGuests, name: "other guests", class: "u-others", hatch: "M4 0 V8" },
    Style {
        user: CpuUser::Interrupts,
        name: "interrupts",
        class: "u-irq",
        hatch: "M2 0 V8 M6 0 V8",
    },
    Style { user: CpuUser::Rest, name: "everything else", class: "u-rest", hatch: "" },
];

/// The hatches of who is drawn, once a page, before what is filled with them (`figures.css` says which class is).
pub fn hatches(analysis: &RunAnalysis) -> Markup {
    let is_drawn = |style: &&Style| {
        let mut shares = analysis.cells.iter().flat_map(|cell| &cell.cpu_shares);
        shares.any(|share| share.user == style.user)
    };
    let drawn: Vec<&Style> = STYLES.iter().filter(is_drawn).collect();
    html! { @if !drawn.is_empty() { (patterns(&drawn)) } }
}

fn patterns(styles: &[&Style]) -> Markup {
    html! {
        svg.hatches width="0" height="0" aria-hidden="true" {
            defs {
                @for style in styles.iter().filter(|style| !style.hatch.is_empty()) {
                    pattern id={ "hatch-" (style.class) } width="8" height="8" patternUnits="userSpaceOnUse" {
                        rect class={ "ground-" (style.class) } width="8" height="8" {}
                        path d=(style.hatch) {}
                    }
                }
            }
        }
    }
}

/// One number of a share.
type Read = fn(&CpuShare) -> Option<f64>;
/// What stands beside a bar.
type Whole<'a> = &'a dyn Fn(&CellAnalysis) -> Option<f64>;

/// Busy time and service demand, each cell's split by who used it.
pub fn section(workload: &Workload<'_>, seen: &Seen<'_>) -> Markup {
    let cells = &workload.cells;
    if cells.iter().all(|cell| cell.cpu_shares.is_empty()) {
        return html! {};
    }
    let is_used = |style: &&Style| {
        cells.iter().any(|cell| share(cell, style.user, |s| s.percent_of_core.mean()) > 0.0)
    };
    let used: Vec<&Style> = STYLES.iter().filter(is_used).collect();
    let measure = workload.measure();
    // The service demand's own number, so that both say the same.
    let demand = |cell: &CellAnalysis| (measure.demand)(cell).and_then(|[host, _, _]| host.mean());
    let busy = |cell: &CellAnalysis| cell.host.busy_percent_of_core.mean();
    let cost = format!("{} of the host, per {}", measure.demand_unit, measure.demand_per);
    let stacks = [
        Stack { unit: "% of one core", read: |s| s.percent_of_core.mean(), whole: &busy },
        Stack { unit: &cost, read: |s| s.seconds_per_unit.mean(), whole: &demand },
    ];
    html! {
        h3.chart-title { "Who used the host’s cores" }
        p.legend.small {
            @for style in &used {
                span.key {
                    svg width="22" height="14" aria-hidden="true" { rect class=(style.class) width="22" height="14" {} }
                    (style.name)
                }
            }
        }
        div.pair {
            @for (stack, number) in stacks.iter().zip(0..) {
                // Cells are found, and findings marked, in the first.
                (stack.drawn(cells, &used, Some(seen).filter(|_| number == 0)))
            }
        }
    }
}

fn share(cell: &CellAnalysis, user: CpuUser, read: Read) -> f64 {
    let found = cell.cpu_shares.iter().find(|share| share.user == user);
    found.and_then(read).filter(|value| *value > 0.0).unwrap_or(0.0)
}

/// One bar a cell, all on one scale.
struct Stack<'a> {
    unit: &'a str,
    read: Read,
    whole: Whole<'a>,
}

impl Stack<'_> {
    fn drawn(&self, cells: &[&CellAnalysis], used: &[&Style], seen: Option<&Seen<'_>>) -> Markup {
        let sum = |cell: &CellAnalysis| {
            used.iter().map(|style| share(cell, style.user, self.read)).sum::<f64>()
        };
        let largest = cells.iter().map(|cell| sum(cell)).fold(0.0, f64::max);
        let whole = |cell| (self.whole)(cell).map_or_else(|| NO_VALUE.into(), three_digits);
        html! {
            figure.stack data-values role="group" aria-label={ "Who used the host’s cores, in " (self.unit) } {
                figcaption { (self.unit) }
                @for cell in cells {
                    div.bar-row id=[seen.map(|_| Part::Cost.anchor(&cell.id))] {
                        span.name {
                            (clean(&cell.path))
                            @if let Some(seen) = seen { (seen.marks(Part::Cost, cell)) }
                        }
                        (self.bar(cell, used, sum(cell), largest))
                        span.value { (whole(cell)) }
                    }
                }
            }
        }
    }

    fn bar(&self, cell: &CellAnalysis, used: &[&Style], sum: f64, largest: f64) -> Markup {
        let shares: Vec<(&Style, f64)> =
            used.iter().map(|style| (*style, share(cell, style.user, self.read))).collect();
        let percent = |value: f64| if largest > 0.0 { 100.0 * value / largest } else { 0.0 };
        let part = |value: f64| if sum > 0.0 { value / sum } else { 0.0 };
        let told = shares.iter().filter(|(_, value)| part(*value) >= 0.005);
        let told: Vec<String> = told
            .map(|(style, value)| format!("{} {:.0} %", style.name, 100.0 * part(*value)))
            .collect();
        // In the number's own unit, as it stands beside the bar.
        let amount = |value: f64| {
            (self.whole)(cell)
                .map(|whole| format!("{} {}, ", three_digits(whole * part(value)), self.unit))
        };
        let starts = shares.iter().scan(0.0, |at, (_, value)| {
            let start = *at;
            *at += value;
            Some(start)
        });
        html! {
            svg.stacked height="18" role="img" aria-label={ (clean(&cell.path)) ": " (told.join(", ")) } {
                @for ((style, value), start) in shares.iter().zip(starts) {
                    @if *value > 0.0 {
                        rect.spot.(style.class) height="18" x={ (format!("{:.2}", percent(start))) "%" }
                            width={ (format!("{:.2}", percent(*value))) "%" } {
                            title {
                                (clean(&cell.path)) ", " (style.name) ": " (amount(*value).unwrap_or_default())
                                (format!("{:.0} %", 100.0 * part(*value))) " of it"
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;
    use crate::report::values::workloads;

    #[test]
    fn every_cell_has_its_stacks_and_every_part_its_value() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        let seen = Seen::of(&analysis);
        for workload in &workloads(&analysis) {
            let page = section(workload, &seen).into_string();
            assert_eq!(page.matches("class=\"stacked\"").count(), 2 * workload.cells.len());
            assert_eq!(page.matches("class=\"spot").count(), page.matches("<title>").count());
            let told = "<title>virtio, vhost: 30.0 % of one core, ";
            assert!(page.contains(told) && !page.contains("NaN"), "{page}");
        }
        let analysis = analyse(&run, &[]);
        let seen = Seen::of(&analysis);
        for workload in &workloads(&analysis) {
            assert!(section(workload, &seen).into_string().is_empty());
        }
    }

    #[test]
    fn no_two_users_look_alike_and_each_hatch_is_there() {
        for user in CpuUser::ALL {
            assert_eq!(STYLES.iter().filter(|style| style.user == user).count(), 1, "{user:?}");
        }
        let (page, style) = (
            patterns(&STYLES.iter().collect::<Vec<_>>()).into_string(),
            include_str!("figures.css"),
        );
        for of in STYLES {
            let alike =
                STYLES.iter().filter(|other| !of.hatch.is_empty() && other.hatch == of.hatch);
            assert!(alike.count() <= 1, "{}", of.name);
            let is_filled = style.contains(&format!("url(#hatch-{})", of.class));
            assert_eq!(is_filled, !of.hatch.is_empty(), "{}", of.name);
            assert_eq!(
                page.contains(&format!("id=\"hatch-{}\"", of.class)),
                is_filled,
                "{}",
                of.name
            );
        }
    }
}
