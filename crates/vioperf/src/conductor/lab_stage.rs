//! The stage in earnest: a lab with a guest in it, kept standing from one trial to the next for as
//! long as it serves.

use std::time::Duration;

use anyhow::Result;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::plan::Cell;
use vioperf_model::record::{CoreSpeed, GuestOrigin, GuestSetup, SearchRecord};
use vioperf_model::scenario::Reuse;
use vioperf_model::units::Ratio;
use vioperf_model::wire::WatchedProcess;
use vioperf_model::workload::{Workload, WorkloadKind};

use super::core_speed::Cores;
use super::failed::Failed;
use super::hypervisor::GuestSupply;
use super::kvm::WatchedGuest;
use super::node_link::{NodeError, time_span};
use super::placement::Placements;
use super::schedule::{Attempt, AttemptEnd, Stage};
use super::search;
use super::standing::{Standing, bring_up};
use super::standing_guest::StandingGuest;
use super::trial::{self, Measured, Nodes};
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;

/// How long after a guest's channel closed it may take until QEMU is seen to have ended.
const DEATH_SHOWS: Duration = Duration::from_secs(1);

/// How much longer the first load of an emulated guest warms up: QEMU has yet to translate the code that
/// it takes, and the trial would be some 5 to 10 % slower than those behind it.
const FRESH_GUEST_WARMUP: Duration = Duration::from_millis(400);

/// Where trials happen.
pub struct LabStage<'a> {
    /// The sandbox that the lab lives in.
    pub sandbox: &'a Sandbox,
    /// What guests start from.
    pub supply: GuestSupply,
    /// Which cores the lab's threads are held to.
    pub placements: Placements,
    /// The cores whose speed is watched.
    pub cores: Cores,
    /// Whether a trial waits until nobody else uses them.
    pub undisturbed: bool,
    /// How long a guest serves.
    pub reuse: Reuse,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// Where the steps of a trial are shown.
    pub output: &'a Output,
    /// The lab of the last trial, if it still stands.
    pub standing: Option<Standing>,
    /// Part of a core that the near end burns during trials, to check readings by.
    pub burn: Option<Ratio>,
    /// Guests started so far: each gets an address of its own, so that no neighbour entry is stale.
    pub guests_started: u16,
}

impl Stage for LabStage<'_> {
    fn attempt(&mut self, cell: &Cell) -> Result<Attempt> {
        self.sandbox.reap_orphans();
        let placement = self.placements.of(cell);
        let mut standing = match self.standing.take() {
            Some(standing) if standing.serves(cell, placement) => standing,
            // The old one goes first: two labs at once would share names and cores.
            old => {
                drop(old);
                bring_up(self.sandbox, cell, placement, self.interrupt)?
            }
        };
        let setup = match self.make_guest_ready(&mut standing, cell) {
            Ok(setup) => setup,
            Err(failed) => return Ok(void(failed, None, true)),
        };
        let is_fresh = setup.as_ref().is_some_and(|setup| setup.origin != GuestOrigin::Reused);
        let (undisturbed, interrupt) = (self.undisturbed, self.interrupt);
        let given_up = || !undisturbed || interrupt.urgency() > Urgency::None;
        let before = self.cores.wait(given_up);
        let conducted = self.conduct(&mut standing, cell, is_fresh);
        let slowdown_after = self.cores.slowdown();
        let core_speed = before.map(|speed| CoreSpeed { slowdown_after, ..speed });
        match conducted {
            Ok((Measured { timeline, parties }, search)) => {
                let end = match trial::fault_in(&parties) {
                    None => AttemptEnd::Completed,
                    Some(reason) => {
                        let console_tail = standing.console_tail();
                        AttemptEnd::Void { reason, console_tail, never_ready: false }
                    }
                };
                // After a fault everything is made anew.
                self.standing = (end == AttemptEnd::Completed).then_some(standing);
                let timeline = Some(timeline);
                Ok(Attempt { end, guest: setup, core_speed, timeline, parties, search })
            }
            Err(error) => {
                let mut failed = Failed::of_node(&error);
                if let Some(standing_guest) = &mut standing.guest {
                    let patience = match error {
                        NodeError::Channel { .. } => DEATH_SHOWS,
                        _ => Duration::ZERO,
                    };
                    if let Some(fault) = standing_guest.guest.fault_within(patience) {
                        failed.reason = format!("{fault} ({})", failed.reason);
                    }
                    failed.console_tail = standing_guest.guest.console_tail();
                }
                Ok(void(failed, setup, false))
            }
        }
    }
}

fn void(failed: Failed, guest: Option<GuestSetup>, never_ready: bool) -> Attempt {
    let Failed { reason, console_tail, interrupted } = failed;
    let end = if interrupted {
        AttemptEnd::Interrupted
    } else {
        AttemptEnd::Void { reason, console_tail, never_ready }
    };
    let core_speed = None;
    Attempt { end, guest, core_speed, timeline: None, parties: Vec::new(), search: None }
}

/// The nodes of the cell's path.
fn nodes<'a>(standing: &'a mut Standing, cell: &Cell, is_emulated: bool) -> Nodes<'a> {
    let peer_pid = standing.lab.peer.process.pid().as_raw();
    let watched = |label: &str, pid: i32| WatchedProcess { label: label.to_owned(), pid };
    let mut processes = vec![watched("peer", peer_pid)];
    let of_switch = standing.lab.switch_processes();
    processes.extend(of_switch.iter().map(|(label, pid)| watched(label, pid.as_raw())));
    let open_vswitch = standing.lab.switch_database();
    let mut watched_guest = None;
    let near = match &mut standing.guest {
        Some(StandingGuest { endpoint, guest, .. }) if !cell.is_baseline() => {
            processes.push(watched("qemu", guest.qemu_pid().as_raw()));
            let serving = guest.processes();
            processes.extend(serving.iter().map(|(label, pid)| watched(label, pid.as_raw())));
            watched_guest = Some(WatchedGuest { guest, is_emulated });
            endpoint
        }
        _ => {
            processes.push(watched("second", standing.lab.second.process.pid().as_raw()));
            &mut standing.second
        }
    };
    let (peer, host) = (&mut standing.peer, &mut standing.host);
    Nodes { peer, near, host, burn: None, processes, open_vswitch, guest: watched_guest }
}

impl LabStage<'_> {
    fn conduct(
        &self,
        standing: &mut Standing,
        cell: &Cell,
        is_fresh: bool,
    ) -> Result<(Measured, Option<SearchRecord>), NodeError> {
        let (interrupt, output) = (self.interrupt, self.output);
        let is_emulated = self.supply.of(cell).is_some_and(|order| order.factory.is_emulated());
        let mut nodes = Nodes { burn: self.burn, ..nodes(standing, cell, is_emulated) };
        if cell.workload.kind != WorkloadKind::RateSearch {
            let mut workload = cell.workload.clone();
            if is_fresh && is_emulated {
                let warmup = workload.warmup.as_duration() + FRESH_GUEST_WARMUP;
                workload.warmup = time_span(warmup);
            }
            return Ok((trial::conduct(&mut nodes, &workload, interrupt)?, None));
        }
        let mut prober = |load: &Workload, drain: Duration| {
            trial::conduct_and_drain(&mut nodes, load, drain, interrupt)
        };
        let tell = |step: &str| output.status_step(step);
        let (measured, record) = search::conduct(&mut prober, &cell.workload, &tell)?;
        Ok((measured, Some(record)))
    }

    /// Sees to it that the guest which stands is the one that the cell needs, and no other.
    fn make_guest_ready(
        &mut self,
        standing: &mut Standing,
        cell: &Cell,
    ) -> Result<Option<GuestSetup>, Failed> {
        let serves = |standing: &StandingGuest| standing.built_for.shares_testbed_with(cell);
        let standing_guest = standing.guest.as_ref().filter(|guest| serves(guest));
        if let Some(guest) = standing_guest.filter(|_| self.reuse.keeps_groups()) {
            return Ok(Some(guest.reused()));
        }
        // A guest that idles would still take its share of the host.
        standing.dismiss_guest(self.reuse)?;
        let Some(model) = cell.nic else { return Ok(None) };
        if let Some(index) = standing.resting.iter().position(serves) {
            return Ok(Some(standing.wake_guest(index)?));
        }
        if let Some(order) = self.supply.of(cell) {
            standing.make_room_for(order.factory.shape.memory_mib);
        }
        let (guest, setup) = self.start_guest(&mut standing.lab, model, cell)?;
        standing.guest = Some(guest);
        Ok(Some(setup))
    }
}
