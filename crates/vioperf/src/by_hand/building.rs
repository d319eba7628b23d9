//! The testbed of one cell, made as a run makes it.

use anyhow::{Context, anyhow};
use vioperf_analysis::wording::count;
use vioperf_lab::initramfs::{ProgramError, Programs};
use vioperf_lab::placement::usable_cores;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::plan::{Cell, CellId, Plan};
use vioperf_model::record::{LeftOut, Place};
use vioperf_model::scenario::Scenario;

use std::path::Path;

use super::parts::{Description, Part};
use crate::cli::LabUpArgs;
use crate::conductor::core_speed::Cores;
use crate::conductor::disk_files::DiskFiles;
use crate::conductor::hypervisor::{GuestSupply, Ingredients};
use crate::conductor::lab_stage::LabStage;
use crate::conductor::placement::Placements;
use crate::conductor::standing::{self, Standing};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::preflight::{self, Ready};
use crate::prepare;

/// The most names of cells that a message lists.
const MOST_NAMED: usize = 12;

/// What a shell in a guest is, and much else.
const BUSYBOX: &str = "busybox";

/// Shows and sets what a NIC offloads.
const ETHTOOL: &str = "ethtool";

const NO_BUSYBOX: &str = "guests have no shell, as there is no busybox on this machine: install it (Debian and Ubuntu: \
                          busybox-static; elsewhere: busybox), then make the lab again";

/// What is settled before anything is touched.
pub struct Wanted {
    scenario: Scenario,
    plan: Plan,
    ingredients: Vec<Ingredients>,
    /// Why guests have no shell, if they have none.
    no_shells: Option<String>,
    /// The cell whose testbed it is.
    pub cell: Cell,
}

impl Wanted {
    /// Finds the scenario and the cell, and looks whether it can be had here.
    ///
    /// # Errors
    /// When it makes no sense, or this machine lacks something for it.
    pub fn check(args: &LabUpArgs) -> Result<Self, Failure> {
        let found = prepare::scenario(&args.scenario, &args.changes)?;
        let found = found.single().map_err(Failure::Usage)?;
        if let Some(server) = &found.scenario.testbed.server {
            return Err(Failure::Usage(anyhow!(
                "the scenario measures to {server}, a machine that is there without vioperf: there is no lab to stand. Go \
                 there by ssh, or by `virsh console` where libvirt looks after it"
            )));
        }
        let Ready { scenario, left_out, without, mut ingredients } =
            preflight::check(found.scenario, &[])?;
        let plan = prepare::plan(&scenario, &without);
        let cell = chosen(&plan, args.cell.as_deref(), &left_out)?.clone();
        ingredients.retain(|made| cell.guest.as_ref() == Some(&made.guest));
        let mut no_shells = None;
        if !ingredients.is_empty() {
            let programs = packed(&args.with).map_err(|error| Failure::Machine(error.into()))?;
            if !programs.has(BUSYBOX) {
                no_shells = Some(NO_BUSYBOX.to_owned());
            }
            ingredients.iter_mut().for_each(|made| made.programs = programs.clone());
        }
        Ok(Self { scenario, plan, ingredients, no_shells, cell })
    }

    /// What the lab is called where the user says nothing.
    pub fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Why guests have no shell, if they have none.
    pub fn why_no_shells(&self) -> Option<&str> {
        self.no_shells.as_deref()
    }

    /// Makes it, as far as a trial finds it before its load begins.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn build<'a>(
        &self,
        sandbox: &'a Sandbox,
        interrupt: &'a Interrupt,
        output: &Output,
    ) -> Result<LabStage<'a>, Failure> {
        let placements = Placements::new(&self.scenario, &self.plan);
        let placement = placements.of(&self.cell);
        let standing = standing::bring_up(sandbox, &self.cell, placement, interrupt)?;
        let supply = GuestSupply::set_up(standing.lab(), &self.ingredients, interrupt, output)?;
        let mut stage = LabStage {
            sandbox,
            supply,
            placements,
            cores: Cores::new(usable_cores(Path::new("/"))),
            undisturbed: false,
            reuse: self.scenario.guest.reuse,
            interrupt,
            watch: None,
            standing: Some(standing),
            burn: None,
            disk_files: DiskFiles::default(),
            guests_started: 0,
        };
        stage.make_ready(&self.cell).with_context(|| format!("the testbed of {}", self.cell.id))?;
        Ok(stage)
    }

    /// What stands, told to visitors.
    pub fn describe(&self, standing: &Standing, seconds_left: u64) -> Description {
        let testbed = &self.cell.testbed;
        Description {
            scenario: self.scenario.name.clone(),
            cell: self.cell.id.to_string(),
            switch: match testbed.of_host() {
                Some(interface) => format!("{} ({interface})", testbed.switch),
                None => testbed.switch.to_string(),
            },
            mtu: testbed.mtu,
            seconds_left,
            guests_have_shells: self.no_shells.is_none(),
            parts: parts_of(standing),
        }
    }
}

/// The programs that guests get: what a shell takes, what most looks begin with, and what the user asks for.
fn packed(wanted: &[String]) -> Result<Programs, ProgramError> {
    let mut programs = Programs::default();
    for program in [BUSYBOX, ETHTOOL] {
        match programs.add(program) {
            Ok(()) | Err(ProgramError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    wanted.iter().try_for_each(|program| programs.add(program))?;
    Ok(programs)
}

/// The parts of what stands.
pub fn parts_of(standing: &Standing) -> Vec<Part> {
    let guests = standing.guests().map(|(end, guest)| Part {
        place: end.place,
        interface: match &end.interface.driver {
            Some(driver) => Some(format!("{} ({driver})", end.interface.name)),
            None => Some(end.interface.name.clone()),
        },
        addresses: end.addresses.clone(),
        note: guest.path(),
    });
    let ends = standing.ends_on_host();
    let ends = ends.into_iter().map(|(end, _)| Part {
        place: end.place,
        interface: Some(end.interface.name.clone()),
        addresses: end.addresses.clone(),
        note: None,
    });
    let ports: Vec<String> =
        standing.guests().filter_map(|(_, guest)| guest.port().map(str::to_owned)).collect();
    let host = Part {
        place: Place::Host,
        interface: None,
        addresses: Vec::new(),
        note: match ports.as_slice() {
            [] => None,
            ports => Some(format!("{} {}", count(ports.len(), "port"), ports.join(" "))),
        },
    };
    guests.chain(ends).chain([host]).collect()
}

/// The cell of that name, or those whose names have `wanted` in them, if one testbed serves them all; by itself the first
/// with a guest.
fn chosen<'a>(
    plan: &'a Plan,
    wanted: Option<&str>,
    left_out: &[LeftOut],
) -> Result<&'a Cell, Failure> {
    let cells = &plan.cells;
    let Some(wanted) = wanted else {
        let first = cells.iter().find(|cell| !cell.is_baseline()).or(cells.first());
        return first.ok_or_else(|| Failure::Usage(anyhow!("the scenario has no cell")));
    };
    if let Some(cell) = plan.cell(&CellId(wanted.to_owned())) {
        return Ok(cell);
    }
    let mut similar: Vec<&Cell> = cells.iter().filter(|cell| cell.id.0.contains(wanted)).collect();
    if similar.iter().any(|cell| !cell.is_baseline()) {
        similar.retain(|cell| !cell.is_baseline());
    }
    if let [first, others @ ..] = similar.as_slice() {
        // What differs in its load alone has the same testbed.
        if others.iter().all(|other| first.shares_testbed_with(other)) {
            return Ok(first);
        }
    }
    let (what, named) = match similar.is_empty() {
        true => ("no cell is called", cells.iter().collect()),
        false => ("several cells are called", similar),
    };
    let mut names: Vec<&str> =
        named.iter().take(MOST_NAMED).map(|cell| cell.id.0.as_str()).collect();
    if named.len() > MOST_NAMED {
        names.push("…");
    }
    let left_out: Vec<String> =
        left_out.iter().map(|out| format!("\n{} is left out: {}", out.what, out.reason)).collect();
    Err(Failure::Usage(anyhow!(
        "{what} `{wanted}`; there is:\n  {}{}",
        names.join("\n  "),
        left_out.concat()
    )))
}

#[cfg(test)]
mod tests {
    use vioperf_model::scenario_file;

    use super::*;

    fn plan() -> Plan {
        let text = "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"tcp-stream\"\n\
                    [factors]\nnic = [\"virtio\", \"e1000\"]\nstreams = [1, 4]\n";
        Plan::new(&scenario_file::parse("s", text, &[]).unwrap(), 1)
    }

    #[test]
    fn by_itself_it_is_the_first_cell_with_a_guest() {
        let plan = plan();
        assert_eq!(chosen(&plan, None, &[]).unwrap().path_name(), "virtio");
        let whole = chosen(&plan, None, &[]).unwrap().id.to_string();
        assert_eq!(chosen(&plan, Some(&whole), &[]).unwrap().id.0, whole);
        assert_eq!(chosen(&plan, Some("e1000/4"), &[]).unwrap().path_name(), "e1000");
        // Its cells differ in their loads alone.
        assert_eq!(chosen(&plan, Some("e1000"), &[]).unwrap().path_name(), "e1000");
        assert!(chosen(&plan, Some("baseline/1"), &[]).unwrap().is_baseline());
    }

    #[test]
    fn what_is_not_clear_is_told_with_the_names() {
        let plan = plan();
        let several = chosen(&plan, Some("1-stream"), &[]).unwrap_err().to_string();
        let names = ["several", "virtio/1-stream", "e1000/1-stream"];
        assert!(names.iter().all(|name| several.contains(name)), "{several}");
        assert!(!several.contains("baseline"), "{several}");
        let out = LeftOut { what: "nic igb".into(), reason: "QEMU has none".into() };
        let none = chosen(&plan, Some("igb"), &[out]).unwrap_err().to_string();
        for word in ["no cell", "virtio/", "nic igb is left out: QEMU has none"] {
            assert!(none.contains(word), "no `{word}` in {none}");
        }
    }
}
