//! Which cores the threads of each cell's lab are held to.

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_lab::placement::{apart, usable_cores};
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::{Guest, Placement, Scenario};

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

/// What a placement follows from: who decides, and how many virtual CPUs there are.
type Wanted = (Placement, u16);

impl Placements {
    /// What the scenario wants, on the cores that this process may use.
    pub fn new(scenario: &Scenario, plan: &Plan) -> Self {
        let cores = usable_cores(Path::new("/"));
        let mut placements = Self { cores, guest: scenario.guest.clone(), made: Vec::new() };
        for cell in &plan.cells {
            let wanted = placements.wanted(cell);
            let is_known = placements.made.iter().any(|(known, _)| *known == wanted);
            if wanted.0 != Placement::Free && !is_known {
                let cores = apart(&placements.cores, wanted.1);
                placements.made.push((wanted, cores));
            }
        }
        placements
    }

    fn wanted(&self, cell: &Cell) -> Wanted {
        let guest = cell.guest.as_ref().unwrap_or(&self.guest);
        (cell.testbed.placement, shape_of(guest).vcpus)
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
