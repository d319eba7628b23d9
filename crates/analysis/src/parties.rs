//! What is read of the guests beside the one under test.

use vioperf_model::record::{Place, TrialRecord};

use crate::cell::CellTrials;
use crate::cores::MachineReading;
use crate::flow::View;
use crate::result::{OtherGuestUse, ThreadsOn};
use crate::threads::QemuReading;

/// One trial's view of such a guest.
#[derive(Debug, Clone)]
pub struct PartyReading {
    place: Place,
    machine: MachineReading,
    qemu: QemuReading,
}

impl PartyReading {
    /// Which it is.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The threads that run it.
    pub(crate) fn qemu(&self) -> &QemuReading {
        &self.qemu
    }

    /// Its cores.
    pub(crate) fn machine(&self) -> &MachineReading {
        &self.machine
    }

    /// Of all that are in the record. The threads that run them are the host's to tell.
    pub(crate) fn others(trial: &TrialRecord, host: &View<'_>) -> Vec<Self> {
        let is_in_record = |place| trial.parties.iter().any(|party| party.place == place);
        let places = Place::MACHINES.into_iter().filter(|place| *place != Place::Guest);
        let labelled = places.filter_map(|place| Some((place, place.qemu_label()?)));
        let there = labelled.filter(|(place, _)| is_in_record(*place));
        let reading = |(place, label): (Place, &'static str)| Self {
            place,
            machine: MachineReading::of(View::of_place(trial, place.key(), place).window()),
            qemu: QemuReading::of(host.window(), label),
        };
        there.map(reading).collect()
    }
}

/// Where the threads of the host's processes could run, by process and name: a number behind it (a thread's own, in
/// `vhost-4711` and `CPU 1/KVM`) is told only of virtual CPUs.
pub fn threads_on(trial: &TrialRecord) -> impl Iterator<Item = ThreadsOn> {
    let hosts = trial.parties.iter().filter(|party| party.place == Place::Host);
    let last = hosts.filter_map(|host| host.report.layers.last());
    let threads = last.flat_map(|layers| layers.switches.iter().flatten());
    threads.filter_map(|thread| {
        let name = match thread.name.starts_with("CPU ") {
            true => thread.name.as_str(),
            false => {
                thread.name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
            }
        };
        Some(ThreadsOn {
            process: thread.process.clone(),
            thread: name.to_owned(),
            cores: thread.cores.clone()?,
        })
    })
}

/// Gathers them, in the order of tables.
pub fn gather(trials: &CellTrials) -> Vec<OtherGuestUse> {
    let is_there = |place: &Place| trials.completed.iter().any(|r| r.other(*place).is_some());
    let places = Place::MACHINES.into_iter().filter(is_there);
    let gathered = places.map(|place| OtherGuestUse {
        place,
        machine: trials.machine_of(|r| r.other(place).map(PartyReading::machine)),
        qemu: trials.qemu_of(|r| r.other(place).map(PartyReading::qemu)),
    });
    gathered.collect()
}
