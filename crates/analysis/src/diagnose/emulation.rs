//! Guests ran under software emulation.

use super::{Evidence, about_run};
use crate::result::{Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let hypervisor = evidence.run.hypervisor.as_ref().filter(|hypervisor| hypervisor.emulated);
    let finding = hypervisor.map(|hypervisor| {
        about_run(
            "software-emulation",
            Severity::Doubt,
            "The guests ran under software emulation",
            &format!(
                "QEMU's TCG executed every instruction of the guest: {}",
                hypervisor.accel_reason
            ),
            "Compare the models with one another, not with a KVM machine; repeat the run where KVM \
             works (vioperf doctor tells) before deciding anything for production.",
        )
    });
    finding.into_iter().collect()
}
