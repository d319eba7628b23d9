//! How busy the machines of a cell were; and each of them, whatever it is there for: what tables of cores are made from.

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::record::Place;

use super::{CellAnalysis, Metric};

/// How busy a machine was. 100 percent are one core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachineUse {
    /// All cores added up.
    pub busy_percent_of_core: Metric,
    /// Core by core.
    pub cores: Vec<CoreUse>,
}

/// How busy a core was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoreUse {
    /// Its number.
    pub core: u32,
    /// Not idle, and not stolen by the hypervisor.
    pub busy_percent: Metric,
    /// What with: means over the same trials.
    pub mean_percent: CoreStates,
}

/// Time of a core by state, in percent of the window; a state is absent where its counter ran
/// backwards or is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoreStates {
    /// User mode, running a virtual CPU excluded.
    pub user: Option<f64>,
    /// Kernel.
    pub system: Option<f64>,
    /// Interrupts.
    pub irq: Option<f64>,
    /// Soft interrupts.
    pub softirq: Option<f64>,
    /// Wanted to run but the hypervisor ran something else. Not counted as busy.
    pub steal: Option<f64>,
    /// Running a virtual CPU.
    pub guest: Option<f64>,
    /// Idle, with I/O outstanding or not.
    pub idle: Option<f64>,
}

/// CPU time of QEMU's threads by their task. 100 percent are one core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct QemuUse {
    /// Virtual CPUs.
    pub vcpu_percent_of_core: Metric,
    /// The main loop: emulated devices' timers and, without vhost, the tap.
    pub main_loop_percent_of_core: Metric,
    /// I/O threads and their workers.
    pub io_percent_of_core: Metric,
    /// The kernel's vhost workers.
    pub vhost_percent_of_core: Metric,
    /// Anything else.
    pub other_percent_of_core: Metric,
    /// All of them.
    pub total_percent_of_core: Metric,
    /// Time that the threads were runnable but waited for a core.
    pub waiting_percent_of_core: Metric,
}

/// Threads of one name, and the cores that they could run on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct ThreadsOn {
    /// Their process, as it is watched.
    pub process: String,
    /// Their name.
    pub thread: String,
    /// The cores, as the kernel lists them (`0-2,5`).
    pub cores: String,
}

/// A guest beside the one under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OtherGuestUse {
    /// What it is there for.
    pub place: Place,
    /// Its cores, as it counted them itself.
    pub machine: MachineUse,
    /// The host's threads that ran it.
    pub qemu: QemuUse,
    /// What it did to its own disk meanwhile; absent where it had nothing to do there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskBeside>,
}

/// What a neighbour did to its disk while another was measured, in the same window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct DiskBeside {
    /// Operations that ended, reads and writes.
    pub operations_per_second: Metric,
    /// What they moved, in megabytes of 1 000 000 bytes.
    pub mb_per_second: Metric,
    /// How long they took on average.
    pub mean_us: Metric,
}

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
    /// Of a neighbour: what it did to its disk.
    pub disk: Option<&'a DiskBeside>,
}

impl CellAnalysis {
    /// Every machine that is in the record, in the order of tables ([`Place::MACHINES`]).
    pub fn machines(&self) -> Vec<Machine<'_>> {
        Place::MACHINES.into_iter().filter_map(|place| self.machine(place)).collect()
    }

    /// The machine at that place, where there is one.
    pub fn machine(&self, place: Place) -> Option<Machine<'_>> {
        let other = || self.other_guests.iter().find(|guest| guest.place == place);
        let (cores, qemu) = match (place, &self.between) {
            (Place::Host, None) => (&self.host, None),
            (Place::Host, Some(between)) => {
                let hypervisor = between.hypervisor.as_ref()?;
                (&hypervisor.machine, Some(&hypervisor.qemu))
            }
            (Place::Client, between) => (&between.as_ref()?.client.machine, None),
            (Place::Server, between) => (&between.as_ref()?.server.machine, None),
            (Place::Guest, _) => (self.guest.as_ref()?, self.qemu.as_ref()),
            _ => other().map(|guest| (&guest.machine, Some(&guest.qemu)))?,
        };
        let disk = other().and_then(|guest| guest.disk.as_ref());
        Some(Machine { place, name: self.machine_name(place), cores, qemu, disk })
    }

    fn machine_name(&self, place: Place) -> &'static str {
        match place {
            Place::Host if self.between.is_some() => "hypervisor",
            place => place.name(),
        }
    }
}
