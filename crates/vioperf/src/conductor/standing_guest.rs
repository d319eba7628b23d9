//! A guest from its start to the moment that its NIC is ready.

use std::time::{Instant, SystemTime};

use vioperf_lab::Lab;
use vioperf_lab::qemu::{Guest, GuestSource, NicSpec};
use vioperf_model::nic::{NicModel, Queues};
use vioperf_model::plan::Cell;
use vioperf_model::record::{GuestOrigin, GuestSetup, Place};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::wire::{InterfaceConfig, InterfaceSelector};

use super::addresses::{self, Owner};
use super::failed::Failed;
use super::hypervisor::milliseconds;
use super::lab_stage::LabStage;
use super::node_link::{NodeError, NodeLink, time_span};
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
    pub(super) endpoint: Endpoint,
    pub(super) guest: Guest,
    /// The cell that it was started for.
    pub(super) built_for: Cell,
}

impl StandingGuest {
    pub(super) fn reused(&self) -> GuestSetup {
        let port = self.guest.port().map(str::to_owned);
        GuestSetup { origin: GuestOrigin::Reused, ready_ms: None, path: None, port }
    }
}

impl LabStage<'_> {
    pub(super) fn start_guest(
        &mut self,
        lab: &mut Lab,
        model: NicModel,
        cell: &Cell,
    ) -> Result<(StandingGuest, GuestSetup), Failed> {
        let mtu = cell.testbed.mtu;
        let order = self.supply.of(cell).ok_or_else(|| Failed {
            reason: "the plan said that it needs no guest".into(),
            console_tail: Vec::new(),
            interrupted: false,
        })?;
        let factory = &order.factory;
        let started = Instant::now();
        let (source, origin) = match &factory.snapshot {
            Some(snapshot) => (GuestSource::Snapshot(snapshot), GuestOrigin::Restored),
            None => {
                let (hypervisor, image, shape) =
                    (&factory.hypervisor, &factory.image, factory.shape);
                (GuestSource::FreshBoot { hypervisor, image, shape }, GuestOrigin::Booted)
            }
        };
        let options = order.guest.device_options.clone();
        let number = self.guests_started;
        let address = addresses::of_guest(cell.testbed.ip, number);
        let further_addresses =
            addresses::further(cell.testbed.ip, Owner::Guest(number), &cell.workload);
        self.guests_started = self.guests_started.wrapping_add(1);
        let nic = NicSpec {
            model,
            addresses: [vec![address], further_addresses.clone()].concat(),
            prefix_length: addresses::prefix_length(cell.testbed.ip),
            queues: tap_queues(cell),
            vhost: order.guest.vhost,
            options,
        };
        let mut guest = lab.start_guest(self.sandbox, source, &nic)?;
        let timeout = factory.ready_timeout;
        let config = InterfaceConfig {
            interface: InterfaceSelector::Mac(guest.mac().to_string()),
            address,
            further_addresses: further_addresses.clone(),
            prefix_length: addresses::prefix_length(cell.testbed.ip),
            mtu,
            settings: order.guest.interface_settings(),
            ports: guest.ports().map(|ports| (*ports.start(), *ports.end())),
            timeout: time_span(timeout),
        };
        let driver_options = factory.driver_options.clone();
        let modules = match origin {
            // The snapshot has its drivers.
            GuestOrigin::Restored | GuestOrigin::Reused => Vec::new(),
            GuestOrigin::Booted => factory.modules.clone(),
        };
        let interrupt = self.interrupt;
        let (link, interface) = guest
            .answer_within("get the guest's NIC ready", 2 * timeout, |channel| {
                let mut link = NodeLink::greet("guest", channel, timeout, interrupt)?;
                link.set_wall_clock(unix_ns())?;
                if !modules.is_empty() {
                    link.load_modules(modules, driver_options, timeout)?;
                }
                let facts = link.configure(config)?;
                Ok::<_, NodeError>((link, facts))
            })
            .map_err(|error| {
                // The lab tells faults in words only; whether it was the user's wish, we know.
                let interrupted = interrupt.urgency() > Urgency::None;
                Failed { interrupted, ..Failed::of_guest(*error) }
            })?;
        if let Some(reason) = contradiction(model, mtu, &interface) {
            let console_tail = guest.console_tail();
            return Err(Failed { reason, console_tail, interrupted: false });
        }
        let ready_ms = Some(milliseconds(started.elapsed()));
        let (path, port) = (Some(guest.path()), guest.port().map(str::to_owned));
        let setup = GuestSetup { origin, ready_ms, path, port };
        let (place, addresses) = (Place::Guest, nic.addresses);
        let greets = guest.ports().is_some();
        let endpoint = Endpoint { place, link, addresses, interface, greets };
        Ok((StandingGuest { endpoint, guest, built_for: cell.clone() }, setup))
    }
}

/// What the guest really has, against what was asked for: a number for another driver would be
/// worse than none.
fn contradiction(model: NicModel, mtu: u32, facts: &InterfaceFacts) -> Option<String> {
    let wanted = model.row().driver;
    match &facts.driver {
        None => Some(format!("the guest does not tell which driver its {model} NIC has bound")),
        Some(driver) if driver != wanted => Some(format!(
            "the guest bound the driver {driver}, but the model {model} needs {wanted}"
        )),
        Some(_) if facts.mtu != mtu => {
            Some(format!("the guest's NIC has an MTU of {} bytes instead of {mtu}", facts.mtu))
        }
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
