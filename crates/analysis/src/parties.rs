//! What is read of the guests beside the one under test.

use vioperf_model::record::{Place, Purpose, TrialRecord};
use vioperf_model::sample::LoadCounters;

use crate::cell::CellTrials;
use crate::cores::MachineReading;
use crate::disk::MB;
use crate::flow::{Flow, View};
use crate::latency::Latency;
use crate::measure::Unit;
use crate::rates::TrialReadings;
use crate::result::{DiskBeside, OtherGuestUse, ThreadsOn};
use crate::threads::QemuReading;
use crate::window::Reading;

/// One trial's view of such a guest.
#[derive(Debug, Clone)]
pub struct PartyReading {
    place: Place,
    machine: MachineReading,
    qemu: QemuReading,
    disk: Option<DiskBesideReading>,
}

/// What a neighbour did to its disk.
#[derive(Debug, Clone)]
struct DiskBesideReading {
    operations_per_second: Reading,
    mb_per_second: Reading,
    mean_us: Reading,
}

impl DiskBesideReading {
    /// Of what is in the record of a neighbour's load; the party at `place` has a leg of it.
    fn of(trial: &TrialRecord, place: Place) -> Option<Self> {
        let flows = Flow::all(trial, Purpose::Neighbour);
        let is_its = |flow: &&Flow<'_>| flow.sender.party.is_some_and(|own| own.place == place);
        let load = &flows.iter().find(is_its)?.sender;
        let moved =
            |load: &LoadCounters| load.disk.map(|disk| disk.bytes_read + disk.bytes_written);
        let latency = || load.outcome().and_then(|outcome| outcome.latency.as_ref());
        Some(Self {
            operations_per_second: load.rate(Unit::Operations),
            mb_per_second: load.count_rate(moved).map(|bytes| bytes / MB),
            mean_us: latency()
                .map(|histogram| Latency::of_histogram(histogram).mean_us())
                .ok_or_else(|| "its response times are not in the record".into()),
        })
    }
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
            disk: DiskBesideReading::of(trial, place),
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
        disk: disk_of(trials, place),
    });
    gathered.collect()
}

/// What it did to its disk, where it did.
fn disk_of(trials: &CellTrials, place: Place) -> Option<DiskBeside> {
    let of = |readings: &TrialReadings| readings.other(place).and_then(|own| own.disk.clone());
    trials.completed.iter().find_map(of)?;
    let metric = |read: fn(DiskBesideReading) -> Reading| {
        trials.metric_of(move |readings: &TrialReadings| {
            read(of(readings).ok_or("its disk was at rest")?)
        })
    };
    Some(DiskBeside {
        operations_per_second: metric(|disk| disk.operations_per_second),
        mb_per_second: metric(|disk| disk.mb_per_second),
        mean_us: metric(|disk| disk.mean_us),
    })
}
