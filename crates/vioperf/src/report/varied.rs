//! What a run varies beside the NIC, whatever section of the scenario it is a key of.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;
use vioperf_model::record::RunInfo;

use super::text::clean;

/// A factor with its levels, in words.
#[derive(Debug)]
pub struct Varied {
    /// The key (`mtu`, `offloads.gro`).
    pub name: String,
    /// In the order of the plan.
    pub levels: Vec<String>,
    /// That of each cell; without those that have none.
    of: BTreeMap<CellId, String>,
}

impl Varied {
    /// The cell's level.
    pub fn level(&self, cell: &CellId) -> Option<&str> {
        self.of.get(cell).map(String::as_str)
    }

    /// A level as it is told among those of other factors (`streams 4`, but `to-guest`).
    pub fn told(&self, level: &str) -> String {
        let says_little = |level: &String| {
            level.starts_with(|c: char| c.is_ascii_digit())
                || ["on", "off", "default", "none", "one"].contains(&level.as_str())
        };
        let needs_name = self.levels.iter().any(says_little);
        if needs_name { format!("{} {level}", self.name) } else { level.to_owned() }
    }
}

/// Every factor of which more than one level is in the plan.
pub fn varied(run: &RunInfo) -> Vec<Varied> {
    let factors = run.scenario.factors.keys().iter().map(|factor| {
        let mut found =
            Varied { name: clean(&factor.path), levels: Vec::new(), of: BTreeMap::new() };
        for cell in &run.plan.cells {
            let Some(level) = cell.level_of(factor).map(|level| clean(&level)) else { continue };
            if !found.levels.contains(&level) {
                found.levels.push(level.clone());
            }
            found.of.insert(cell.id.clone(), level);
        }
        found
    });
    factors.filter(|factor| factor.levels.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn every_cell_has_the_levels_of_its_name() {
        let Synthetic { run, .. } = Synthetic::tcg();
        let factors = varied(&run);
        let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
        assert_eq!(names, ["direction", "streams"]);
        for cell in &run.plan.cells {
            let told: Vec<String> =
                factors.iter().map(|factor| factor.told(factor.level(&cell.id).unwrap())).collect();
            let streams = cell.workload.streams;
            assert_eq!(told, [cell.workload.direction.to_string(), format!("streams {streams}")]);
        }
    }
}
