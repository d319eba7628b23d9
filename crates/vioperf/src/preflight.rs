//! Asks for everything that is wrong before anything is touched.

mod cells;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;
use vioperf_lab::initramfs::{Programs, find_program};
use vioperf_lab::kernel::ModuleTree;
use vioperf_lab::preflight::{self, Check, Status};
use vioperf_lab::qemu::{Qemu, QemuError};
use vioperf_lab::switch::{self, Purpose};
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;
use vioperf_model::plan::{CellId, Plan};
use vioperf_model::record::LeftOut;
use vioperf_model::scenario::{AsyncIo, Chain, Guest, Scenario, SwitchKind};
use vioperf_model::section::{SectionName, in_words};
use vioperf_model::workload::WorkloadKind;

use crate::conductor::hypervisor::Ingredients;
use crate::exit::Failure;
use crate::guest_kernel;

use cells::{FIO, Lacking};

/// A scenario that can be run here.
#[derive(Debug)]
pub struct Ready {
    /// The scenario, without what cannot be had here.
    pub scenario: Scenario,
    /// What that is.
    pub left_out: Vec<LeftOut>,
    /// Cells that cannot be had here, though all their levels can.
    pub without: BTreeSet<CellId>,
    /// What guests are made from; nothing when the scenario needs none.
    pub ingredients: Vec<Ingredients>,
}

/// Checks that the scenario can be run here; block devices beside `overwritten` are not to be written to.
///
/// # Errors
/// [`Failure::Machine`] with all problems at once, each with what to do; [`Failure::Usage`] for what nobody has allowed.
pub fn check(mut scenario: Scenario, overwritten: &[String]) -> Result<Ready, Failure> {
    check_allowed(&scenario, overwritten)?;
    let mut left_out = Vec::new();
    let mut ingredients = Vec::new();
    if !scenario.factors.have_guests() {
        let mut problems = leave_out_switches(&mut scenario, Purpose::Baselines, &mut left_out);
        let cells = Plan::new(&scenario, 0).cells;
        let Lacking { cells: without, reasons } =
            Lacking::among(&cells, &scenario.guest, &[], Path::new("/"));
        if cells.iter().all(|cell| without.contains(&cell.id)) {
            problems.extend(reasons.iter().map(|out| format!("{}: {}", out.what, out.reason)));
        }
        left_out.extend(reasons);
        return match problems.is_empty() {
            true => Ok(Ready { scenario, left_out, without, ingredients }),
            false => Err(cannot_run(&problems)),
        };
    }
    let guests = guests_of(&scenario);
    let find = |guest: &Guest| Qemu::find(guest.qemu.as_deref().map(Path::new));
    let mut qemus: Vec<(Option<String>, Result<Qemu, QemuError>)> = Vec::new();
    for (_, guest) in &guests {
        if !qemus.iter().any(|(known, _)| *known == guest.qemu) {
            qemus.push((guest.qemu.clone(), find(guest)));
        }
    }
    let mut problems = leave_out_nics(&mut scenario, &qemus, &mut left_out);
    problems.extend(leave_out_disks(&mut scenario, &qemus, &mut left_out));
    let purpose = Purpose::Guests(qemus.iter().find_map(|(_, qemu)| qemu.as_ref().ok()));
    problems.extend(leave_out_switches(&mut scenario, purpose, &mut left_out));
    let (nics, disks) = (&scenario.factors.nic, &scenario.factors.disk);
    let models = Models { nics: nics.as_slice().to_vec(), disks: disks.as_slice().to_vec() };
    let mut unmade: Vec<(Guest, Vec<String>)> = Vec::new();
    let topologies = scenario.topologies();
    let wanted = Wanted {
        guests: topologies.iter().map(|one| one.guests()).max().unwrap_or(1),
        forwards: topologies.iter().any(|one| one.chain != Chain::None),
        fio: wants_fio(&scenario),
    };
    for (name, guest) in guests {
        let Some((_, qemu)) = qemus.iter().find(|(known, _)| *known == guest.qemu) else {
            continue;
        };
        match ingredients_of(name, guest.clone(), qemu, &models, wanted) {
            Ok(found) => ingredients.push(found),
            Err(found) => unmade.push((guest, found)),
        }
    }
    // A level of a factor is left out; a variant is what somebody wants to compare with.
    let is_level = !scenario.factors.of(SectionName::Guest).is_empty() && !ingredients.is_empty();
    if !is_level {
        for problem in unmade.drain(..).flat_map(|(_, found)| found) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    let unmade: Vec<(Guest, String)> =
        unmade.into_iter().map(|(guest, found)| (guest, found.join("; "))).collect();
    let cells = Plan::new(&scenario, 0).cells;
    let Lacking { cells: without, reasons } =
        Lacking::among(&cells, &scenario.guest, &unmade, Path::new("/"));
    if cells.iter().all(|cell| !cell.has_guest() || without.contains(&cell.id)) {
        let lacks = reasons.iter().map(|out| format!("{}: {}", out.what, out.reason));
        problems.extend(lacks.collect::<Vec<_>>());
    }
    // Nobody boots what no cell is left of.
    ingredients.retain(|own: &Ingredients| {
        let is_its = |cell: &&vioperf_model::plan::Cell| cell.guest.as_ref() == Some(&own.guest);
        cells.iter().filter(is_its).any(|cell| !without.contains(&cell.id))
    });
    left_out.extend(reasons);
    if problems.is_empty() {
        return Ok(Ready { scenario, left_out, without, ingredients });
    }
    Err(cannot_run(&problems))
}

/// Whether a guest has fio for its load, which is packed if there is one.
fn wants_fio(scenario: &Scenario) -> bool {
    let cells = Plan::new(scenario, 0).cells;
    let is_its = |cell: &vioperf_model::plan::Cell| {
        cell.has_guest() && cell.workload.is_by_fio() && cell.workload.unlike_fio().is_none()
    };
    cells.iter().any(is_its) && find_program(FIO).is_some()
}

/// What guests have beside the agent, with room for it in their memory.
fn programs_for(guest: &Guest, fio: bool) -> Result<Programs, String> {
    let mut programs = Programs::default();
    if fio {
        programs.add(FIO).map_err(|error| format!("no guest can have fio: {error}"))?;
    }
    // It is in memory twice while the kernel unpacks it, and half of the memory is what it may take.
    let needed = GUEST_WITHOUT_PROGRAMS + 2 * programs.size_bytes();
    if fio && guest.memory.as_bytes() < needed {
        return Err(format!(
            "fio and its libraries take {} MiB in a guest: give guest.memory at least {} MiB",
            programs.size_bytes() >> 20,
            needed.div_ceil(64 << 20) * 64
        ));
    }
    Ok(programs)
}

/// Bytes of memory that a guest needs where it has nothing but the agent.
const GUEST_WITHOUT_PROGRAMS: u64 = 128 << 20;

/// A block device is written to where the user has named it twice.
fn check_allowed(scenario: &Scenario, overwritten: &[String]) -> Result<(), Failure> {
    if scenario.workload.kind != WorkloadKind::Disk {
        return Ok(());
    }
    let cells = Plan::new(scenario, 0).cells;
    let mut devices = cells.iter().filter_map(|cell| cell.testbed.storage.block_device());
    match devices.find(|device| !overwritten.contains(device)) {
        None => Ok(()),
        Some(device) => Err(Failure::Usage(anyhow!(
            "what is on {device} would be lost: say --allow-overwrite {device} if it may"
        ))),
    }
}

/// Every kind of guest that the scenario has, and what it is called where there are several.
fn guests_of(scenario: &Scenario) -> Vec<(Option<String>, Guest)> {
    let mut guests: Vec<(Option<String>, Guest)> = Vec::new();
    for cell in Plan::new(scenario, 0).cells {
        let name = cell.guest_name();
        let guest = cell.guest.filter(|own| !guests.iter().any(|(_, known)| known == own));
        guests.extend(guest.map(|guest| (name, guest)));
    }
    guests
}

fn cannot_run(problems: &[String]) -> Failure {
    Failure::Machine(anyhow!(
        "this machine cannot run the scenario:\n  - {}",
        problems.join("\n  - ")
    ))
}

/// Leaves out the switches that cannot be had here, and says when none is left.
fn leave_out_switches(
    scenario: &mut Scenario,
    purpose: Purpose<'_>,
    left_out: &mut Vec<LeftOut>,
) -> Vec<String> {
    let cells = Plan::new(scenario, 0).cells;
    let lack = |kind: SwitchKind| {
        let of_kind = cells.iter().map(|cell| &cell.testbed).filter(|own| own.switch == kind);
        let mut interfaces: Vec<Option<&str>> = of_kind.map(|own| own.of_host()).collect();
        interfaces.dedup();
        let lack = |interface| switch::lacks(kind, Path::new("/"), interface, purpose);
        interfaces.into_iter().find_map(lack)
    };
    let levels = scenario.factors.levels(SectionName::Testbed, "switch");
    if levels.is_empty() {
        let only = scenario.testbed.switch;
        return lack(only).map(|lack| format!("switch {only}: {lack}")).into_iter().collect();
    }
    let mut reasons = Vec::new();
    scenario.factors.retain(SectionName::Testbed, "switch", |level| {
        let kind = level.as_str().and_then(|name| name.parse().ok());
        let lack = lack(kind.unwrap_or(scenario.testbed.switch));
        let what = format!("switch {}", in_words(level));
        reasons.extend(lack.as_ref().map(|lack| LeftOut { what, reason: lack.to_string() }));
        lack.is_none()
    });
    if !scenario.factors.levels(SectionName::Testbed, "switch").is_empty() {
        left_out.extend(reasons);
        return Vec::new();
    }
    let of = |out: LeftOut| format!("no switch is left: {}: {}", out.what, out.reason);
    reasons.into_iter().map(of).collect()
}

/// Leaves out the NIC models that any of the QEMUs has not, and says when none is left.
fn leave_out_nics(
    scenario: &mut Scenario,
    qemus: &[(Option<String>, Result<Qemu, QemuError>)],
    left_out: &mut Vec<LeftOut>,
) -> Vec<String> {
    if scenario.factors.nic.is_empty() {
        return Vec::new();
    }
    let known = left_out.len();
    scenario.factors.nic.retain(|&model| {
        let lacks = |qemu: &Qemu| qemu.require(model).err();
        let error = qemus.iter().find_map(|(_, qemu)| qemu.as_ref().ok().and_then(lacks));
        let what = format!("nic {model}");
        left_out.extend(error.as_ref().map(|e| LeftOut { what, reason: e.to_string() }));
        error.is_none()
    });
    if !scenario.factors.nic.is_empty() {
        return Vec::new();
    }
    vec![format!("no NIC model is left: {}", reasons(left_out.get(known..)))]
}

/// The same of disk models.
fn leave_out_disks(
    scenario: &mut Scenario,
    qemus: &[(Option<String>, Result<Qemu, QemuError>)],
    left_out: &mut Vec<LeftOut>,
) -> Vec<String> {
    if scenario.factors.disk.is_empty() {
        return Vec::new();
    }
    let known = left_out.len();
    scenario.factors.disk.retain(|&model| {
        let lacks = |qemu: &Qemu| qemu.require_disk(model).err();
        let error = qemus.iter().find_map(|(_, qemu)| qemu.as_ref().ok().and_then(lacks));
        let what = format!("disk {model}");
        left_out.extend(error.as_ref().map(|e| LeftOut { what, reason: e.to_string() }));
        error.is_none()
    });
    if !scenario.factors.disk.is_empty() {
        return Vec::new();
    }
    vec![format!("no disk model is left: {}", reasons(left_out.get(known..)))]
}

fn reasons(left_out: Option<&[LeftOut]>) -> String {
    let reasons = left_out.unwrap_or_default().iter().map(|out| out.reason.as_str());
    reasons.collect::<Vec<_>>().join("; ")
}

/// The models of a plan.
#[derive(Debug)]
struct Models {
    nics: Vec<NicModel>,
    disks: Vec<DiskModel>,
}

/// What is wanted of guests by who talks to whom.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// At the same time, at most.
    guests: u32,
    /// Whether one of them hands packets on.
    forwards: bool,
    /// Whether one of them has fio for its load.
    fio: bool,
}

/// What QEMU lacks for a way of reading and writing disks, in words.
fn lacks_async_io(qemu: &Qemu, wanted: AsyncIo) -> Option<String> {
    match qemu.has_async_io(wanted) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "QEMU {} was built without the asynchronous I/O {}: take drive.aio = \"threads\"",
            qemu.version,
            wanted.name()
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// What a guest is made from, or everything that is in the way.
fn ingredients_of(
    name: Option<String>,
    guest: Guest,
    qemu: &Result<Qemu, QemuError>,
    Models { nics, disks }: &Models,
    Wanted { guests, forwards, fio }: Wanted,
) -> Result<Ingredients, Vec<String>> {
    let memory_mib = (guest.memory.as_bytes() >> 20).saturating_mul(guests.into());
    let checks = preflight::all(Path::new("/"), qemu, (nics, disks), memory_mib);
    let failed = checks.into_iter().filter(|check| check.status == Status::Fail);
    let in_words = |Check { name, found, advice, .. }| match advice {
        Some(advice) => format!("{name}: {found}: {advice}"),
        None => format!("{name}: {found}"),
    };
    let mut problems: Vec<String> = failed.map(in_words).collect();
    let (image, modules) = (guest.kernel.as_deref(), guest.modules.as_deref());
    let kernel = guest_kernel::find(image, modules, nics, disks);
    if let Ok(qemu) = qemu {
        let wanted = || guest.device_options.keys().map(String::as_str);
        let lacking = nics.iter().filter_map(|&m| qemu.require_properties(m, wanted()).err());
        problems.extend(lacking.map(|error| error.to_string()));
        let unknown = guest.cpu.as_ref().and_then(|cpu| qemu.require_cpu(cpu).err());
        problems.extend(unknown.map(|error| error.to_string()));
        problems.extend(lacks_async_io(qemu, guest.drive.aio).filter(|_| !disks.is_empty()));
    }
    if let Ok(kernel) = &kernel {
        problems.extend(guest_kernel::lacks_to_forward(kernel).filter(|_| forwards));
        let of_disks = disks.iter().flat_map(|model| model.row().modules).copied();
        let drivers: Vec<&str> =
            nics.iter().map(|model| model.row().module).chain(of_disks).collect();
        let check = |(module, options): (&String, &String)| {
            let checked = |tree: ModuleTree| tree.check_options(&drivers, module, options);
            kernel.module_tree().and_then(checked).err()
        };
        let refused = guest.driver_options.iter().filter_map(check);
        problems.extend(refused.map(|error| error.to_string()));
    }
    let programs = programs_for(&guest, fio);
    problems.extend(programs.as_ref().err().cloned());
    match (qemu, kernel, programs) {
        (Ok(qemu), Ok(kernel), Ok(programs)) if problems.is_empty() => {
            let (qemu, models, disks) = (qemu.clone(), nics.clone(), disks.clone());
            Ok(Ingredients { qemu, kernel, models, disks, guest, forwards, name, programs })
        }
        (_, kernel, _) => {
            problems.extend(kernel.err().map(|error| format!("{error:#}")));
            Err(problems)
        }
    }
}
