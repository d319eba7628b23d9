//! What a scenario says that contradicts itself or cannot be meant.

use std::ops::RangeInclusive;

use super::{Contradiction, IpVersion, Placement, Scenario, Testbed};
use crate::plan;
use crate::section::{self, SectionName};
use crate::switch::OfHost;
use crate::units::CoreLoad;
use crate::workload::{Workload, WorkloadKind};

const UDP_HEADER_BYTES: u32 = 8;

/// Slowest and fastest link in bits per second: a frame takes 0.2 s at the one, and the other is
/// beyond what one core moves.
const LINK_RATES: RangeInclusive<u64> = 64_000..=400_000_000_000;

/// What threads can burn, and what is seen among everything else.
pub(super) const LOADS: RangeInclusive<CoreLoad> =
    CoreLoad::from_ppm(10_000)..=CoreLoad::from_ppm(64_000_000);

/// More are more than anybody measures, and would take long to say so.
const MOST_CELLS: usize = 4096;

impl Scenario {
    /// Everything that contradicts itself, so that it can be reported at once.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, key: &str, message: String| {
            if wrong {
                found.push(Contradiction { key: key.to_owned(), message });
            }
        };
        let well_named = !self.name.is_empty()
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        check(
            !well_named,
            "name",
            format!("`{}` names no directory: use letters, digits, - and _", self.name),
        );
        if !self.parts.is_empty() {
            self.check_parts(&mut check);
            let parts = self.parts.iter().enumerate();
            found.extend(parts.flat_map(|(at, part)| self.contradictions_of_part(at, part)));
            return found;
        }
        if self.check_size(&mut check) {
            self.check_factors(&mut check);
            self.check_testbed(&mut check);
            self.check_topology(&mut check);
            self.check_combinations(&mut check);
            self.check_variants(&mut check);
            self.check_datagrams(&mut check);
        }
        self.check_repeat(&mut check);
        found
    }

    /// Whether the combinations can be looked at one by one.
    fn check_size(&self, check: &mut impl FnMut(bool, &str, String)) -> bool {
        let levels = self.factors.keys().iter().map(|factor| factor.levels.len().max(1));
        let own = levels.fold(1, usize::saturating_mul);
        let models = |count: usize| count.max(1);
        let factors = &self.factors;
        let paths =
            1 + models(factors.nic.as_slice().len()) * models(factors.disk.as_slice().len());
        let cells = own.saturating_mul(paths).saturating_mul(self.variants.len().max(1));
        let message = format!("{cells} combinations of levels: {MOST_CELLS} are the most");
        check(cells > MOST_CELLS, "factors", message);
        cells <= MOST_CELLS
    }

    fn check_repeat(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            !(1..=1000).contains(&self.repeat.blocks),
            "repeat.blocks",
            "needs 1 to 1000 blocks; 3 are the least for an interval".into(),
        );
        check(
            self.repeat.goal.is_some_and(|goal| !(0.000_1..=1.0).contains(&goal.as_f64())),
            "repeat.goal",
            "a goal is a part of the mean, from 0.01 % to 100 %".into(),
        );
        for (key, is_set) in [
            ("repeat.most_blocks", self.repeat.most_blocks.is_some()),
            ("repeat.stop_settled", self.repeat.stop_settled),
        ] {
            let message = "nothing settles without a goal: give repeat.goal, such as \"5 %\"";
            check(is_set && self.repeat.goal.is_none(), key, message.into());
        }
        check(
            self.repeat.most_blocks.is_some_and(|most| !(1..=1000).contains(&most)),
            "repeat.most_blocks",
            "needs 1 to 1000 blocks".into(),
        );
        check(
            !(1..=10).contains(&self.repeat.attempts),
            "repeat.attempts",
            "needs 1 to 10 attempts".into(),
        );
    }

    fn check_factors(&self, check: &mut impl FnMut(bool, &str, String)) {
        let factors = &self.factors;
        let nic = factors.nic.repeated();
        let message = |level: &str| format!("the level {level} is listed twice");
        check(
            nic.is_some(),
            "factors.nic",
            message(&nic.map(ToString::to_string).unwrap_or_default()),
        );
        let disk = factors.disk.repeated();
        check(
            disk.is_some(),
            "factors.disk",
            message(&disk.map(ToString::to_string).unwrap_or_default()),
        );
        self.check_disks(check);
        for (at, factor) in factors.keys().iter().enumerate() {
            let levels = &factor.levels;
            let repeated = (0..levels.len()).find(|i| levels[..*i].contains(&levels[*i]));
            let level = repeated.map(|i| section::in_words(&levels[i])).unwrap_or_default();
            check(repeated.is_some(), &factor.written(), message(&level));
            let own = (factor.section, &factor.path);
            let is_again =
                factors.keys()[..at].iter().any(|other| (other.section, &other.path) == own);
            check(
                is_again,
                &factor.written(),
                "it is varied twice: give all levels at once".into(),
            );
            let is_guest = factor.section == SectionName::Guest;
            check(
                is_guest && !factors.have_guests(),
                &factor.written(),
                "without a NIC or a disk there is no guest that could vary: give factors.nic or factors.disk".into(),
            );
        }
    }

    fn check_disks(&self, check: &mut impl FnMut(bool, &str, String)) {
        let (factors, is_disk) = (&self.factors, self.workload.kind == WorkloadKind::Disk);
        check(
            !is_disk && !factors.disk.is_empty(),
            "factors.disk",
            "nothing reads or writes a disk: give workload.kind = \"disk\"".into(),
        );
        check(
            is_disk && self.testbed.server.is_some(),
            "workload.kind",
            "a disk is measured in a lab on this machine: leave testbed.server out".into(),
        );
        let is_alone = self.workload.background.is_none()
            && factors.levels(SectionName::Workload, "background").is_empty();
        check(
            is_disk && is_alone && !factors.nic.is_empty(),
            "factors.nic",
            "no load goes over the NIC: give workload.background = \"tcp-stream\", or leave the NIC out"
                .into(),
        );
        check(
            is_disk && !is_alone && factors.nic.is_empty() && !factors.disk.is_empty(),
            "workload.background",
            "the load beside the disk goes over a NIC: give factors.nic too".into(),
        );
    }

    fn check_testbed(&self, check: &mut impl FnMut(bool, &str, String)) {
        self.check_libvirt(check);
        let testbeds = plan::testbeds(self);
        let some_is = |of_host| testbeds.iter().any(|own| own.switch.row().of_host == of_host);
        check(
            self.testbed.interface.is_some() && !some_is(OfHost::Always),
            "testbed.interface",
            "no switch of the scenario is made of a card of this host: leave it out; a bridge of \
             this host is `testbed.bridge`"
                .into(),
        );
        check(
            self.testbed.bridge.is_some() && !some_is(OfHost::WhereNamed),
            "testbed.bridge",
            "no switch of the scenario can be a bridge of this host: leave it out".into(),
        );
        check(
            self.testbed.rate.is_some() && self.testbed.server.is_some(),
            "testbed.rate",
            "between two machines the link is what it is: leave the rate out".into(),
        );
        check(
            self.testbed.placement != Placement::Free && self.testbed.server.is_some(),
            "testbed.placement",
            "between two machines vioperf places nothing: give sender_cpus and receiver_cpus"
                .into(),
        );
        let is_free = plan::testbeds(self).iter().any(|own| {
            own.placement == Placement::Free && own.cores != super::ThreadCores::default()
        });
        check(
            is_free,
            "testbed.cores",
            "nothing is placed while the scheduler is free: give testbed.placement = \"apart\" or \"exclusive\"".into(),
        );
    }

    /// Levels are held to the same limits as the keys themselves, each combination for itself: what one
    /// level makes of a load another may contradict.
    fn check_combinations(&self, check: &mut impl FnMut(bool, &str, String)) {
        let testbeds = plan::testbeds(self);
        let guests = plan::guests(self);
        let workloads = plan::workloads(self);
        let of_testbeds = testbeds.iter().flat_map(Testbed::contradictions);
        let of_guests = guests.iter().flat_map(|guest| guest.contradictions());
        let of_loads = workloads.iter().flat_map(Workload::contradictions);
        let mut said: Vec<Contradiction> = Vec::new();
        for found in of_testbeds.chain(of_guests).chain(of_loads) {
            if !said.contains(&found) {
                check(true, &self.written_at(&found.key), found.message.clone());
                said.push(found);
            }
        }
    }

    /// No datagram is sent in pieces: each must fit into a packet of every path.
    fn check_datagrams(&self, check: &mut impl FnMut(bool, &str, String)) {
        use WorkloadKind::{PacketRate, RateSearch, UdpStream};
        // The path between two machines is the nodes' to know.
        let kinds = [UdpStream, PacketRate, RateSearch];
        if self.testbed.server.is_some() || !kinds.contains(&self.workload.kind) {
            return;
        }
        let mut said = Vec::new();
        for cell in plan::cells(self) {
            let (mtu, ip) = (cell.testbed.mtu, cell.testbed.ip);
            let room = mtu.saturating_sub(ip.header_bytes() + UDP_HEADER_BYTES);
            let payload = cell.workload.payload_bytes();
            let message = format!(
                "{payload} B do not fit into a packet: {room} B is the most over {ip} with an MTU of {mtu}"
            );
            if payload > u64::from(room) && !said.contains(&message) {
                check(true, &self.written_at("workload.payload"), message.clone());
                said.push(message);
            }
        }
    }

    /// Where the value of a key was written: among the factors, if it is varied.
    pub(super) fn written_at(&self, key: &str) -> String {
        self.factors.varying(key).map_or_else(|| key.to_owned(), |factor| factor.written())
    }
}

impl Testbed {
    /// What of this host the switch is made of, where it is: a bridge, or a card's interface.
    pub fn of_host(&self) -> Option<&str> {
        match self.switch.row().of_host {
            OfHost::Never => None,
            OfHost::WhereNamed => self.bridge.as_deref(),
            OfHost::Always => self.interface.as_deref(),
        }
    }

    /// What cannot be meant.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, key: &str, message: String| {
            if wrong {
                found.push(Contradiction { key: key.to_owned(), message });
            }
        };
        let mtu = self.mtu;
        let is_mtu = (576..=65_521).contains(&mtu);
        check(
            !is_mtu,
            "testbed.mtu",
            format!("an MTU of {mtu} is not between 576 and 65521 bytes"),
        );
        let least = "IPv6 needs an MTU of at least 1280 bytes (RFC 8200, section 5)";
        check(
            self.ip == IpVersion::Ipv6 && is_mtu && mtu < 1280,
            "testbed.mtu",
            format!("an MTU of {mtu} is too little: {least}"),
        );
        self.storage.check(&mut check);
        let is_of_host = self.switch.row().of_host == OfHost::Always;
        check(
            is_of_host && self.interface.is_none(),
            "testbed.interface",
            format!("{} is made of an interface of this host: name it", self.switch),
        );
        let is_name = |name: &String| (1..=15).contains(&name.len()) && !name.contains(['/', ' ']);
        for (name, key) in
            [(&self.interface, "testbed.interface"), (&self.bridge, "testbed.bridge")]
        {
            check(
                name.as_ref().is_some_and(|name| !is_name(name)),
                key,
                "an interface's name has 1 to 15 characters, without / and spaces".into(),
            );
        }
        check(
            self.host_load.is_some_and(|load| !LOADS.contains(&load)),
            "testbed.host_load",
            "from 1 % to 6400 %, 100 % being one core".into(),
        );
        check(
            self.rate.is_some_and(|rate| !LINK_RATES.contains(&rate.as_bits_per_second())),
            "testbed.rate",
            "a link has between 64 kbit/s and 400 Gbit/s".into(),
        );
        found
    }
}
