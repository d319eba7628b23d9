//! Every machine of a cell, whatever it is there for: what tables of cores are made from.

use vioperf_model::record::Place;

use super::{CellAnalysis, MachineUse, QemuUse};

/// One machine of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// Which it is.
    pub place: Place,
    /// As people call it: the host is a hypervisor where the guest is elsewhere.
    pub name: &'static str,
    /// Its cores.
    pub cores: &'a MachineUse,
    /// Of a guest: the host's threads that ran it. Of a hypervisor: those of the guest that it was watched for.
    pub qemu: Option<&'a QemuUse>,
}

impl CellAnalysis {
    /// Every machine that is in the record, in the order of tables ([`Place::MACHINES`]).
    pub fn machines(&self) -> Vec<Machine<'_>> {
        Place::MACHINES.into_iter().filter_map(|place| self.machine(place)).collect()
    }

    /// The machine at that place, where there is one.
    pub fn machine(&self, place: Place) -> Option<Machine<'_>> {
        let (cores, qemu) = match (place, &self.between) {
            (Place::Host, None) => (&self.host, None),
            (Place::Host, Some(between)) => {
                let hypervisor = between.hypervisor.as_ref()?;
                (&hypervisor.machine, Some(&hypervisor.qemu))
            }
            (Place::Client, between) => (&between.as_ref()?.client.machine, None),
            (Place::Server, between) => (&between.as_ref()?.server.machine, None),
            (Place::Guest, _) => (self.guest.as_ref()?, self.qemu.as_ref()),
            (other, _) => {
                let guest = self.other_guests.iter().find(|guest| guest.place == other)?;
                (&guest.machine, Some(&guest.qemu))
            }
        };
        Some(Machine { place, name: self.machine_name(place), cores, qemu })
    }

    fn machine_name(&self, place: Place) -> &'static str {
        match place {
            Place::Host if self.between.is_some() => "hypervisor",
            place => place.name(),
        }
    }
}
