//! Which cores the threads of each cell's lab are held to.

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_lab::placement::{apart, exclusive, usable_cores};
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::{Guest, Placement, Scenario, ThreadCores};

use super::hypervisor::shape_of;

/// What is placed, and where: nothing for what the scheduler is free to place.
#[derive(Debug, Clone, Default)]
pub struct Placements {
    cores: Vec<u16>,
    /// The guest that a baseline's second namespace stands for.
    guest: Guest,
    /// Every placement of the plan, by what it follows from.
    made: Vec<(Wanted, CorePlacement)>,
}

/// What a placement follows from: who decides, how many virtual CPUs there are, and what was given.
type Wanted = (Placement, u16, ThreadCores);

impl Placements {
    /// What the scenario wants, on the cores that this process may use.
    pub fn new(scenario: &Scenario, plan: &Plan) -> Self {
        let cores = usable_cores(Path::new("/"));
        let mut placements = Self { cores, guest: scenario.guest.clone(), made: Vec::new() };
        for cell in &plan.cells {
            let wanted = placements.wanted(cell);
            let is_known = placements.made.iter().any(|(known, _)| *known == wanted);
            let made = match wanted.0 {
                _ if is_known => None,
                Placement::Free => None,
                Placement::Apart => Some(apart(&placements.cores, wanted.1)),
                // Where there are too few, preflight has left the cell out.
                Placement::Exclusive => exclusive(&placements.cores, wanted.1),
            };
            if let Some(made) = made {
                let made = with_given(made, &wanted.2);
                placements.made.push((wanted, made));
            }
        }
        placements
    }

    fn wanted(&self, cell: &Cell) -> Wanted {
        let guest = cell.guest.as_ref().unwrap_or(&self.guest);
        (cell.testbed.placement, shape_of(guest).vcpus, cell.testbed.cores.clone())
    }

    /// The cores for a cell's lab.
    pub fn of(&self, cell: &Cell) -> Option<&CorePlacement> {
        let wanted = self.wanted(cell);
        self.made.iter().find(|(known, _)| *known == wanted).map(|(_, cores)| cores)
    }

    /// For the run's provenance: what the first cell has, and what each kind of cell has that is called
    /// otherwise.
    pub fn facts(&self, plan: &Plan) -> (Option<CorePlacement>, BTreeMap<String, CorePlacement>) {
        let first = plan.cells.first().and_then(|cell| self.of(cell));
        let named =
            plan.cells.iter().filter_map(|cell| Some((cell.kind_name()?, self.of(cell)?.clone())));
        (first.cloned(), named.collect())
    }
}

/// What the scenario gives takes the place of what was chosen.
fn with_given(chosen: CorePlacement, given: &ThreadCores) -> CorePlacement {
    let or = |given: &Vec<u16>, chosen: Vec<u16>| {
        if given.is_empty() { chosen } else { given.clone() }
    };
    CorePlacement {
        near: or(&given.vcpus, chosen.near),
        others: or(&given.others, chosen.others),
        vhost: given.vhost.clone(),
        io: given.io.clone(),
        nodes: given.nodes.clone(),
        exclusive: chosen.exclusive,
    }
}
