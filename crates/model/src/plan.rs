//! The plan: the scenario expanded to cells, and the order in which they are measured.

mod cell;
mod cells;
mod order;

use std::collections::BTreeSet;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::{Reuse, Scenario};

pub use cell::{Cell, CellId, Level, VariantOf};
pub(crate) use cells::{cells, guests, testbeds, workloads};

/// The scenario expanded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Seed of the order.
    pub seed: u64,
    /// All cells, baselines first, in the scenario's order.
    pub cells: Vec<Cell>,
    /// The order of each block: indices into `cells`. With a goal, of every block that may be measured.
    pub blocks: Vec<Vec<usize>>,
}

/// What the parts of a run take, for the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Booting the guest that the snapshot is taken of, and taking it.
    pub first_boot: Duration,
    /// Until a further guest is ready, its NIC's carrier included.
    pub guest_ready: Duration,
    /// Setting up and collecting one trial.
    pub trial_overhead: Duration,
}

impl Costs {
    /// Typical costs under QEMU's software emulation.
    pub const TCG: Self = Self {
        first_boot: Duration::from_secs(8),
        guest_ready: Duration::from_millis(2_000),
        trial_overhead: Duration::from_millis(350),
    };

    /// Typical costs under KVM.
    pub const KVM: Self = Self {
        first_boot: Duration::from_secs(3),
        guest_ready: Duration::from_millis(1_000),
        trial_overhead: Duration::from_millis(200),
    };
}

impl Plan {
    /// Expands `scenario`; the order of every block follows from `seed` alone.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        Self::without(scenario, seed, &BTreeSet::new())
    }

    /// The same without some of the cells.
    pub fn without(scenario: &Scenario, seed: u64, left_out: &BTreeSet<CellId>) -> Self {
        let mut cells = cells(scenario);
        cells.retain(|cell| !left_out.contains(&cell.id));
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let groups = order::groups(&cells, scenario.guest.reuse.keeps_groups());
        let blocks = (0..scenario.repeat.blocks_at_most())
            .map(|_| order::of_block(&groups, &mut random))
            .collect();
        Self { seed, cells, blocks }
    }

    /// The number of trials, when none has to be repeated.
    pub fn trial_count(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// The cell of that name.
    pub fn cell(&self, id: &CellId) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == *id)
    }

    /// How many times a guest has to be made ready.
    pub fn guest_starts(&self, reuse: Reuse) -> usize {
        let starts = |block: &Vec<usize>| self.guest_starts_in(block, reuse);
        if reuse == Reuse::Run && self.has_one_lab() {
            return self.blocks.first().map_or(0, starts);
        }
        self.blocks.iter().map(starts).sum()
    }

    /// Whether one lab serves all cells, but for their guests; another lab has no guests yet.
    fn has_one_lab(&self) -> bool {
        self.cells.windows(2).all(|pair| pair[0].shares_lab_with(&pair[1]))
    }

    fn guest_starts_in(&self, block: &[usize], reuse: Reuse) -> usize {
        let cells: Vec<&Cell> = block.iter().filter_map(|&index| self.cells.get(index)).collect();
        let is_kept =
            |i: usize| reuse.keeps_groups() && i > 0 && cells[i].shares_testbed_with(cells[i - 1]);
        (0..cells.len()).filter(|&i| cells[i].has_guest() && !is_kept(i)).count()
    }

    /// How long the whole plan takes, when nothing goes wrong.
    pub fn estimate(&self, reuse: Reuse, costs: &Costs) -> Duration {
        let cells = self.blocks.iter().flatten().filter_map(|&index| self.cells.get(index));
        let trials = cells.map(|cell| {
            let workload = &cell.workload;
            workload.warmup.as_duration() + workload.duration.as_duration() + costs.trial_overhead
        });
        let guests = u32::try_from(self.guest_starts(reuse)).unwrap_or(u32::MAX);
        let (ready, boot) = match (reuse, guests) {
            (Reuse::None, _) => (costs.first_boot, Duration::ZERO),
            (_, 0) => (costs.guest_ready, Duration::ZERO),
            _ => (costs.guest_ready, costs.first_boot),
        };
        trials.sum::<Duration>() + ready.saturating_mul(guests) + boot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, Variant};
    use crate::scenario_file;
    use crate::section::SectionName;

    fn scenario(reuse: &str) -> Scenario {
        let text = format!(
            "name = \"s\"\nquestion = \"q\"\n[guest]\nreuse = \"{reuse}\"\n[workload]\n\
             kind = \"tcp-stream\"\n[factors]\nnic = [\"virtio\", \"e1000\", \"pcnet\"]\n\
             streams = [1, 4]\ndirection = [\"to-guest\", \"from-guest\"]\n"
        );
        scenario_file::parse("s", &text, &[]).unwrap()
    }

    #[test]
    fn every_guest_cell_has_its_baseline_in_the_plan() {
        let plan = Plan::new(&scenario("group"), 1);
        assert_eq!(plan.cells.len(), 4 + 12);
        for cell in plan.cells.iter().filter(|cell| !cell.is_baseline()) {
            let baseline = plan.cell(cell.baseline.as_ref().unwrap()).unwrap();
            assert!(baseline.is_baseline());
            assert_eq!(baseline.workload, cell.workload);
        }
    }

    #[test]
    fn protocols_are_told_apart_and_each_has_its_baseline() {
        let mut scenario = scenario("group");
        let factors = scenario.factors.vary(SectionName::Testbed, "ip", ["ipv4", "ipv6"]);
        scenario.factors = factors.unwrap();
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), 2 * (4 + 12));
        for cell in &plan.cells {
            let baseline = cell.baseline.as_ref().map(|id| plan.cell(id).unwrap());
            assert!(baseline.is_none_or(|baseline| baseline.testbed.ip == cell.testbed.ip));
            assert!(cell.id.0.contains(&cell.testbed.ip.to_string()), "{}", cell.id);
        }
    }

    #[test]
    fn datagrams_fit_into_the_packets_of_every_path() {
        let text = "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"udp-stream\"\n";
        let with = |set: &[&str]| {
            let set: Vec<_> = set.iter().map(|set| set.parse().unwrap()).collect();
            scenario_file::parse("s", text, &set)
        };
        let plan = Plan::new(&with(&["ip=ipv4,ipv6"]).unwrap(), 1);
        let payloads = plan.cells.iter().map(|cell| cell.workload.payload_bytes());
        assert_eq!(payloads.collect::<Vec<_>>(), [1470, 1450]);
        let message = with(&["ip=ipv6", "payload=1472 B"]).unwrap_err().to_string();
        assert!(message.contains("1452 B is the most over ipv6"), "{message}");
        assert!(with(&["payload=1472 B"]).is_ok());
        let message = with(&["ip=ipv6", "mtu=1279", "payload=18 B"]).unwrap_err().to_string();
        assert!(message.contains("1280"), "{message}");
    }

    #[test]
    fn every_block_holds_every_cell_once_and_the_seed_decides_the_order() {
        for reuse in ["group", "cell"] {
            let plan = Plan::new(&scenario(reuse), 7);
            for block in &plan.blocks {
                let mut sorted = block.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..plan.cells.len()).collect::<Vec<_>>());
            }
            assert_eq!(plan, Plan::new(&scenario(reuse), 7));
            assert_ne!(plan.blocks, Plan::new(&scenario(reuse), 8).blocks);
            assert_ne!(plan.blocks[0], plan.blocks[1]);
        }
    }

    fn with_variants(reuse: &str) -> Scenario {
        let mut scenario = scenario(reuse);
        let variant = |name: &str| Variant {
            name: name.to_owned(),
            guest: Changes::default(),
            testbed: Changes::default(),
            workload: Changes::default(),
        };
        scenario.variants = vec![variant("old"), variant("new")];
        scenario
    }

    #[test]
    fn a_variant_of_the_load_has_baselines_of_its_own() {
        let mut scenario = with_variants("group");
        scenario.variants[1].workload = Changes::of("warmup", "700 ms").unwrap();
        let plan = Plan::new(&scenario, 1);
        // As many baselines for each variant as there are for both where the load is one.
        assert_eq!(plan.cells.len(), 2 * (4 + 12));
        for cell in &plan.cells {
            let is_new = cell.variant_name().unwrap() == "new";
            let expected = if is_new { 700 } else { 500 };
            assert_eq!(
                cell.workload.warmup,
                crate::units::TimeSpan::from_millis(expected),
                "{}",
                cell.id
            );
            let Some(baseline) = &cell.baseline else { continue };
            assert_eq!(plan.cell(baseline).unwrap().variant_name(), cell.variant_name());
        }
    }

    #[test]
    fn variants_multiply_guests_and_share_their_baselines() {
        let mut scenario = with_variants("group");
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), 4 + 2 * 12);
        for cell in plan.cells.iter().filter(|cell| !cell.is_baseline()) {
            assert!(plan.cell(cell.baseline.as_ref().unwrap()).unwrap().variant.is_none());
            let name = cell.variant_name().unwrap();
            assert!(cell.id.0.contains(&format!("/{name}/")), "{}", cell.id);
        }
        scenario.variants[1].testbed = Changes::of("mtu", 9000).unwrap();
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), 2 * 4 + 2 * 12);
        for cell in plan.cells.iter().filter(|cell| !cell.is_baseline()) {
            let baseline = plan.cell(cell.baseline.as_ref().unwrap()).unwrap();
            let of = |cell: &Cell| (cell.testbed.mtu, cell.variant_name().map(str::to_owned));
            assert_eq!(of(baseline), of(cell));
        }
    }

    #[test]
    fn any_key_is_a_factor_and_only_the_testbeds_multiply_baselines() {
        let mut scenario = scenario("group");
        let ways = [
            (SectionName::Guest, "vcpus", vec![1.into(), 2.into()]),
            (SectionName::Guest, "offloads.gro", vec!["default".into(), false.into()]),
            (SectionName::Testbed, "placement", vec!["free".into(), "apart".into()]),
            (SectionName::Workload, "message_size", vec!["1 KiB".into(), "64 KiB".into()]),
        ];
        for (section, path, levels) in ways {
            let levels: Vec<serde_json::Value> = levels;
            scenario.factors = scenario.factors.clone().vary(section, path, levels).unwrap();
        }
        assert_eq!(scenario.contradictions(), []);
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), (4 + 12 * 4) * 2 * 2);
        let ids: std::collections::BTreeSet<_> = plan.cells.iter().map(|cell| &cell.id).collect();
        assert_eq!(ids.len(), plan.cells.len());
        let last = plan.cells.last().unwrap();
        let id = "pcnet/gro-off/2-vcpus/placement-apart/message_size-64KiB/4-streams/from-guest";
        assert_eq!(last.id.0, id);
        let guest = last.guest.as_ref().unwrap();
        assert_eq!((guest.vcpus, guest.offloads["gro"]), (Some(2), false));
        assert_eq!(last.guest_name().as_deref(), Some("gro-off/2-vcpus"));
        let baseline = plan.cell(last.baseline.as_ref().unwrap()).unwrap();
        let of = |cell: &Cell| (cell.testbed.clone(), cell.workload.clone());
        assert_eq!(of(baseline), of(last));
        assert_eq!(baseline.guest, None);
        let levels = |cell: &Cell| {
            scenario
                .factors
                .keys()
                .iter()
                .map(|factor| cell.level_of(factor))
                .collect::<Vec<Option<String>>>()
        };
        let told = |levels: &[Option<&str>]| {
            levels.iter().map(|level| level.map(str::to_owned)).collect::<Vec<_>>()
        };
        let of_load = [Some("from-guest"), Some("64 KiB"), Some("4")];
        let all =
            |guest: [Option<&'static str>; 2]| [&guest[..], &[Some("apart")], &of_load].concat();
        assert_eq!(levels(last), told(&all([Some("off"), Some("2")])));
        assert_eq!(levels(baseline), told(&all([None, None])));
        // Each guest of a block is started once for its loads: 3 NICs, 4 guests, 2 testbeds.
        assert_eq!(plan.guest_starts(Reuse::Group), 24 * plan.blocks.len());
        let stored = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
        let stored = serde_json::to_string(&scenario).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&stored).unwrap(), scenario);
    }

    #[test]
    fn variants_follow_each_other_and_each_comes_first() {
        for (reuse, loads) in [("group", 4), ("cell", 1), ("none", 1)] {
            let mut scenario = with_variants(reuse);
            scenario.repeat.blocks = 30;
            let plan = Plan::new(&scenario, 5);
            let mut first = std::collections::BTreeMap::new();
            for (block, order) in plan.blocks.iter().enumerate() {
                let cells: Vec<&Cell> = order.iter().map(|&index| &plan.cells[index]).collect();
                let mut at = 0;
                while at < cells.len() {
                    if cells[at].is_baseline() {
                        at += 1;
                        continue;
                    }
                    for load in at..at + loads {
                        let (a, b) = (cells[load], cells[load + loads]);
                        assert_eq!(a.id_of_all_variants(), b.id_of_all_variants());
                        assert_ne!(a.variant_name(), b.variant_name());
                        let firsts = first.entry(a.id_of_all_variants().clone());
                        firsts.or_insert_with(Vec::new).push((block, a.variant_name()));
                    }
                    at += 2 * loads;
                }
            }
            assert_eq!(first.len(), 12);
            for firsts in first.values() {
                let old = firsts.iter().filter(|(_, name)| *name == Some("old")).count();
                assert!((5..=25).contains(&old), "{firsts:?}");
            }
        }
    }

    #[test]
    fn a_group_keeps_together_what_one_guest_serves() {
        let plan = Plan::new(&scenario("group"), 3);
        assert_eq!(plan.guest_starts(Reuse::Group), 3 * plan.blocks.len());
        assert_eq!(plan.guest_starts(Reuse::Cell), 12 * plan.blocks.len());
        let estimate = plan.estimate(Reuse::Group, &Costs::TCG);
        assert!(estimate < plan.estimate(Reuse::Cell, &Costs::TCG));
        assert_eq!(Plan::new(&scenario("run"), 3).blocks, plan.blocks, "the same order");
        assert_eq!(plan.guest_starts(Reuse::Run), 3, "paused from block to block");
        assert!(plan.estimate(Reuse::Run, &Costs::TCG) < estimate);
    }
}
