//! From what is varied to cells.

use serde_json::{Map, Value};

use super::cell::path_name;
use super::{Cell, CellId, Level, VariantOf};
use crate::disk::DiskModel;
use crate::nic::NicModel;
use crate::scenario::{
    AS_IT_IS, Chain, Factor, Guest, IpVersion, Scenario, Testbed, USUAL, Variant,
};
use crate::section::{self, Section};
use crate::units::ByteSize;
use crate::workload::{Direction, Workload, WorkloadKind};

/// A section with one combination of the levels of its keys.
pub(crate) type Leveled<T> = (T, Vec<Level>);

/// Every combination of levels; what concerns the guest alone does not multiply baselines.
pub(crate) fn cells(scenario: &Scenario) -> Vec<Cell> {
    // A domain of libvirt is always in the path: what would be its baseline is another machine's.
    let is_domain = scenario.testbed.libvirt.is_some() && !scenario.factors.nic.is_empty();
    let without_guest = (!is_domain).then_some(Devices::default());
    let paths = without_guest.into_iter().chain(devices(scenario));
    let mut cells = Vec::new();
    for devices in paths {
        let has_guest = devices != Devices::default();
        let varies = has_guest || scenario.varies_baselines();
        for variant in if varies { scenario.variants_or_none() } else { vec![None] } {
            let workloads = combinations(scenario, scenario.workload_of(variant));
            let mut testbeds = combinations(scenario, scenario.testbed_of(variant));
            if !has_guest {
                testbeds = distinct(testbeds.iter().map(without_guests));
            }
            let guests = match has_guest {
                true => combinations(scenario, scenario.guest_of(variant)),
                false => vec![(scenario.guest.clone(), Vec::new())],
            };
            for guest in &guests {
                for testbed in &testbeds {
                    let path = Path { devices, variant, guest, testbed };
                    cells.extend(workloads.iter().map(|load| cell(scenario, path, load)));
                }
            }
        }
    }
    cells
}

/// A guest's devices under test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Devices {
    disk: Option<DiskModel>,
    nic: Option<NicModel>,
}

/// Every combination of models, where there is any.
fn devices(scenario: &Scenario) -> Vec<Devices> {
    fn or_none<T: Copy>(models: &[T]) -> Vec<Option<T>> {
        if models.is_empty() { vec![None] } else { models.iter().copied().map(Some).collect() }
    }
    let (disks, nics) = (&scenario.factors.disk, &scenario.factors.nic);
    let nics = or_none(nics.as_slice());
    let of_disk = |disk| nics.iter().map(move |nic| Devices { disk, nic: *nic });
    let all = or_none(disks.as_slice()).into_iter().flat_map(of_disk);
    all.filter(|devices| *devices != Devices::default()).collect()
}

/// A baseline's testbed: what of its levels is about guests alone does not multiply baselines.
fn without_guests((testbed, levels): &Leveled<Testbed>) -> Leveled<Testbed> {
    let is_kept = |level: &&Level| match level.factor.as_str() {
        "testbed.chain" | "testbed.neighbour" => false,
        "testbed.firewall_rules" => testbed.chain == Chain::None,
        _ => true,
    };
    (testbed.without_guests(), levels.iter().filter(is_kept).cloned().collect())
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = Leveled<T>>) -> Vec<Leveled<T>> {
    let mut kept: Vec<Leveled<T>> = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// The scenario's guest with every combination of the levels that are about it.
pub(crate) fn guests(scenario: &Scenario) -> Vec<Guest> {
    without_levels(combinations(scenario, scenario.guest.clone()))
}

/// The testbed of every variant with every combination of the levels that are about it.
pub(crate) fn testbeds(scenario: &Scenario) -> Vec<Testbed> {
    let variants = scenario.variants_or_none().into_iter();
    variants
        .flat_map(|own| without_levels(combinations(scenario, scenario.testbed_of(own))))
        .collect()
}

/// The workload of every variant with every combination of the levels that are about the load.
pub(crate) fn workloads(scenario: &Scenario) -> Vec<Workload> {
    let variants = scenario.variants_or_none().into_iter();
    variants
        .flat_map(|own| without_levels(combinations(scenario, scenario.workload_of(own))))
        .collect()
}

fn without_levels<T>(all: Vec<Leveled<T>>) -> Vec<T> {
    all.into_iter().map(|(section, _)| section).collect()
}

/// The section multiplied by the levels of all its keys that are varied.
fn combinations<T: Section>(scenario: &Scenario, base: T) -> Vec<Leveled<T>> {
    let mut all = vec![(base, Vec::new())];
    for factor in scenario.factors.of(T::NAME) {
        let names = names(factor);
        let levels = || factor.levels.iter().zip(&names);
        let multiplied = all.iter().flat_map(|(section, known): &Leveled<T>| {
            levels().map(|(value, name)| {
                let changed = with_level(section, &factor.path, value);
                let level = Level {
                    factor: factor.full_path(),
                    level: in_words(&changed, &factor.path, value),
                    name: name.clone(),
                };
                (changed, known.iter().cloned().chain([level]).collect())
            })
        });
        all = multiplied.collect();
    }
    all
}

fn names(factor: &Factor) -> Vec<String> {
    let spoken = factor.section.key(&factor.path).map(|key| key.spoken(&factor.path));
    section::level_names(spoken.as_deref().unwrap_or(&factor.path), &factor.levels)
}

/// The section with a key at that level.
fn with_level<T: Section>(base: &T, path: &str, level: &Value) -> T {
    if level.as_str() == Some(AS_IT_IS) {
        return base.clone();
    }
    let mut changes = Map::new();
    section::set(&mut changes, path, level.clone());
    // Every level was checked when it was read.
    base.changed(&changes).unwrap_or_else(|_| base.clone())
}

/// The level in the words of its own type (`1 MiB` for `1024 KiB`).
fn in_words<T: Section>(changed: &T, path: &str, level: &Value) -> String {
    let is_default = level.as_str() == Some(AS_IT_IS) || level.is_object();
    let whole = serde_json::to_value(changed).unwrap_or_default();
    let own = section::at(&whole, path).filter(|_| !is_default);
    section::in_words(own.unwrap_or(level))
}

/// What a load takes its way through.
#[derive(Clone, Copy)]
struct Path<'a> {
    devices: Devices,
    variant: Option<&'a Variant>,
    guest: &'a Leveled<Guest>,
    testbed: &'a Leveled<Testbed>,
}

fn cell(scenario: &Scenario, path: Path<'_>, load: &Leveled<Workload>) -> Cell {
    let Path { devices, variant, guest: (guest, of_guest), testbed: (testbed, of_testbed) } = path;
    let Devices { disk, nic } = devices;
    let (workload, of_load) = load;
    let workload = fitted(workload.clone(), testbed.ip);
    // Only what varies is part of the name; the path and the load's shape always are.
    let mut names = usual_of_testbed(scenario, testbed);
    names.extend(further(of_load).map(|level| level.name.clone()));
    names.extend(usual_of_load(scenario, &workload));
    let id = |path: &str, variant: Option<&Variant>, guest: &[Level], testbed: &[Level]| {
        let guest = guest.iter().map(|level| level.name.as_str());
        let variant = variant.map(|variant| variant.name.as_str());
        let testbed = further(testbed).map(|level| level.name.as_str());
        let words = [path].into_iter().chain(guest).chain(variant).chain(testbed);
        CellId(words.chain(names.iter().map(String::as_str)).collect::<Vec<_>>().join("/"))
    };
    let of_baseline = variant.filter(|_| scenario.varies_baselines());
    let (_, without_guests) = without_guests(path.testbed);
    let has_guest = devices != Devices::default();
    let in_lab = has_guest && testbed.server.is_none();
    let baseline = in_lab.then(|| id("baseline", of_baseline, &[], &without_guests));
    let elsewhere = testbed.server.as_deref().unwrap_or("baseline");
    let name = path_name(disk, nic);
    let name = name.as_deref().unwrap_or(elsewhere);
    let all = id(name, None, of_guest, of_testbed);
    let levels = [of_guest, of_testbed, of_load];
    Cell {
        id: id(name, variant, of_guest, of_testbed),
        nic,
        disk,
        testbed: testbed.clone(),
        guest: has_guest.then(|| guest.clone()),
        workload,
        baseline,
        variant: variant.map(|variant| VariantOf { name: variant.name.clone(), of: all }),
        levels: levels.into_iter().flat_map(|levels| further(levels)).cloned().collect(),
    }
}

/// Levels without a usual name.
fn further(levels: &[Level]) -> impl Iterator<Item = &Level> {
    let is_usual =
        |level: &Level| level.factor.split_once('.').is_some_and(|(_, path)| USUAL.contains(&path));
    levels.iter().filter(move |level| !is_usual(level))
}

fn usual_of_testbed(scenario: &Scenario, testbed: &Testbed) -> Vec<String> {
    let varies = |key| scenario.factors.levels(Testbed::NAME, key).len() > 1;
    let names = [
        ("switch", testbed.switch.to_string()),
        ("mtu", format!("mtu-{}", testbed.mtu)),
        ("ip", testbed.ip.to_string()),
    ];
    names.into_iter().filter(|(key, _)| varies(key)).map(|(_, name)| name).collect()
}

fn usual_of_load(scenario: &Scenario, workload: &Workload) -> Vec<String> {
    let is_varied = |key| !scenario.factors.levels(Workload::NAME, key).is_empty();
    let mut names = Vec::new();
    let mut add = |key, name: Option<String>| names.extend(name.filter(|_| is_varied(key)));
    add("transport", workload.transport.map(|level| level.to_string()));
    add("payload", Some(format!("{}-bytes", workload.payload_bytes())));
    add("receivers", workload.receivers.map(|level| level.to_string()));
    add("background", workload.background.map(|level| format!("beside-{level}")));
    let plural = if workload.streams == 1 { "" } else { "s" };
    if workload.kind == WorkloadKind::Disk {
        add("streams", Some(format!("{}-worker{plural}", workload.streams)));
        return names;
    }
    names.push(format!("{}-stream{plural}", workload.streams));
    names.push(match (&scenario.testbed.server, workload.direction) {
        (None, direction) => direction.to_string(),
        (Some(_), Direction::ToGuest) => "to".to_owned(),
        (Some(_), Direction::FromGuest) => "from".to_owned(),
        (Some(_), Direction::Both) => "both".to_owned(),
    });
    names
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
