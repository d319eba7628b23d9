//! A cell: one combination of factor levels.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disk::DiskModel;
use crate::nic::{NicKind, NicModel};
use crate::scenario::{Factor, Guest, Neighbour, Testbed};
use crate::section::{self, SectionName};
use crate::units::ByteSize;
use crate::workload::Workload;

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
    /// The guest's NIC; absent where no load goes over one, and for a baseline, which has no guest in its path.
    pub nic: Option<NicModel>,
    /// The guest's disk that is read and written; absent for loads of other kinds, and for a baseline, which has the
    /// host's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskModel>,
    /// What the path is made of.
    #[serde(flatten)]
    pub testbed: Testbed,
    /// The guest; absent for a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// The load.
    pub workload: Workload,
    /// The baseline it is compared with; absent for a baseline.
    pub baseline: Option<CellId>,
    /// The variant; absent where there are none, and for a baseline that is the same for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantOf>,
    /// The levels of keys of guest, testbed and workload that are varied, in the order of its name; but for
    /// the usual ones (switch, MTU, Internet protocol and the load's shape), which are part of every name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// The level of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The key that is varied (`guest.vcpus`).
    pub factor: String,
    /// Its value in words (`2`).
    pub level: String,
    /// What it is called in names of cells (`2-vcpus`).
    pub name: String,
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
        !self.has_guest() && self.testbed.server.is_none()
    }

    /// Whether there is a guest in its path.
    pub fn has_guest(&self) -> bool {
        self.nic.is_some() || self.disk.is_some()
    }

    /// The size of its guest's disk, where it has one.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.disk.map(|_| self.workload.file_size_bytes())
    }

    /// What kind of device the model under test is: the disk's, where one is read and written.
    pub fn device_kind(&self) -> Option<NicKind> {
        let of_nic = || self.nic.map(|nic| nic.row().kind);
        self.disk.map(|disk| disk.row().kind).or_else(of_nic)
    }

    /// Whether one testbed, guest included, can serve both cells one after the other.
    pub fn shares_testbed_with(&self, other: &Self) -> bool {
        self.shares_lab_with(other)
            && self.testbed.neighbour == other.testbed.neighbour
            && (self.nic, self.disk, &self.guest) == (other.nic, other.disk, &other.guest)
            && self.disk_bytes() == other.disk_bytes()
            && self.variant_name() == other.variant_name()
    }

    /// Whether one lab can serve both, but for their guests: its ends have their addresses from its beginning.
    pub fn shares_lab_with(&self, other: &Self) -> bool {
        let lab = |cell: &Self| {
            let testbed = Testbed { neighbour: Neighbour::None, ..cell.testbed.clone() };
            (testbed, cell.workload.addresses_per_end())
        };
        lab(self) == lab(other)
    }

    /// The variant's name.
    pub fn variant_name(&self) -> Option<&str> {
        self.variant.as_ref().map(|variant| variant.name.as_str())
    }

    /// What the variants of a cell have in common: its name without the variant's.
    pub fn id_of_all_variants(&self) -> &CellId {
        self.variant.as_ref().map_or(&self.id, |variant| &variant.of)
    }

    /// Levels of a section's keys.
    pub fn levels_of(&self, section: SectionName) -> impl Iterator<Item = &Level> {
        let is_of = move |level: &&Level| {
            level.factor.split_once('.').is_some_and(|(own, _)| own == section.name())
        };
        self.levels.iter().filter(is_of)
    }

    /// The level of a factor in words; absent where the factor is not the cell's, as a guest's is not a baseline's.
    pub fn level_of(&self, factor: &Factor) -> Option<String> {
        if !factor.is_usual() {
            let own = self.levels.iter().find(|level| level.factor == factor.full_path());
            return own.map(|level| level.level.clone());
        }
        let section = match factor.section {
            SectionName::Guest => serde_json::to_value(self.guest.as_ref()?),
            SectionName::Testbed => serde_json::to_value(&self.testbed),
            SectionName::Workload => serde_json::to_value(&self.workload),
        };
        section::at(&section.ok()?, &factor.path).map(section::in_words)
    }

    /// What the cell has of a key, in words: of the NIC (`nic`), the variant (`variant`), or a key of guest, testbed or
    /// workload by its own name, with its section where two have it (`workload.rate`). Absent where the cell has no such
    /// thing, as a baseline has nothing of a guest's.
    pub fn value_of(&self, key: &str) -> Option<String> {
        match key {
            "nic" => return Some(self.nic?.name().to_owned()),
            "variant" => return self.variant_name().map(str::to_owned),
            // What holds without it is another size for each kind of load.
            "payload" => {
                return Some(ByteSize::from_bytes(self.workload.payload_bytes()).to_string());
            }
            _ => {}
        }
        let Some((section, path)) = place_of(key) else {
            // What is chosen as a NIC is.
            let cell = serde_json::to_value(self).ok()?;
            return cell.get(key)?.as_str().map(str::to_owned);
        };
        let table = match section {
            SectionName::Guest => serde_json::to_value(self.guest.as_ref()?),
            SectionName::Testbed => serde_json::to_value(&self.testbed),
            SectionName::Workload => serde_json::to_value(&self.workload),
        };
        match section::at(&table.ok()?, path) {
            Some(value) => Some(section::in_words(value)),
            None => section.key(path)?.absent(),
        }
    }

    /// The cell without some of its keys, named as for [`Cell::value_of`], and without names: what two cells that differ
    /// in nothing else have in common.
    pub fn without(&self, keys: &[&str]) -> Value {
        let mut cell = serde_json::to_value(self).unwrap_or_default();
        for name in ["id", "baseline", "levels", "variant"] {
            remove(&mut cell, name);
        }
        if let Some(variant) = self.variant_name().filter(|_| !keys.contains(&"variant")) {
            cell["variant"] = Value::from(variant);
        }
        for key in keys {
            match place_of(key) {
                Some((SectionName::Testbed, path)) => remove(&mut cell, path),
                Some((section, path)) => remove(&mut cell, &format!("{}.{path}", section.name())),
                None => remove(&mut cell, key),
            }
        }
        cell
    }

    /// What the cell's guest is called among those of the run: by its levels and its variant; nothing where
    /// all are alike.
    pub fn guest_name(&self) -> Option<String> {
        let variant = self.variant_name().map(str::to_owned);
        let words: Vec<String> = self.guest_levels().into_iter().chain(variant).collect();
        (!words.is_empty()).then(|| words.join("/"))
    }

    /// As [`Cell::guest_name`], without the variant.
    pub fn guest_levels(&self) -> Option<String> {
        let levels = self.levels_of(SectionName::Guest);
        let words: Vec<&str> = levels.map(|level| level.name.as_str()).collect();
        (!words.is_empty()).then(|| words.join("/"))
    }

    /// What the cell's guest and testbed are called among those of the run, as [`Cell::guest_name`].
    pub fn kind_name(&self) -> Option<String> {
        let of = |section| self.levels_of(section).map(|level| level.name.as_str());
        let levels = of(SectionName::Guest).chain(of(SectionName::Testbed));
        let words: Vec<&str> = levels.chain(self.variant_name()).collect();
        (!words.is_empty()).then(|| words.join("/"))
    }

    /// What the cell's path is called in reports: the models of its devices, else the machine at the other end, else
    /// `baseline`.
    pub fn path_name(&self) -> Cow<'_, str> {
        let elsewhere = self.testbed.server.as_deref().unwrap_or("baseline");
        path_name(self.disk, self.nic).unwrap_or(Cow::Borrowed(elsewhere))
    }
}

/// What a path through these devices of a guest is called; nothing where there is none.
pub(super) fn path_name(
    disk: Option<DiskModel>,
    nic: Option<NicModel>,
) -> Option<Cow<'static, str>> {
    match (disk, nic) {
        (None, None) => None,
        (Some(disk), None) => Some(Cow::Borrowed(disk.row().name)),
        (None, Some(nic)) => Some(Cow::Borrowed(nic.row().name)),
        (Some(disk), Some(nic)) => Some(Cow::Owned(format!("{disk}+{nic}"))),
    }
}

/// The section that a key is of, and its path in there.
fn place_of(key: &str) -> Option<(SectionName, &str)> {
    let named = key
        .split_once('.')
        .and_then(|(section, path)| SectionName::named(section).map(|section| (section, path)));
    named.or_else(|| section::sections_with(key).first().map(|section| (*section, key)))
}

/// Takes out what stands at a dotted path.
fn remove(table: &mut Value, path: &str) {
    match path.split_once('.') {
        Some((outer, inner)) => table.get_mut(outer).into_iter().for_each(|t| remove(t, inner)),
        None => drop(table.as_object_mut().and_then(|table| table.remove(path))),
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::scenario_file;

    #[test]
    fn a_cell_tells_what_it_has_of_a_key() {
        let text = "name = \"a\"\nquestion = \"?\"\n[testbed]\nmtu = 9000\n[guest]\nvcpus = 2\n[workload]\nkind = \
                    \"packet-rate\"\n[factors]\nnic = [\"e1000\"]\nstreams = [4]\n";
        let plan = Plan::new(&scenario_file::parse("a", text, &[]).unwrap(), 1);
        let has = |is_baseline: bool, key: &str| {
            let cell = plan.cells.iter().find(|cell| cell.is_baseline() == is_baseline).unwrap();
            cell.value_of(key)
        };
        let expected = [
            ("nic", Some("e1000")),
            ("streams", Some("4")),
            ("mtu", Some("9000")),
            ("vcpus", Some("2")),
            ("guest.vcpus", Some("2")),
            ("payload", Some("18 B")),
            ("far_end", Some("remote")),
            ("placement", Some("free")),
            ("destination_addresses", Some("1")),
            ("direction", Some("to-guest")),
            ("variant", None),
            ("bogus", None),
        ];
        for (key, value) in expected {
            assert_eq!(has(false, key).as_deref(), value, "{key}");
        }
        assert_eq!((has(true, "nic"), has(true, "vcpus")), (None, None));
        assert_eq!(has(true, "streams").as_deref(), Some("4"));
    }

    #[test]
    fn ends_with_other_numbers_of_addresses_are_of_other_labs() {
        let text = "name = \"a\"\nquestion = \"?\"\n[workload]\nkind = \"packet-rate\"\nstreams = 4\n[factors]\ndestination_addresses \
                    = [1, 4]\nthreads = [1, 2]\n";
        let plan = Plan::new(&scenario_file::parse("a", text, &[]).unwrap(), 1);
        assert_eq!(plan.cells.len(), 4);
        for (one, other) in
            plan.cells.iter().flat_map(|one| plan.cells.iter().map(move |o| (one, o)))
        {
            let of = |cell: &super::Cell| cell.workload.destination_addresses.unwrap_or(1);
            assert_eq!(one.shares_lab_with(other), of(one) == of(other));
        }
    }

    #[test]
    fn cells_that_differ_in_a_key_alone_are_the_same_without_it() {
        let text = "name = \"a\"\nquestion = \"?\"\n[workload]\nkind = \"tcp-stream\"\n[factors]\nnic = [\"e1000\", \
                    \"virtio\"]\nstreams = [1, 4]\nmtu = [1500, 9000]\n";
        let plan = Plan::new(&scenario_file::parse("a", text, &[]).unwrap(), 1);
        let kinds = |keys: &[&str]| {
            let mut kinds: Vec<String> = plan
                .cells
                .iter()
                .filter(|cell| !cell.is_baseline())
                .map(|cell| cell.without(keys).to_string())
                .collect();
            kinds.sort();
            kinds.dedup();
            kinds.len()
        };
        assert_eq!(kinds(&[]), 8);
        assert_eq!(kinds(&["nic"]), 4);
        assert_eq!(kinds(&["nic", "streams"]), 2);
        assert_eq!(kinds(&["nic", "streams", "testbed.mtu"]), 1);
    }
}
