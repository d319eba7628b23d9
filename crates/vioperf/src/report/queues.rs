//! Which queue of a card got what, in words: of loads of datagrams, whose rate hangs on it.

use std::collections::BTreeMap;

use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::{CellAnalysis, RunAnalysis};
use vioperf_analysis::wording::percent;

use super::text::wrap;
use super::values::{place, workloads};

/// What a section of it is called.
pub const TITLE: &str = "Which queue got what";
/// So many cells are told where not all are asked for.
const CELLS: usize = 8;
/// A side that passes less than this part of what the other does has no load.
const IDLE: f64 = 0.01;

/// A line a cell that has several queues one way, at most so wide.
pub fn lines(analysis: &RunAnalysis, all: bool, columns: usize) -> String {
    let workloads = workloads(analysis);
    let has_several = workloads.len() > 1;
    let mut told = Vec::new();
    for workload in workloads.iter().filter(|load| load.measure().unit == Unit::Datagrams) {
        let load = if has_several { format!(", {}", workload.title) } else { String::new() };
        for cell in &workload.cells {
            let shares = shares(cell);
            if !shares.is_empty() {
                told.push(format!("{}{load}: {}", cell.path, shares.join("; ")));
            }
        }
    }
    let left_out = if all { 0 } else { told.len().saturating_sub(CELLS) };
    told.truncate(told.len() - left_out);
    let mut lines: String = told.iter().map(|line| wrap(line, columns, "  ", "    ")).collect();
    if left_out > 0 {
        lines.push_str(&format!("  … and {left_out} more cells (--wide)\n"));
    }
    lines
}

/// `guest rx-0 62.0 %, rx-1 38.0 % of 12.3 k/s`, one for every side that has several queues.
pub fn shares(cell: &CellAnalysis) -> Vec<String> {
    let mut said = Vec::new();
    for counted in cell.counters.iter().filter(|counted| counted.mean_seconds > 0.0) {
        let packets = counted.moved.iter().filter(|moved| moved.layer == "queues");
        let packets = packets.filter(|moved| moved.counter == "packets");
        // By side (`rx-`), then by number: `rx-10` comes after `rx-9`.
        let mut sides: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
        for moved in packets {
            let side = moved.of.trim_end_matches(|c: char| c.is_ascii_digit());
            let number = moved.of[side.len()..].parse().unwrap_or(0);
            sides.entry(side).or_default().insert(number, moved.mean);
        }
        let sum = |queues: &BTreeMap<u64, f64>| queues.values().sum::<f64>();
        let most = sides.values().map(sum).fold(0.0, f64::max);
        let is_told = |queues: &BTreeMap<u64, f64>| queues.len() > 1 && sum(queues) > IDLE * most;
        for (side, queues) in sides.iter().filter(|(_, queues)| is_told(queues)) {
            let sum = sum(queues);
            let share = |(number, mean): (&u64, &f64)| {
                format!("{side}{number} {}", percent(100.0 * mean / sum))
            };
            let shares: Vec<String> = queues.iter().map(share).collect();
            said.push(format!(
                "{} {} of {}",
                place(counted.place),
                shares.join(", "),
                Unit::Datagrams.short(sum / counted.mean_seconds)
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::result::{MovedCounter, PlaceCounters};
    use vioperf_analysis::testing::Synthetic;
    use vioperf_model::record::Place;
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn queues_of_the_loaded_side_are_told_in_their_order() {
        let Synthetic { run, trials } = Synthetic::of_kind(WorkloadKind::PacketRate);
        let mut analysis = analyse(&run, &trials);
        assert!(lines(&analysis, true, 80).is_empty(), "one queue each");
        let moved = |of: &str, mean: f64| MovedCounter {
            layer: "queues".into(),
            of: of.into(),
            counter: "packets".into(),
            mean,
            max: 0,
        };
        let moved = ["eth0 rx-10", "eth0 rx-9", "eth0 tx-0", "eth0 tx-1"]
            .into_iter()
            .zip([3_000.0, 1_000.0, 2.0, 1.0])
            .map(|(of, mean)| moved(of, mean))
            .collect();
        let guest = PlaceCounters {
            place: Place::Guest,
            trials: 3,
            mean_seconds: 2.0,
            moved,
            unmoved: 0,
            absent: BTreeMap::new(),
        };
        let cell = analysis.cells.iter_mut().find(|cell| !cell.is_baseline).unwrap();
        cell.counters = vec![guest];
        assert_eq!(shares(cell), ["guest eth0 rx-9 25.0 %, eth0 rx-10 75.0 % of 2000 /s"]);
        let (path, told) = (cell.path.clone(), lines(&analysis, false, 200));
        assert!(told.contains(&path) && told.contains("25.0 %"), "{told}");
    }
}
