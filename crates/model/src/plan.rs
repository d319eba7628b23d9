//! The plan: the scenario expanded to cells, and the order in which they are measured.

mod order;

use std::fmt;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::Levels;
use crate::nic::NicModel;
use crate::scenario::{IpVersion, Reuse, Scenario, SwitchKind, Variant};
use crate::units::{BitRate, ByteSize};
use crate::workload::{Direction, Workload, WorkloadKind};

/// The name of a cell: its levels, joined by slashes (`virtio/4-streams/to-guest`).
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CellId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One combination of factor levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its name, unique in the plan.
    pub id: CellId,
    /// The guest's NIC; absent for a baseline, which has no guest in its path.
    pub nic: Option<NicModel>,
    /// The switch.
    pub switch: SwitchKind,
    /// MTU of the path in bytes.
    pub mtu: u32,
    /// Rate that the path's link is held to each way; absent leaves it as fast as it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// What carries the load.
    #[serde(default)]
    pub ip: IpVersion,
    /// The load.
    pub workload: Workload,
    /// The baseline it is compared with; absent for a baseline.
    pub baseline: Option<CellId>,
    /// The variant; absent where there are none, and for a baseline that is the same for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantOf>,
    /// The machine at the other end, where the path is one between two machines and not a lab's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Which variant of which cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariantOf {
    /// The variant's name.
    pub name: String,
    /// What the cell would be called without variants.
    pub of: CellId,
}

impl Cell {
    /// Whether others are compared with it: a lab's path without a guest.
    pub fn is_baseline(&self) -> bool {
        self.nic.is_none() && self.server.is_none()
    }

    /// Whether one testbed, guest included, can serve both cells one after the other.
    pub fn shares_testbed_with(&self, other: &Self) -> bool {
        self.shares_lab_with(other)
            && self.nic == other.nic
            && self.variant_name() == other.variant_name()
    }

    /// Whether one lab can serve both, but for their guests.
    pub fn shares_lab_with(&self, other: &Self) -> bool {
        let of = |cell: &Self| (cell.switch, cell.mtu, cell.rate, cell.ip);
        of(self) == of(other)
    }

    /// The variant's name.
    pub fn variant_name(&self) -> Option<&str> {
        self.variant.as_ref().map(|variant| variant.name.as_str())
    }

    /// What the variants of a cell have in common: its name without the variant's.
    pub fn id_of_all_variants(&self) -> &CellId {
        self.variant.as_ref().map_or(&self.id, |variant| &variant.of)
    }

    /// What the cell's path is called in reports: the NIC model, the machine at the other end, or
    /// `baseline`.
    pub fn path_name(&self) -> &str {
        let lab = self.nic.map_or("baseline", NicModel::name);
        self.server.as_deref().unwrap_or(lab)
    }
}

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
        let cells = cells(scenario);
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
        (0..cells.len()).filter(|&i| cells[i].nic.is_some() && !is_kept(i)).count()
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

/// Every combination of levels; what concerns the guest alone does not multiply baselines.
pub(crate) fn cells(scenario: &Scenario) -> Vec<Cell> {
    let factors = &scenario.factors;
    let paths = std::iter::once(None).chain(factors.nic.as_slice().iter().copied().map(Some));
    let workloads = workloads(scenario);
    let mut cells = Vec::new();
    for nic in paths {
        let varies = nic.is_some() || scenario.varies_testbed();
        for variant in if varies { scenario.variants_or_none() } else { vec![None] } {
            let testbed = scenario.testbed_of(variant);
            for switch in factors.switch.or(testbed.switch) {
                for mtu in factors.mtu.or(testbed.mtu) {
                    for ip in factors.ip.or(testbed.ip) {
                        let path = Path { nic, variant, switch, mtu, rate: testbed.rate, ip };
                        let cell = |load: &Workload| cell(scenario, path, load.clone());
                        cells.extend(workloads.iter().map(cell));
                    }
                }
            }
        }
    }
    cells
}

/// The scenario's workload with every combination of the levels that are about the load.
pub(crate) fn workloads(scenario: &Scenario) -> Vec<Workload> {
    let factors = &scenario.factors;
    let mut all = vec![scenario.workload.clone()];
    vary(&mut all, &factors.transport, |workload, level| workload.transport = Some(level));
    vary(&mut all, &factors.payload, |workload, level| workload.payload = Some(level));
    vary(&mut all, &factors.receivers, |workload, level| workload.receivers = Some(level));
    vary(&mut all, &factors.background, |workload, level| workload.background = Some(level));
    vary(&mut all, &factors.streams, |workload, level| workload.streams = level);
    vary(&mut all, &factors.direction, |workload, level| workload.direction = level);
    all
}

/// Multiplies the workloads by a factor's levels, if it is varied.
fn vary<T: Clone>(all: &mut Vec<Workload>, levels: &Levels<T>, set: impl Fn(&mut Workload, T)) {
    if levels.is_empty() {
        return;
    }
    let with_level = |workload: &Workload, level: &T| {
        let mut workload = workload.clone();
        set(&mut workload, level.clone());
        workload
    };
    *all = all
        .iter()
        .flat_map(|workload| levels.as_slice().iter().map(|level| with_level(workload, level)))
        .collect();
}

/// What a load takes its way through.
#[derive(Clone, Copy)]
struct Path<'a> {
    nic: Option<NicModel>,
    variant: Option<&'a Variant>,
    switch: SwitchKind,
    mtu: u32,
    rate: Option<BitRate>,
    ip: IpVersion,
}

fn cell(scenario: &Scenario, path: Path<'_>, workload: Workload) -> Cell {
    let Path { nic, variant, switch, mtu, rate, ip } = path;
    let workload = fitted(workload, ip);
    let factors = &scenario.factors;
    // Only what varies is part of the name; the path and the load's shape always are.
    let mut levels = Vec::new();
    if factors.switch.as_slice().len() > 1 {
        levels.push(switch.to_string());
    }
    if factors.mtu.as_slice().len() > 1 {
        levels.push(format!("mtu-{mtu}"));
    }
    if factors.ip.as_slice().len() > 1 {
        levels.push(ip.to_string());
    }
    levels.extend(
        workload.transport.filter(|_| !factors.transport.is_empty()).map(|l| l.to_string()),
    );
    if !factors.payload.is_empty() {
        levels.push(format!("{}-bytes", workload.payload_bytes()));
    }
    levels.extend(
        workload.receivers.filter(|_| !factors.receivers.is_empty()).map(|l| l.to_string()),
    );
    if let Some(background) = workload.background.filter(|_| !factors.background.is_empty()) {
        levels.push(format!("beside-{background}"));
    }
    let plural = if workload.streams == 1 { "" } else { "s" };
    levels.push(format!("{}-stream{plural}", workload.streams));
    levels.push(match (&scenario.testbed.server, workload.direction) {
        (None, direction) => direction.to_string(),
        (Some(_), Direction::ToGuest) => "to".to_owned(),
        (Some(_), Direction::FromGuest) => "from".to_owned(),
        (Some(_), Direction::Both) => "both".to_owned(),
    });
    let levels = levels.join("/");
    let id = |path: &str, variant: Option<&Variant>| match variant {
        Some(variant) => CellId(format!("{path}/{}/{levels}", variant.name)),
        None => CellId(format!("{path}/{levels}")),
    };
    let of_baseline = variant.filter(|_| scenario.varies_testbed());
    let baseline = nic.map(|_| id("baseline", of_baseline));
    let server = scenario.testbed.server.clone();
    let path = server.as_deref().unwrap_or(nic.map_or("baseline", NicModel::name));
    let all = id(path, None);
    Cell {
        id: id(path, variant),
        nic,
        switch,
        mtu,
        rate,
        ip,
        workload,
        baseline,
        variant: variant.map(|variant| VariantOf { name: variant.name.clone(), of: all }),
        server,
    }
}

/// What is sent where nobody said how much: the longer header of IPv6 takes its room.
fn fitted(mut workload: Workload, ip: IpVersion) -> Workload {
    if workload.payload.is_none()
        && workload.kind == WorkloadKind::UdpStream
        && ip == IpVersion::Ipv6
    {
        let more = ip.header_bytes() - IpVersion::Ipv4.header_bytes();
        let payload = workload.payload_bytes() - u64::from(more);
        workload.payload = Some(ByteSize::from_bytes(payload));
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario_file;

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
        scenario.factors.ip = Levels::from(vec![IpVersion::Ipv4, IpVersion::Ipv6]);
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), 2 * (4 + 12));
        for cell in &plan.cells {
            let baseline = cell.baseline.as_ref().map(|id| plan.cell(id).unwrap());
            assert!(baseline.is_none_or(|baseline| baseline.ip == cell.ip));
            assert!(cell.id.0.contains(&cell.ip.to_string()), "{}", cell.id);
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
            guest: crate::scenario::GuestChanges::default(),
            testbed: crate::scenario::TestbedChanges::default(),
        };
        scenario.variants = vec![variant("old"), variant("new")];
        scenario
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
        scenario.variants[1].testbed.mtu = Some(9000);
        let plan = Plan::new(&scenario, 1);
        assert_eq!(plan.cells.len(), 2 * 4 + 2 * 12);
        for cell in plan.cells.iter().filter(|cell| !cell.is_baseline()) {
            let baseline = plan.cell(cell.baseline.as_ref().unwrap()).unwrap();
            assert_eq!((baseline.mtu, baseline.variant_name()), (cell.mtu, cell.variant_name()));
        }
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
        assert_eq!(Plan::new(&scenario("run"), 3), plan, "the same order");
        assert_eq!(plan.guest_starts(Reuse::Run), 3, "paused from block to block");
        assert!(plan.estimate(Reuse::Run, &Costs::TCG) < estimate);
    }
}
