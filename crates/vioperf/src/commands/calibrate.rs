//! `vioperf calibrate`: the tool measures its own error.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use vioperf_analysis::calibration::failed;
use vioperf_lab::placement::usable_cores;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::calibration::{CALIBRATION_SCHEMA_VERSION, Calibration};
use vioperf_model::nic::NicModel;
use vioperf_model::plan::Plan;
use vioperf_model::scenario::{Factors, Guest, Repeat, Scenario, Testbed};
use vioperf_model::workload::{Workload, WorkloadKind};

use crate::calibrate::{self, Bench, Findings, render, stored};
use crate::cli::{CalibrateArgs, CalibrateFormat};
use crate::conductor::core_speed::Cores;
use crate::conductor::disk_files::DiskFiles;
use crate::conductor::hypervisor::{GuestSupply, Ingredients};
use crate::conductor::lab_stage::LabStage;
use crate::conductor::placement::Placements;
use crate::conductor::standing;
use crate::exit::{Failure, calibration_code, run_code};
use crate::interrupt::{Interrupt, Urgency, signal_name};
use crate::output::Output;
use crate::preflight::{self, Ready};
use crate::progress::now;
use crate::provenance::host_facts;
use crate::sandboxed::{self, Side};
use crate::store::to_json;

/// The NIC of the guests that take part.
const NIC: &str = "virtio";

/// Calibrates, stores and reports.
pub fn execute(args: &CalibrateArgs, output: &Output) -> Result<ExitCode, Failure> {
    let scenario = scenario(args)?;
    // Without a guest the host's part is still worth having.
    let (ingredients, no_guest) = match preflight::check(scenario.clone(), &[]) {
        Ok(Ready { ingredients, .. }) => (ingredients, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    if let Some(reason) = &no_guest {
        output.warning(format_args!("no guest takes part: {reason}"));
    }
    match sandboxed::enter(output)? {
        Side::Outside(ended) => Ok(ExitCode::from(u8::try_from(ended.exit_code()).unwrap_or(1))),
        Side::Inside(sandbox) => {
            let wanted = Asked { args, scenario, ingredients, no_guest };
            inside(&sandbox, &wanted, output)
        }
    }
}

/// What is settled before the lab is made.
struct Asked<'a> {
    args: &'a CalibrateArgs,
    scenario: Scenario,
    ingredients: Vec<Ingredients>,
    /// Why no guest takes part.
    no_guest: Option<String>,
}

/// The lab that everything happens in, and what its guests are.
fn scenario(args: &CalibrateArgs) -> Result<Scenario> {
    let nic: NicModel = NIC.parse()?;
    Ok(Scenario {
        name: "calibrate".into(),
        question: "Is what is known read?".into(),
        reference: Vec::new(),
        testbed: Testbed::default(),
        guest: Guest { kernel: args.kernel.clone(), qemu: args.qemu.clone(), ..Guest::default() },
        workload: Workload::new(WorkloadKind::TcpStream),
        factors: Factors::of_nics(vec![nic]),
        scale: None,
        parts: Vec::new(),
        variants: Vec::new(),
        repeat: Repeat::default(),
    })
}

fn inside(sandbox: &Sandbox, asked: &Asked<'_>, output: &Output) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;
    sandbox.unblock_signals()?;
    match measure(sandbox, asked, &interrupt, output) {
        Ok(calibration) => conclude(&calibration, asked.args, output),
        Err(_) if interrupt.urgency() > Urgency::None => {
            output.note("interrupted: nothing is stored");
            let signal = interrupt.signal().map_or("a signal", signal_name).to_owned();
            Ok(run_code(&vioperf_model::record::RunEnding::Interrupted { signal }, true))
        }
        Err(error) => Err(Failure::Other(error)),
    }
}

/// Makes the lab and measures in it; when this returns the lab is gone.
fn measure(
    sandbox: &Sandbox,
    asked: &Asked<'_>,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<Calibration> {
    let plan = Plan::new(&asked.scenario, 0);
    let first = plan.cells.first().context("the plan has no cell")?;
    let standing = standing::bring_up(sandbox, first, None, interrupt)?;
    let guest = &asked.scenario.guest;
    let supply = GuestSupply::set_up(standing.lab(), &asked.ingredients, interrupt, output)?;
    let host = host_facts(Path::new("/"));
    let (hypervisor, _) = supply.facts(&plan);
    let machine = stored::machine(&host, hypervisor.as_ref());
    let nic = asked.scenario.factors.nic.as_slice().first().copied();
    let nic = nic.filter(|_| hypervisor.is_some());
    let stage = LabStage {
        sandbox,
        supply,
        placements: Placements::default(),
        cores: Cores::new(usable_cores(Path::new("/"))),
        undisturbed: true,
        reuse: guest.reuse,
        interrupt,
        watch: None,
        standing: Some(standing),
        burn: None,
        disk_files: DiskFiles::default(),
        guests_started: 0,
    };
    let quick = asked.args.quick;
    let mut bench = Bench { stage, guest: guest.clone(), nic, host, quick, output };
    let Findings { checks, mut left_out, noise_floor } = calibrate::measure(&mut bench)?;
    if let Some(reason) = &asked.no_guest {
        let what = "everything with a guest".to_owned();
        left_out.push(vioperf_model::record::LeftOut { what, reason: reason.clone() });
    }
    Ok(Calibration {
        schema_version: CALIBRATION_SCHEMA_VERSION,
        made_at: now(),
        quick,
        machine,
        checks,
        left_out,
        noise_floor,
    })
}

fn conclude(
    calibration: &Calibration,
    args: &CalibrateArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let text = match args.format {
        CalibrateFormat::Terminal => render::terminal(calibration),
        CalibrateFormat::Json => to_json(calibration)?,
        CalibrateFormat::Markdown => render::markdown(calibration),
    };
    match &args.out {
        Some(path) => std::fs::write(path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => output.result(&text)?,
    }
    match stored::store(calibration) {
        Ok(path) => output.note(format_args!(
            "stored in {}: reports of later runs on this machine cite it",
            path.display()
        )),
        Err(error) => output.warning(format_args!("the calibration is not stored: {error:#}")),
    }
    Ok(code(calibration))
}

fn code(calibration: &Calibration) -> ExitCode {
    calibration_code(failed(&calibration.checks).is_empty())
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::calibration::{Allowed, check};
    use vioperf_model::calibration::{Area, CalibratedMachine, CheckUnit, NoiseFloor};

    use super::*;

    #[test]
    fn one_reading_that_is_wrong_is_the_exit_code() {
        let counted = |reading: f64| {
            let exact = Allowed::exactly(4000.0);
            let checks = check(Area::Counts, "x", CheckUnit::Packets, 4000.0, &[reading], exact);
            let calibration = Calibration {
                schema_version: CALIBRATION_SCHEMA_VERSION,
                made_at: String::new(),
                quick: true,
                machine: CalibratedMachine {
                    vioperf_version: String::new(),
                    kernel_release: String::new(),
                    cpu_model: String::new(),
                    cores: 1,
                    qemu_version: None,
                    emulated: None,
                },
                checks: checks.into_iter().collect(),
                left_out: Vec::new(),
                noise_floor: NoiseFloor::default(),
            };
            format!("{:?}", code(&calibration))
        };
        assert_eq!(counted(4000.0), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(counted(3999.0), format!("{:?}", ExitCode::from(6)));
    }
}
