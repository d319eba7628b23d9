//! Numbers of a trial that cannot all be true.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::sanity;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cores = evidence.run.host.cores;
    let mut cells: Vec<(CellId, String)> = Vec::new();
    for (cell, analysed) in evidence.run.plan.cells.iter().zip(evidence.cells) {
        let found = sanity::of_cell(cell, analysed, cores);
        let Some((trial, first)) = found.first() else { continue };
        let trial = trial.map_or_else(String::new, |sequence| format!("trial {sequence}: "));
        let more = match found.len() {
            1 => String::new(),
            many => format!(" (and {} more)", many - 1),
        };
        cells.push((cell.id.clone(), format!("{trial}{}{more}", first.what)));
    }
    about_cells(
        "impossible-numbers",
        Severity::Doubt,
        "Numbers of a trial cannot all be true",
        &cells,
        "Do not use these cells: measure them again, and if it stays report it with the run's directory, as then \
         vioperf counts wrongly.",
    )
}

#[cfg(test)]
mod tests {
    use vioperf_model::units::BitRate;

    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn more_than_the_link_carries_is_told() {
        let mut synthetic = Synthetic::calm_kvm();
        let told = |synthetic: &Synthetic| {
            let found = analyse(&synthetic.run, &synthetic.trials).findings;
            found.into_iter().find(|finding| finding.rule == "impossible-numbers")
        };
        assert_eq!(told(&synthetic), None);
        for cell in &mut synthetic.run.plan.cells {
            cell.testbed.rate = Some(BitRate::from_bits_per_second(1_000_000));
        }
        let found = told(&synthetic).unwrap();
        assert_eq!(found.cells.len(), synthetic.run.plan.cells.len());
        assert!(found.evidence.contains("over a link of 1.00 Mbit/s"), "{}", found.evidence);
    }

    #[test]
    fn more_cores_busy_than_there_are_is_told() {
        let mut synthetic = Synthetic::calm_kvm();
        synthetic.run.host.cores = 0;
        let found = analyse(&synthetic.run, &synthetic.trials).findings;
        let found = found.iter().find(|finding| finding.rule == "impossible-numbers").unwrap();
        assert!(found.evidence.contains("but has 0 cores"), "{}", found.evidence);
    }
}
