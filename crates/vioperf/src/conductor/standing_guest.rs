//! A guest from its start to the moment that its NIC is ready.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Instant, SystemTime};

use vioperf_lab::qemu::processor::is_another;
use vioperf_lab::qemu::{DiskSpec, Guest, GuestSource, NicSpec, memory_pages};
use vioperf_lab::{GuestPart, GuestSpec};
use vioperf_model::disk::Plugging;
use vioperf_model::nic::{NicModel, Queues};
use vioperf_model::plan::Cell;
use vioperf_model::record::{DiskSetup, GuestOrigin, GuestSetup, OtherGuest, Place};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::{Chain, FarEnd, HugePages, Neighbour, Topology};
use vioperf_model::wire::{
    DiskFacts, ForwardingConfig, ForwardingFacts, ForwardingWay, InterfaceConfig,
    InterfaceSelector, Route,
};

use super::addresses;
use super::disk_files::Owner;
use super::failed::Failed;
use super::hypervisor::milliseconds;
use super::lab_stage::LabStage;
use super::node_link::{NodeError, NodeLink, time_span};
use super::standing::Standing;
use super::trial::Endpoint;
use crate::interrupt::Urgency;

/// Queues of the tap that a cell's guest is on.
pub(super) fn tap_queues(cell: &Cell) -> u16 {
    let of_backend = cell.nic.is_some_and(|model| model.row().queues == Queues::OfBackend);
    let wanted = cell.guest.as_ref().and_then(|guest| guest.queues);
    wanted.filter(|_| of_backend).unwrap_or(1)
}

/// A guest that serves, or rests.
pub(super) struct StandingGuest {
    pub(super) part: GuestPart,
    pub(super) endpoint: Endpoint,
    pub(super) guest: Guest,
    /// The cell that it was started for.
    pub(super) built_for: Cell,
    /// Of one that hands packets on: what it told of that.
    forwarding: Option<ForwardingFacts>,
    /// Its disk, where it has one.
    disk: Option<DiskSetup>,
}

impl StandingGuest {
    pub(super) fn reused(&self) -> GuestSetup {
        let port = self.guest.port().map(str::to_owned);
        GuestSetup { port, ..GuestSetup::of(GuestOrigin::Reused) }
    }

    /// As it stands in the record beside the guest under test.
    pub(super) fn as_other(&self) -> OtherGuest {
        OtherGuest {
            place: self.endpoint.place,
            path: self.guest.path(),
            port: self.guest.port().map(str::to_owned),
            far_port: self.guest.port_of(1).map(str::to_owned),
            forwarding: self.forwarding,
            disk: self.disk.clone(),
        }
    }

    /// Whether it can have that part in a cell's lab, which stands.
    pub(super) fn serves(&self, part: GuestPart, cell: &Cell) -> bool {
        let of = |cell: &Cell| {
            let devices = (cell.nic, cell.disk, cell.disk_bytes());
            (devices, cell.guest.clone(), cell.variant_name().map(str::to_owned))
        };
        self.part == part
            && match part {
                GuestPart::UnderTest => self.built_for.shares_testbed_with(cell),
                // Whether a neighbour is busy is told trial by trial.
                _ => self.built_for.shares_lab_with(cell) && of(&self.built_for) == of(cell),
            }
    }

    /// Its address on that side of a router.
    pub(super) fn gateway(&self, is_far: bool) -> Option<IpAddr> {
        self.endpoint.addresses.get(usize::from(is_far)).copied()
    }
}

/// Where a guest of that part is.
fn place_of(part: GuestPart) -> Place {
    match part {
        GuestPart::UnderTest => Place::Guest,
        GuestPart::FarEnd => Place::FarGuest,
        GuestPart::Forwarder => Place::Forwarder,
        GuestPart::Neighbour => Place::Neighbour,
    }
}

/// The guests of a cell beside the one under test, in the order in which they are made ready.
pub(super) fn beside(cell: &Cell) -> Vec<GuestPart> {
    let Topology { far_end, chain, neighbour, .. } = cell.testbed.topology();
    let wanted = [
        (chain != Chain::None, GuestPart::Forwarder),
        (far_end == FarEnd::Guest, GuestPart::FarEnd),
        (neighbour != Neighbour::None, GuestPart::Neighbour),
    ];
    let is_there = !cell.is_baseline();
    wanted.into_iter().filter(|(is_wanted, _)| is_there && *is_wanted).map(|it| it.1).collect()
}

/// How the ends of a cell's path reach the network beyond its router.
pub(super) fn route(cell: &Cell, to_far: bool, gateway: Option<IpAddr>) -> Vec<Route> {
    let (Chain::Router, Some(gateway)) = (cell.testbed.chain, gateway) else { return Vec::new() };
    let near = addresses::second(cell.testbed.ip);
    let network = if to_far { addresses::beyond_router(near) } else { near };
    vec![Route { network, prefix_length: prefix_length(cell), gateway }]
}

/// How a guest reaches the peer's addresses where a gateway answers for them.
fn to_peer(cell: &Cell, gateway: Option<IpAddr>) -> Vec<Route> {
    let Some(gateway) = gateway else { return Vec::new() };
    let ip = cell.testbed.ip;
    let further = addresses::further(ip, addresses::Owner::Peer, &cell.workload);
    let route = |network: IpAddr| {
        let prefix_length = if network.is_ipv4() { 32 } else { 128 };
        Route { network, prefix_length, gateway }
    };
    [vec![addresses::peer(ip)], further].concat().into_iter().map(route).collect()
}

/// Length of the prefix of a cell's networks.
pub(super) fn prefix_length(cell: &Cell) -> u8 {
    addresses::prefix_length(cell.testbed.ip, cell.testbed.chain == Chain::Router)
}

/// A NIC as the lab makes it, and what its guest is told of it.
struct Nic {
    spec: NicSpec,
    routes: Vec<Route>,
}

impl LabStage<'_> {
    /// Starts a guest for that part in a cell.
    pub(super) fn start_guest(
        &mut self,
        standing: &mut Standing,
        cell: &Cell,
        part: GuestPart,
    ) -> Result<(StandingGuest, GuestSetup), Failed> {
        let number = self.guests_started;
        self.guests_started = self.guests_started.wrapping_add(1);
        let nics = self.nics(standing, cell, part, number)?;
        let order = self.supply.of(cell).ok_or_else(no_guest)?;
        let factory = &order.factory;
        let owner = match part {
            GuestPart::UnderTest => Some(Owner::UnderTest),
            GuestPart::Neighbour => Some(Owner::Neighbour),
            GuestPart::FarEnd | GuestPart::Forwarder => None,
        };
        let disk = match owner {
            Some(owner) => {
                let qemu = &factory.hypervisor.qemu;
                self.disk_files.disk_of(cell, owner, number, qemu, self.interrupt)?
            }
            None => None,
        };
        let started = Instant::now();
        // A disk that QEMU takes at boot alone: with a boot of its own.
        let at_boot =
            disk.as_ref().is_some_and(|disk| disk.model.row().plugging == Plugging::AtBoot);
        let (source, origin) = match factory.snapshot.as_ref().filter(|_| !at_boot) {
            Some(snapshot) => (GuestSource::Snapshot(snapshot), GuestOrigin::Restored),
            None => {
                let (hypervisor, image, shape) =
                    (&factory.hypervisor, &factory.image, factory.shape);
                (GuestSource::FreshBoot { hypervisor, image, shape }, GuestOrigin::Booted)
            }
        };
        let nic = nics.first().map(|nic| &nic.spec);
        let far_nic = nics.get(1).map(|nic| &nic.spec);
        let spec = GuestSpec { part, nic, far_nic, disk: disk.as_ref() };
        let mut guest = standing.lab.start_guest(self.sandbox, source, spec)?;
        let timeout = factory.ready_timeout;
        let configs: Vec<InterfaceConfig> = guest
            .macs()
            .zip(&nics)
            .map(|(mac, nic)| InterfaceConfig {
                interface: InterfaceSelector::Mac(mac.to_string()),
                address: nic.spec.addresses[0],
                further_addresses: nic.spec.addresses[1..].to_vec(),
                routes: [nic.routes.clone(), to_peer(cell, guest.gateway())].concat(),
                prefix_length: nic.spec.prefix_length,
                mtu: cell.testbed.mtu,
                settings: order.guest.interface_settings(),
                ports: guest.ports().map(|ports| (*ports.start(), *ports.end())),
                timeout: time_span(timeout),
            })
            .collect();
        let driver_options = factory.driver_options.clone();
        let mut modules = match origin {
            // The snapshot has its drivers.
            GuestOrigin::Restored | GuestOrigin::Reused => Vec::new(),
            GuestOrigin::Booted => factory.modules.clone(),
        };
        let forwarding = forwarding_of(cell, part, &configs);
        if forwarding.is_some() {
            modules.extend(factory.forwarding_modules.clone());
        }
        let (interrupt, place) = (self.interrupt, place_of(part));
        let serial = disk.as_ref().map(|disk| disk.serial.clone());
        let (link, interfaces, forwarding, disk_facts) = guest
            .answer_within("get the guest's devices ready", 2 * timeout, |channel| {
                let mut link = NodeLink::greet(&place.to_string(), channel, timeout, interrupt)?;
                link.set_wall_clock(unix_ns())?;
                if !modules.is_empty() {
                    link.load_modules(modules, driver_options, timeout)?;
                }
                let configured = configs.into_iter().map(|config| link.configure(config));
                let facts: Vec<InterfaceFacts> = configured.collect::<Result<_, _>>()?;
                let forwarding = forwarding.map(|config| link.forward(config, timeout));
                let forwarding = forwarding.transpose()?;
                let disk = serial.map(|serial| link.find_disk(&serial, timeout)).transpose()?;
                Ok::<_, NodeError>((link, facts, forwarding, disk))
            })
            .map_err(|error| {
                // The lab tells faults in words only; whether it was the user's wish, we know.
                let interrupted = interrupt.urgency() > Urgency::None;
                Failed { interrupted, ..Failed::of_guest(*error) }
            })?;
        let of_nic = |facts| cell.nic.and_then(|nic| contradiction(nic, cell.testbed.mtu, facts));
        let of_disk = || disk_contradiction(disk.as_ref()?, disk_facts.as_ref()?);
        if let Some(reason) = interfaces.iter().find_map(of_nic).or_else(of_disk) {
            let console_tail = guest.console_tail();
            return Err(Failed { reason, console_tail, interrupted: false });
        }
        if let Some(disk) = &disk {
            guest.verify_disk_in_use(disk).map_err(|error| Failed::of_guest(*error))?;
        }
        let processor = guest.processor().map_err(|error| Failed::of_guest(*error))?;
        let cpu = order.guest.cpu.as_deref();
        if let Some(reason) = cpu.and_then(|wanted| is_another(wanted, processor.as_ref())) {
            let console_tail = guest.console_tail();
            return Err(Failed { reason, console_tail, interrupted: false });
        }
        let wanted = order.guest.huge_pages;
        let huge_pages_mib = match memory_pages::verify(Path::new("/"), guest.qemu_pid(), wanted) {
            Err(error) if wanted != HugePages::Auto => {
                let (reason, console_tail) = (error.to_string(), guest.console_tail());
                return Err(Failed { reason, console_tail, interrupted: false });
            }
            told => told.ok(),
        };
        let ready_ms = Some(milliseconds(started.elapsed()));
        let (path, port) = (guest.path(), guest.port().map(str::to_owned));
        let disk_path = disk_facts.as_ref().map(|facts| facts.path.clone());
        let disk = disk.zip(disk_facts).map(|(disk, facts)| DiskSetup {
            facts,
            place: disk.file.place().to_owned(),
            drive: disk.drive,
        });
        let setup = GuestSetup {
            disk: disk.clone(),
            huge_pages_mib,
            processor,
            ready_ms,
            path,
            port,
            ..GuestSetup::of(origin)
        };
        // Of one that forwards, one on either side.
        let addresses = match part {
            GuestPart::Forwarder => nics.iter().map(|nic| nic.spec.addresses[0]).collect(),
            _ => nics.first().map(|nic| nic.spec.addresses.clone()).unwrap_or_default(),
        };
        let greets = guest.ports().is_some();
        let interface = interfaces.into_iter().next().unwrap_or_default();
        let endpoint = Endpoint { place, link, addresses, interface, greets, disk: disk_path };
        let built_for = cell.clone();
        Ok((StandingGuest { part, endpoint, guest, built_for, forwarding, disk }, setup))
    }

    /// The NICs of a guest that is to be started, the one on the near side first.
    fn nics(
        &mut self,
        standing: &Standing,
        cell: &Cell,
        part: GuestPart,
        number: u16,
    ) -> Result<Vec<Nic>, Failed> {
        let Some(model) = cell.nic else { return Ok(Vec::new()) };
        let order = self.supply.of(cell).ok_or_else(no_guest)?;
        let router = |is_far| standing.other(GuestPart::Forwarder)?.gateway(is_far);
        let own = addresses::of_guest(cell.testbed.ip, number);
        let beyond = match cell.testbed.chain {
            Chain::Router => addresses::beyond_router(own),
            Chain::None | Chain::Bridge => own,
        };
        let further =
            addresses::further(cell.testbed.ip, addresses::Owner::Guest(number), &cell.workload);
        let nic = |addresses: Vec<IpAddr>, routes| Nic {
            spec: NicSpec {
                model,
                addresses,
                prefix_length: prefix_length(cell),
                queues: tap_queues(cell),
                vhost: order.guest.vhost,
                options: order.guest.device_options.clone(),
            },
            routes,
        };
        Ok(match part {
            GuestPart::UnderTest => {
                vec![nic([vec![own], further].concat(), route(cell, true, router(false)))]
            }
            GuestPart::FarEnd => {
                vec![nic([vec![beyond], further].concat(), route(cell, false, router(true)))]
            }
            GuestPart::Forwarder => vec![nic(vec![own], vec![]), nic(vec![beyond], vec![])],
            GuestPart::Neighbour => vec![nic(vec![own], vec![])],
        })
    }
}

fn no_guest() -> Failed {
    let reason = "the plan said that it needs no guest".to_owned();
    Failed { reason, console_tail: Vec::new(), interrupted: false }
}

/// What a guest that hands packets on is told of it.
fn forwarding_of(
    cell: &Cell,
    part: GuestPart,
    configs: &[InterfaceConfig],
) -> Option<ForwardingConfig> {
    let [near, far] = configs else { return None };
    let way = match cell.testbed.chain {
        Chain::None => return None,
        Chain::Bridge => ForwardingWay::Bridge,
        Chain::Router => ForwardingWay::Router,
    };
    (part == GuestPart::Forwarder).then(|| ForwardingConfig {
        way,
        interfaces: [near.interface.clone(), far.interface.clone()],
        ip: cell.testbed.ip,
        firewall_rules: cell.testbed.topology().rules_of_forwarder(),
    })
}

/// What the guest really has, against what was asked for: a number for another driver would be
/// worse than none.
fn contradiction(model: NicModel, mtu: u32, facts: &InterfaceFacts) -> Option<String> {
    let wanted = model.row().driver;
    match &facts.driver {
        None => Some(format!("the guest does not tell which driver its {model} NIC has bound")),
        Some(driver) if !model.row().is_driver(driver) => Some(format!(
            "the guest bound the driver {driver}, but the model {model} needs {wanted}"
        )),
        Some(_) if facts.mtu != mtu => {
            Some(format!("the guest's NIC has an MTU of {} bytes instead of {mtu}", facts.mtu))
        }
        Some(_) => None,
    }
}

/// The same of its disk.
fn disk_contradiction(wanted: &DiskSpec, facts: &DiskFacts) -> Option<String> {
    let (model, driver) = (wanted.model, wanted.model.row().driver);
    match &facts.driver {
        None => Some(format!("the guest does not tell which driver its {model} disk has bound")),
        Some(bound) if bound != driver => Some(format!(
            "the guest bound the driver {bound}, but the disk model {model} needs {driver}"
        )),
        Some(_) if facts.size_bytes < wanted.file.size().as_bytes() => Some(format!(
            "the guest's disk has {} bytes instead of {}",
            facts.size_bytes,
            wanted.file.size()
        )),
        Some(_) => None,
    }
}

pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: Option<&str>, mtu: u32) -> InterfaceFacts {
        InterfaceFacts { driver: driver.map(str::to_owned), mtu, ..InterfaceFacts::default() }
    }

    #[test]
    fn another_driver_or_mtu_than_asked_for_is_a_contradiction() {
        let virtio: NicModel = "virtio".parse().unwrap();
        assert_eq!(contradiction(virtio, 1500, &facts(Some("virtio_net"), 1500)), None);
        let reason = contradiction(virtio, 1500, &facts(Some("e1000"), 1500)).unwrap();
        assert!(reason.contains("bound the driver e1000") && reason.contains("needs virtio_net"));
        assert!(contradiction(virtio, 9000, &facts(Some("virtio_net"), 1500)).is_some());
        assert!(contradiction(virtio, 1500, &facts(None, 1500)).is_some());
    }
}
