//! What the rules ask of a trial: numbers that speak for or against a limit. A number that is not there
//! speaks for nothing, so that they are plain options.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::TcpLimits;
use vioperf_model::workload::{Workload, WorkloadKind};

use super::end::End;
use crate::disk::DeviceReading;
use crate::flow::{Flow, View};
use crate::ledger::{self, Ledger, LossPlace};
use crate::measure::Unit;
use crate::rates::{TrialReadings, node_percent_of_core};
use crate::result::Fact;
use crate::threads::{QemuReading, Task};
use crate::wording::three_digits;

/// Part of the datagrams that is lost from which the loss is what limits, and not the sender.
const LOSS_THAT_LIMITS: f64 = 0.01;
/// The same where the sender was asked for less than it can.
const LOSS_OF_PACED: f64 = 0.001;
/// Part of a loss that makes a place the cause of it.
const MOST_OF_LOSS: f64 = 0.5;

/// One load of a trial, that goes one way.
pub(super) struct Symptoms<'a> {
    pub(super) trial: &'a TrialRecord,
    pub(super) workload: &'a Workload,
    pub(super) sender: End<'a>,
    pub(super) receiver: End<'a>,
    /// Where its datagrams went; absent of other loads.
    pub(super) ledger: Option<Ledger>,
    parties: Vec<End<'a>>,
    readings: &'a TrialReadings,
}

impl<'a> Symptoms<'a> {
    /// `readings` are the trial's own.
    pub(super) fn of(
        trial: &'a TrialRecord,
        workload: &'a Workload,
        flow: Flow<'a>,
        readings: &'a TrialReadings,
    ) -> Self {
        let end = |view| End::new(view, readings);
        let party = |party: &Party| end(View::of_place(trial, "party", party.place));
        Self {
            trial,
            workload,
            sender: end(flow.sender),
            receiver: end(flow.receiver),
            ledger: ledger::of_trial(trial, workload).ok(),
            parties: trial.parties.iter().map(party).collect(),
            readings,
        }
    }

    /// Whether its load is one of a disk.
    pub(super) fn is_of_disk(&self) -> bool {
        self.workload.kind == WorkloadKind::Disk
    }

    /// The block device of the host that worked most for a disk's load.
    pub(super) fn device(&self) -> Option<&DeviceReading> {
        self.readings.disk.device.as_ref().ok().filter(|_| self.is_of_disk())
    }

    /// Sender and receiver.
    pub(super) fn ends(&self) -> [&End<'a>; 2] {
        [&self.sender, &self.receiver]
    }

    /// Every machine that packets pass or that works for them: an end each, and the host.
    pub(super) fn parties(&self) -> impl Iterator<Item = &End<'a>> {
        self.parties.iter()
    }

    /// The observer of the switch and of QEMU.
    pub(super) fn host(&self) -> Option<&End<'a>> {
        self.party(Place::Host)
    }

    /// The guest, whichever end it is.
    pub(super) fn guest(&self) -> Option<&End<'a>> {
        self.ends().into_iter().find(|end| end.place() == Some(Place::Guest))
    }

    /// Every guest that packets pass through, the one under test first.
    pub(super) fn guests(&self) -> impl Iterator<Item = &End<'a>> {
        const IN_PATH: [Place; 3] = [Place::Guest, Place::FarGuest, Place::Forwarder];
        IN_PATH.into_iter().filter_map(|place| self.party(place))
    }

    /// Whoever is there.
    pub(super) fn party(&self, place: Place) -> Option<&End<'a>> {
        self.parties.iter().find(|end| end.place() == Some(place))
    }

    /// The threads of the QEMU that runs a guest.
    pub(super) fn qemu_of(&self, guest: &End<'_>) -> Option<&QemuReading> {
        match guest.place()? {
            Place::Guest => Some(&self.readings.qemu),
            place => Some(self.readings.other(place)?.qemu()),
        }
    }

    /// CPU time of QEMU's threads of that kind in percent of one core.
    pub(super) fn qemu_percent(&self, task: Task) -> Option<f64> {
        self.readings.qemu.task(task).ok()
    }

    /// For how long QEMU's threads waited for a CPU, all together, in percent of the window.
    pub(super) fn qemu_waiting_percent(&self) -> Option<f64> {
        self.readings.qemu.waiting_percent_of_core.clone().ok()
    }

    /// Mean time of a request in microseconds.
    pub(super) fn mean_latency_us(&self) -> Option<f64> {
        self.readings.latency.as_ref().ok().map(|latency| latency.mean_us)
    }

    /// How often KVM left the guest for each packet, where it tells.
    pub(super) fn exits_per_packet(&self) -> Option<Fact> {
        let exits = self.readings.layers.exits.all.clone().ok()?;
        Some(self.host()?.setting("KVM's exits for each packet", three_digits(exits)))
    }

    /// Payload that arrived, in bit/s.
    pub(super) fn bits_per_second(&self) -> Option<f64> {
        self.receiver.view.rate(Unit::Bits).ok()
    }

    /// Busy time of the machine that an end is on which no node and no watched thread used, in percent of
    /// one core; interrupts aside.
    pub(super) fn foreign_percent(&self, end: &End<'a>) -> Option<f64> {
        let busy = end.machine().charged_percent_of_core.clone().ok()?;
        let mine = end.view.party?;
        let is_here = |party: &&Party| {
            party.place == mine.place
                || (mine.identity.boot_id.is_some()
                    && party.identity.boot_id == mine.identity.boot_id)
        };
        let nodes = self.trial.parties.iter().filter(is_here).filter_map(node_percent_of_core);
        let nodes: f64 = nodes.sum();
        let is_host =
            self.host().is_some_and(|host| host.view.party.is_some_and(|host| is_here(&host)));
        // What a neighbour takes is taken by another, planted as it may be.
        let in_path = self.guests().filter_map(|guest| self.qemu_of(guest)?.total().ok());
        let qemu = if is_host { in_path.sum() } else { 0.0 };
        Some((busy - nodes - qemu).max(0.0))
    }
}

impl Symptoms<'_> {
    /// The part of the datagrams sent that was lost, from 0 to 1; absent of other loads.
    pub(super) fn lost_share(&self) -> Option<f64> {
        if let Some(ledger) = &self.ledger {
            return Some(ledger.lost_share());
        }
        if !self.workload.kind.is_of_datagrams() {
            return None;
        }
        let [sent, received] = self.ends().map(End::datagrams);
        let sent = sent.filter(|sent| *sent > 0.0)?;
        Some((1.0 - received? / sent).max(0.0))
    }

    /// Whether so many datagrams are lost that the loss is what limits. A load at a rate that was asked
    /// for is meant to arrive; one at full speed finds the place where it loses.
    pub(super) fn loses(&self) -> bool {
        let least = if self.is_paced() { LOSS_OF_PACED } else { LOSS_THAT_LIMITS };
        self.lost_share().is_some_and(|lost| lost >= least)
    }

    /// Whether the load was asked to be no faster than a rate.
    pub(super) fn is_paced(&self) -> bool {
        let Workload { rate, datagrams_per_second, requests_per_second, pacing, .. } =
            self.workload;
        rate.is_some()
            || pacing.is_some()
            || datagrams_per_second.or(*requests_per_second).is_some()
    }

    /// What was lost at these places, where that is most of a loss that limits.
    pub(super) fn mostly_lost_at(&self, places: &[LossPlace]) -> Option<Vec<Fact>> {
        let ledger = self.ledger.as_ref().filter(|_| self.loses())?;
        let share: f64 = places.iter().map(|place| ledger.share_of_loss(*place)).sum();
        if share < MOST_OF_LOSS {
            return None;
        }
        let here = ledger.losses.iter().filter(|loss| places.contains(&loss.place));
        let told = here.map(|loss| {
            self.receiver.counter(
                format!("datagrams lost: {}", loss.place.title()),
                format!("{} of {} lost, {} sent", loss.datagrams, ledger.lost, ledger.sent),
            )
        });
        Some(told.collect())
    }

    /// Segments that TCP sent again, and how many it sent.
    pub(super) fn sent_again(&self) -> Option<[f64; 2]> {
        let read = |name: &str| self.sender.grown(&[name]);
        Some([read("TcpRetransSegs")?, read("TcpOutSegs")?])
    }

    /// The busiest thread of either end.
    pub(super) fn busiest_thread(&self) -> Option<f64> {
        let threads = self.ends().into_iter().filter_map(|end| Some(end.threads()?.awake()));
        threads.max_by(f64::total_cmp)
    }

    /// The part of the time with data under way in which the receivers' windows kept the senders from
    /// sending, from 0 to 1.
    pub(super) fn receive_window_limits(&self) -> Option<f64> {
        self.waited_for(|limits| limits.receive_window_us)
    }

    /// The same of the senders' own buffers.
    pub(super) fn send_buffer_limits(&self) -> Option<f64> {
        self.waited_for(|limits| limits.send_buffer_us)
    }

    fn waited_for(&self, read: fn(&TcpLimits) -> u64) -> Option<f64> {
        let (mut waited, mut busy) = (0_u64, 0_u64);
        for limits in self.sender.connections().filter_map(|connection| connection.limits) {
            waited = waited.saturating_add(read(&limits));
            busy = busy.saturating_add(limits.busy_us);
        }
        (busy > 0).then(|| waited as f64 / busy as f64)
    }

    /// The least round-trip time that any connection has seen, in seconds.
    pub(super) fn least_rtt_seconds(&self) -> Option<f64> {
        let times = self.sender.connections().filter_map(|connection| connection.least_rtt_us);
        times.min().map(|us| f64::from(us) / 1e6)
    }

    /// Whether the rate is about what a window as large as the buffers gives over the path's own delay:
    /// then the window is the limit and not who reads.
    pub(super) fn window_fits_delay(&self) -> bool {
        let buffer = || {
            let receive = self.receiver.outcome()?.socket_buffers?.receive_bytes;
            let send = self.sender.outcome()?.socket_buffers?.send_bytes;
            Some(receive.min(send) as f64)
        };
        let under_way = || {
            let streams = f64::from(self.workload.streams.max(1));
            Some(self.bits_per_second()? / 8.0 / streams * self.least_rtt_seconds()?)
        };
        match (buffer(), under_way()) {
            // Half of a buffer and less is for payload; a window below that is far from any delay's.
            (Some(buffer), Some(under_way)) => under_way >= buffer / 8.0,
            _ => false,
        }
    }
}
