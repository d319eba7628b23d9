//! CPU models that were asked for and are not had whole: QEMU starts such a guest all the same.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| -> Option<(CellId, String)> {
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        let processor = trials.iter().find_map(|trial| trial.processor.as_ref())?;
        let is_asked = |planned: &&vioperf_model::plan::Cell| planned.id == cell.id;
        evidence.run.plan.cells.iter().find(is_asked)?.guest.as_ref()?.cpu.as_ref()?;
        let said = || format!("{} without {}", processor.model, processor.without.join(", "));
        (!processor.without.is_empty()).then(|| (cell.id.clone(), said()))
    };
    about_cells(
        "cpu-model-not-whole",
        Severity::Doubt,
        "Guests have less than the CPU model that was asked for",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "QEMU leaves away what the host's processor, or emulation, cannot give: choose a model that this host has whole \
         (guest.cpu), or measure on a host that has it.",
    )
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::Processor;

    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn features_that_a_model_lacks_are_told_where_it_was_asked_for() {
        let told = |asked: bool, without: &[&str]| {
            let Synthetic { mut run, mut trials } = Synthetic::calm_kvm();
            for cell in run.plan.cells.iter_mut().filter(|_| asked) {
                if let Some(guest) = &mut cell.guest {
                    guest.cpu = Some("Haswell".into());
                }
            }
            for guest in trials.iter_mut().filter_map(|trial| trial.guest.as_mut()) {
                let without = without.iter().map(|name| (*name).to_owned()).collect();
                guest.processor = Some(Processor { model: "Haswell".into(), without });
            }
            let found = analyse(&run, &trials).findings;
            found.into_iter().find(|finding| finding.rule == "cpu-model-not-whole")
        };
        let evidence = told(true, &["pcid", "x2apic"]).unwrap().evidence;
        assert!(evidence.contains("Haswell without pcid, x2apic"), "{evidence}");
        assert_eq!(told(true, &[]), None);
        assert_eq!(told(false, &["pcid"]), None);
    }
}
