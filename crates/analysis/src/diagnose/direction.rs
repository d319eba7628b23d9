//! Paths that carry much more one way than the other.

use vioperf_model::plan::CellId;
use vioperf_model::workload::{Direction, Workload};

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};

/// How many times more one way from which it is worth a note.
const TIMES: f64 = 1.5;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let one_way = |direction| {
        evidence.cells.iter().filter(move |cell| cell.direction == direction && !cell.is_baseline)
    };
    let mut cells: Vec<(f64, CellId, String)> = Vec::new();
    for to in one_way(Direction::ToGuest) {
        let Some(from) = one_way(Direction::FromGuest).find(|from| is_reverse(to, from)) else {
            continue;
        };
        let (Some(there), Some(back)) = (to.headline().mean(), from.headline().mean()) else {
            continue;
        };
        let (more, less) = if there >= back { (to, from) } else { (from, to) };
        if is_told_apart(more, less) {
            let unit = to.measure().unit;
            let told = format!("{} to it, {} from it", unit.short(there), unit.short(back));
            cells.push((there.max(back) / there.min(back), more.id.clone(), told));
        }
    }
    cells.sort_by(|a, b| b.0.total_cmp(&a.0));
    let cells: Vec<(CellId, String)> = cells.into_iter().map(|(_, id, told)| (id, told)).collect();
    about_cells(
        "direction-asymmetry",
        Severity::Note,
        "One direction carries much more than the other",
        &cells,
        "The two ways have different bottlenecks: sending offers large segments to the other side, receiving merges or copies \
         them; `vioperf explain` tells what limits each of them.",
    )
}

/// Nothing but the direction differs.
fn is_reverse(to: &CellAnalysis, from: &CellAnalysis) -> bool {
    let turned = Workload { direction: to.direction, ..from.workload.clone() };
    (&to.path, to.switch, to.mtu_bytes, to.ip) == (&from.path, from.switch, from.mtu_bytes, from.ip)
        && to.workload == turned
}

/// By the ends of their intervals, where there are any.
fn is_told_apart(more: &CellAnalysis, less: &CellAnalysis) -> bool {
    let interval =
        |cell: &CellAnalysis| cell.headline().summary.and_then(|summary| summary.interval_95);
    let apart = interval(more).zip(interval(less)).is_some_and(|(more, less)| more.low > less.high);
    let times = more.headline().mean().zip(less.headline().mean());
    apart && times.is_some_and(|(more, less)| less > 0.0 && more >= TIMES * less)
}

#[cfg(test)]
mod tests {
    use vioperf_model::workload::Direction;

    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn much_more_one_way_is_told_and_a_little_more_is_not() {
        let told = |times: f64| {
            let synthetic = Synthetic::of_blocks(4, |cell, block| {
                let way = if cell.workload.direction == Direction::ToGuest { 1.0 } else { times };
                1e9 * way * (1.0 + 0.01 * f64::from(block))
            });
            let found = analyse(&synthetic.run, &synthetic.trials).findings;
            found.into_iter().find(|finding| finding.rule == "direction-asymmetry")
        };
        assert_eq!(told(1.2), None);
        let found = told(2.0).unwrap();
        assert!(found.cells.iter().all(|cell| cell.0.contains("from-guest")), "{found:?}");
        assert!(found.evidence.contains("1.01 Gbit/s to it, 2.03 Gbit/s from it"), "{found:?}");
    }
}
