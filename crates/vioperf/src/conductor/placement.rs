//! Which cores the threads of each variant's lab are held to.

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_lab::placement::{apart, usable_cores};
use vioperf_model::plan::Cell;
use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::{Placement, Scenario, Variant};

use super::hypervisor::{ByVariant, shape_of};

/// The cores for each variant, and for what all variants share; nothing for those that the scheduler is
/// free to place.
#[derive(Debug, Clone, Default)]
pub struct Placements {
    by_variant: ByVariant<CorePlacement>,
}

impl Placements {
    /// What the scenario wants, on the cores that this process may use.
    pub fn new(scenario: &Scenario) -> Self {
        let cores = usable_cores(Path::new("/"));
        let place = |variant: Option<&Variant>| match scenario.testbed_of(variant).placement {
            Placement::Free => None,
            Placement::Apart => Some(apart(&cores, shape_of(&scenario.guest_of(variant)).vcpus)),
        };
        let named = scenario.variants.iter().map(Some).chain([None]);
        let by_variant = named.filter_map(|variant| {
            Some((variant.map(|variant| variant.name.clone()), place(variant)?))
        });
        Self { by_variant: by_variant.collect() }
    }

    /// The cores for a cell's lab.
    pub fn of(&self, cell: &Cell) -> Option<&CorePlacement> {
        self.by_variant.get(&cell.variant_name().map(str::to_owned))
    }

    /// For the run's provenance: what all share, and what each variant has.
    pub fn facts(&self) -> (Option<CorePlacement>, BTreeMap<String, CorePlacement>) {
        let named = self.by_variant.iter();
        let named = named.filter_map(|(name, cores)| Some((name.clone()?, cores.clone())));
        (self.by_variant.get(&None).cloned(), named.collect())
    }
}
