//! Asks for everything that is wrong before anything is touched.

use std::path::Path;

use anyhow::anyhow;
use vioperf_lab::preflight::{self, Check, Status};
use vioperf_lab::qemu::Qemu;
use vioperf_model::record::LeftOut;
use vioperf_model::scenario::Scenario;

use crate::conductor::hypervisor::Ingredients;
use crate::exit::Failure;
use crate::guest_kernel;

/// A scenario that can be run here.
#[derive(Debug)]
pub struct Ready {
    /// The scenario, without what cannot be had here.
    pub scenario: Scenario,
    /// What that is.
    pub left_out: Vec<LeftOut>,
    /// What guests are made from; absent when the scenario needs none.
    pub ingredients: Option<Ingredients>,
}

/// Checks that the scenario can be run here.
///
/// # Errors
/// [`Failure::Machine`] with all problems at once, each with what to do.
pub fn check(mut scenario: Scenario) -> Result<Ready, Failure> {
    let mut left_out = Vec::new();
    if scenario.factors.nic.is_empty() {
        return Ok(Ready { scenario, left_out, ingredients: None });
    }
    let guest = scenario.guest.clone();
    let mut problems = Vec::new();
    let qemu = Qemu::find(guest.qemu.as_deref().map(Path::new));
    if let Ok(qemu) = &qemu {
        scenario.factors.nic.retain(|&model| match qemu.require(model) {
            Ok(()) => true,
            Err(error) => {
                let what = format!("nic {model}");
                left_out.push(LeftOut { what, reason: error.to_string() });
                false
            }
        });
        if scenario.factors.nic.is_empty() {
            let reasons: Vec<&str> = left_out.iter().map(|out| out.reason.as_str()).collect();
            problems.push(format!("no NIC model is left: {}", reasons.join("; ")));
        }
    }
    let models: Vec<_> = scenario.factors.nic.as_slice().to_vec();
    let memory_mib = guest.memory.as_bytes() >> 20;
    let checks = preflight::all(Path::new("/"), &qemu, &models, memory_mib);
    problems.extend(checks.into_iter().filter(|check| check.status == Status::Fail).map(
        |Check { name, found, advice, .. }| match advice {
            Some(advice) => format!("{name}: {found}: {advice}"),
            None => format!("{name}: {found}"),
        },
    ));
    let (image, modules) = (guest.kernel.as_deref(), guest.modules.as_deref());
    match (qemu, guest_kernel::find(image, modules, models.iter().copied())) {
        (Ok(qemu), Ok(kernel)) if problems.is_empty() => {
            let ingredients = Some(Ingredients { qemu, kernel, models });
            return Ok(Ready { scenario, left_out, ingredients });
        }
        (_, kernel) => problems.extend(kernel.err().map(|error| format!("{error:#}"))),
    }
    Err(Failure::Machine(anyhow!(
        "this machine cannot run the scenario:\n  - {}",
        problems.join("\n  - ")
    )))
}
