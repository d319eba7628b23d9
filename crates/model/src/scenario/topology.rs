//! Who talks to whom, and what is between them and beside them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scenario, StorageKind, Testbed};
use crate::workload::Workload;

/// Where the far end of every load is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FarEnd {
    /// In a network namespace behind the switch, as another machine would be.
    #[default]
    Remote,
    /// On the host itself, at an address that the switch has there.
    Host,
    /// In a second guest on the same switch, with a NIC of the same model.
    Guest,
}

impl fmt::Display for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Remote => "remote",
            Self::Host => "host",
            Self::Guest => "guest",
        })
    }
}

/// What stands between the switch and the far end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Nothing.
    #[default]
    None,
    /// A guest with two NICs that bridges them.
    Bridge,
    /// A guest with two NICs that forwards packets from one network to the other.
    Router,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Bridge => "bridge",
            Self::Router => "router",
        })
    }
}

/// What else runs beside the guest under test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    /// No other guest.
    #[default]
    None,
    /// A guest of the same shape that does nothing, on the same switch, or with a disk of the same model whose bytes are of
    /// its own.
    Idle,
    /// The same, and while the load runs it keeps all its virtual CPUs busy; beside the load of a disk its own disk, with
    /// the same load.
    Busy,
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Idle => "idle",
            Self::Busy => "busy",
        })
    }
}

/// Rules are loaded in steps of a few hundred; more than that nobody writes into one chain.
const MOST_RULES: u32 = 20_000;

/// The ends of a path and what is between them, as one cell has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topology {
    /// Where the far end is.
    #[serde(skip_serializing_if = "super::variants::is_default")]
    pub far_end: FarEnd,
    /// What stands between the switch and the far end.
    #[serde(skip_serializing_if = "super::variants::is_default")]
    pub chain: Chain,
    /// Rules of a packet filter that every packet is held against in between: in the guest of the
    /// chain, or where there is none on the host's switch.
    #[serde(skip_serializing_if = "super::variants::is_default")]
    pub firewall_rules: u32,
    /// What else runs on the host.
    #[serde(skip_serializing_if = "super::variants::is_default")]
    pub neighbour: Neighbour,
}

impl Topology {
    /// Rules that stand on the host's own switch.
    pub fn rules_of_switch(self) -> u32 {
        if self.chain == Chain::None { self.firewall_rules } else { 0 }
    }

    /// Rules that stand in the guest of the chain.
    pub fn rules_of_forwarder(self) -> u32 {
        if self.chain == Chain::None { 0 } else { self.firewall_rules }
    }

    /// How many guests run at the same time, the one under test included.
    pub fn guests(self) -> u32 {
        1 + u32::from(self.far_end == FarEnd::Guest)
            + u32::from(self.chain != Chain::None)
            + u32::from(self.neighbour != Neighbour::None)
    }
}

impl fmt::Display for Topology {
    /// What is otherwise than in the plainest one, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.far_end != FarEnd::default() {
            parts.push(format!("far end {}", self.far_end));
        }
        if self.chain != Chain::default() {
            parts.push(format!("chain {}", self.chain));
        }
        if self.firewall_rules > 0 {
            parts.push(format!("{} firewall rules", self.firewall_rules));
        }
        if self.neighbour != Neighbour::default() {
            parts.push(format!("{} neighbour", self.neighbour));
        }
        f.pad(&parts.join(", "))
    }
}

impl Testbed {
    /// Who talks to whom.
    pub fn topology(&self) -> Topology {
        let Self { far_end, chain, firewall_rules, neighbour, .. } = *self;
        Topology { far_end, chain, firewall_rules, neighbour }
    }

    /// What the baseline has of it, in which no guest is: nothing in between, nobody beside, and of the
    /// rules those of the host.
    #[must_use]
    pub fn without_guests(&self) -> Self {
        Self {
            chain: Chain::None,
            neighbour: Neighbour::None,
            firewall_rules: self.topology().rules_of_switch(),
            ..self.clone()
        }
    }
}

impl Scenario {
    /// Every topology that a cell has.
    pub fn topologies(&self) -> Vec<Topology> {
        crate::plan::testbeds(self).iter().map(Testbed::topology).collect()
    }

    pub(super) fn check_topology(&self, check: &mut impl FnMut(bool, &str, String)) {
        let all = crate::plan::testbeds(self);
        let has = |wanted: &dyn Fn(&Testbed) -> bool| all.iter().any(wanted);
        let of_guests = [
            ("testbed.far_end", has(&|one| one.far_end == FarEnd::Guest)),
            ("testbed.chain", has(&|one| one.chain != Chain::None)),
            ("testbed.neighbour", has(&|one| one.neighbour != Neighbour::None)),
        ];
        let of_lab = [
            ("testbed.far_end", has(&|one| one.far_end != FarEnd::Remote)),
            ("testbed.firewall_rules", has(&|one| one.firewall_rules > 0)),
        ];
        let between_machines = self.testbed.server.is_some();
        for (key, is_asked) in of_guests.into_iter().chain(of_lab) {
            let message = "between two machines the path is what it is: leave it out";
            check(is_asked && between_machines, &self.written_at(key), message.into());
        }
        for (key, is_asked) in of_guests {
            // Two guests share the host also where they have no network.
            let (is_there, message) = match key {
                "testbed.neighbour" => (
                    self.factors.have_guests(),
                    "there is no guest that it could be beside: give factors.nic or factors.disk",
                ),
                _ => (
                    !self.factors.nic.is_empty(),
                    "without a NIC model no load goes between guests: give factors.nic",
                ),
            };
            check(
                is_asked && !is_there && !between_machines,
                &self.written_at(key),
                message.into(),
            );
        }
        check(
            has(&|one| one.neighbour != Neighbour::None && one.storage.kind == StorageKind::Device)
                && !self.factors.disk.is_empty(),
            &self.written_at("testbed.neighbour"),
            "the block device is the one guest's: a neighbour's disk takes storage.kind = \"file\" or \"tmpfs\"".into(),
        );
        check(
            has(&|one| one.firewall_rules > MOST_RULES),
            &self.written_at("testbed.firewall_rules"),
            format!("{MOST_RULES} rules are the most"),
        );
        check(
            has(&|one| one.rate.is_some() && one.far_end != FarEnd::Remote),
            &self.written_at("testbed.rate"),
            "the rate is that of the link to the peer: it takes far_end = \"remote\"".into(),
        );
        let spreads = |load: &Workload| {
            let ends = [load.source_addresses, load.destination_addresses];
            ends.into_iter().flatten().any(|addresses| addresses > 1)
        };
        check(
            has(&|one| one.chain == Chain::Router)
                && crate::plan::workloads(self).iter().any(spreads),
            &self.written_at("testbed.chain"),
            "through a router each end has one address: leave out source_addresses and destination_addresses"
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::scenario_file::parse;

    fn plan(factors: &str) -> Plan {
        let text = format!(
            "name = \"t\"\nquestion = \"?\"\n[workload]\nkind = \"tcp-stream\"\n\
             [factors]\nnic = \"virtio\"\n{factors}"
        );
        Plan::new(&parse("t.toml", &text, &[]).unwrap(), 1)
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.cells.iter().map(|cell| cell.id.0.as_str()).collect()
    }

    #[test]
    fn each_far_end_has_its_baseline() {
        let plan = plan("far_end = [\"remote\", \"host\", \"guest\"]");
        assert_eq!(plan.cells.len(), 6);
        for cell in plan.cells.iter().filter(|cell| !cell.is_baseline()) {
            let baseline = plan.cell(cell.baseline.as_ref().unwrap()).unwrap();
            assert_eq!(baseline.testbed.far_end, cell.testbed.far_end);
        }
    }

    #[test]
    fn what_is_a_guests_does_not_multiply_baselines() {
        let plan = plan("neighbour = [\"none\", \"idle\", \"busy\"]");
        assert_eq!(
            ids(&plan),
            [
                "baseline/1-stream/to-guest",
                "virtio/neighbour-none/1-stream/to-guest",
                "virtio/neighbour-idle/1-stream/to-guest",
                "virtio/neighbour-busy/1-stream/to-guest",
            ]
        );
        let baseline = &plan.cells[0].id;
        assert!(plan.cells[1..].iter().all(|cell| cell.baseline.as_ref() == Some(baseline)));
    }

    #[test]
    fn a_disk_has_a_neighbour_without_a_network() {
        let text = |testbed: &str| {
            format!(
                "name = \"t\"\nquestion = \"?\"\n[testbed]\n{testbed}\n[workload]\nkind = \"disk\"\n[factors]\n\
                 disk = \"ide\"\nneighbour = [\"none\", \"busy\"]\n"
            )
        };
        let plan = Plan::new(&parse("t.toml", &text(""), &[]).unwrap(), 1);
        assert_eq!(ids(&plan), ["baseline", "ide/neighbour-none", "ide/neighbour-busy"]);
        let refused = |testbed: &str| parse("t.toml", &text(testbed), &[]).unwrap_err().to_string();
        assert!(refused("far_end = \"guest\"").contains("factors.nic"));
        let device = "storage = { kind = \"device\", device = \"/dev/vdx\" }";
        assert!(refused(device).contains("tmpfs"), "{}", refused(device));
    }

    #[test]
    fn rules_are_the_baselines_too_where_the_host_has_them() {
        let on_switch = plan("firewall_rules = [0, 100]");
        assert_eq!(
            ids(&on_switch)[..2],
            [
                "baseline/0-firewall_rules/1-stream/to-guest",
                "baseline/100-firewall_rules/1-stream/to-guest"
            ]
        );
        let in_guest = plan("firewall_rules = [0, 100]\nchain = \"router\"");
        assert_eq!(ids(&in_guest)[0], "baseline/1-stream/to-guest");
        assert_eq!(in_guest.cells.len(), 3);
        let both = plan("firewall_rules = [0, 100]\nchain = [\"none\", \"bridge\"]");
        assert_eq!(
            both.cells.len(),
            3 + 4,
            "without guests there is one more, with no rules on the host"
        );
        for cell in both.cells.iter().filter(|cell| !cell.is_baseline()) {
            let baseline = both.cell(cell.baseline.as_ref().unwrap()).unwrap();
            assert_eq!(baseline.testbed, cell.testbed.without_guests());
        }
    }
}
