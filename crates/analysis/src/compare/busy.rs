//! Something else that ran on the machine during one run and not during the other: in a block that
//! both share it hits both alike, in runs of their own it looks like a difference.

use super::metric::by_name;
use super::result::{ComparedRow, Verdict};
use crate::result::{CellAnalysis, RunAnalysis};

/// More than this, per core of the host and in percent of it, is no longer the host's usual murmur.
const MOST_PERCENT_PER_CORE: f64 = 20.0;
/// If what else ran explains this part of a difference in the host's CPU time, the rest is not told.
const MOST_EXPLAINED: f64 = 0.5;

/// Takes back every difference that could as well come from what else kept the host's cores busy.
pub fn take_back(rows: &mut [ComparedRow], a: &RunAnalysis, b: &RunAnalysis) {
    let cores = f64::from(a.run.host.cores.min(b.run.host.cores).max(1));
    for row in rows.iter_mut().filter(|row| row.verdict.is_difference()) {
        let cell = |run: &'_ RunAnalysis| -> Option<[f64; 2]> {
            let of = |cell: &&CellAnalysis| cell.id.0 == row.cell;
            let cell = run.cells.iter().find(of)?;
            let busy = cell.host.busy_percent_of_core.mean()?;
            Some([cell.unexplained_host_busy_percent_of_core.mean()?, busy])
        };
        let (Some([else_a, busy_a]), Some([else_b, busy_b])) = (cell(a), cell(b)) else { continue };
        let more = (else_b - else_a).abs();
        let explains = 100.0 * more / busy_a.min(busy_b);
        let size = row.difference.map_or(0.0, |difference| difference.value.abs());
        let is_whole_host = by_name(row.metric).is_some_and(|metric| metric.is_of_whole_host());
        if more > MOST_PERCENT_PER_CORE * cores
            || (is_whole_host && explains > MOST_EXPLAINED * size)
        {
            row.verdict = Verdict::Unclear;
            row.reason = Some(format!(
                "something else kept the host's cores busy, {else_a:.0} % of a core in A and \
                 {else_b:.0} % in B: end it, or measure A and B in one run"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse;
    use crate::compare::{Options, Wanted, runs};
    use crate::testing::Synthetic;

    /// Six blocks; what else keeps the host busy is planted afterwards.
    fn run(rate: f64, elsewhere: f64) -> RunAnalysis {
        let scatter = |block: u32| 1.0 + 0.002 * f64::from(block * 3 % 5);
        let synthetic = Synthetic::of_blocks(6, |_, block| rate * scatter(block));
        let mut analysis = analyse(&synthetic.run, &synthetic.trials);
        for cell in &mut analysis.cells {
            let unexplained = &mut cell.unexplained_host_busy_percent_of_core;
            unexplained.summary.as_mut().unwrap().mean = elsewhere;
        }
        analysis
    }

    fn verdicts(a: &RunAnalysis, b: &RunAnalysis, metric: Wanted) -> Vec<Verdict> {
        let options = Options { metrics: vec![metric], ..Options::default() };
        runs(["a", "b"], a, b, &options).rows.iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn a_busy_machine_takes_no_blame_off_and_puts_none_on() {
        let (before, after) = (run(1e9, 3.0), run(9e8, 3.0));
        let all = |verdicts: &[Verdict], verdict| verdicts.iter().all(|v| *v == verdict);
        assert!(all(&verdicts(&before, &after, Wanted::Headline), Verdict::Worse));
        // 41 % of a core on two cores is more than anything else could be.
        let busy = run(9e8, 44.5);
        assert!(all(&verdicts(&before, &busy, Wanted::Headline), Verdict::Unclear));
        // Busy alike is no difference between the runs.
        assert!(all(&verdicts(&run(1e9, 44.0), &busy, Wanted::Headline), Verdict::Worse));
        // Less of it is enough to move the host's CPU time by a tenth.
        let other = run(9e8, 20.0);
        assert!(all(&verdicts(&before, &after, Wanted::Cpu), Verdict::Worse));
        assert!(all(&verdicts(&before, &other, Wanted::Cpu), Verdict::Unclear));
        assert!(all(&verdicts(&before, &other, Wanted::Headline), Verdict::Worse));
    }
}
