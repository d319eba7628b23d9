//! The stage in earnest: a lab with a guest in it, kept standing from one trial to the next for as
//! long as it serves.

use std::time::Duration;

use anyhow::Result;
use nix::unistd::Pid;
use vioperf_lab::GuestPart;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::plan::Cell;
use vioperf_model::record::{CoreSpeed, GuestOrigin, GuestSetup, Place, SearchRecord};
use vioperf_model::scenario::{Neighbour, Reuse};
use vioperf_model::units::{CoreLoad, Ratio};
use vioperf_model::wire::WatchedProcess;
use vioperf_model::workload::{Workload, WorkloadKind};

use super::core_speed::Cores;
use super::disk_files::{DiskFiles, Owner};
use super::failed::Failed;
use super::hypervisor::GuestSupply;
use super::in_force;
use super::kvm::WatchedGuest;
use super::node_link::{NodeError, time_span};
use super::placement::Placements;
use super::schedule::{Attempt, AttemptEnd, Stage};
use super::search;
use super::standing::{Standing, bring_up};
use super::standing_guest::{StandingGuest, beside};
use super::trial::{self, Beside, Meanwhile, Measured, Nodes};
use crate::interrupt::{Interrupt, Urgency};
use crate::live::Watch;

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
    /// Who looks on.
    pub watch: Option<&'a dyn Watch>,
    /// The lab of the last trial, if it still stands.
    pub standing: Option<Standing>,
    /// Part of a core that the near end burns during trials, to check readings by.
    pub burn: Option<Ratio>,
    /// What disks' bytes are in, made as they are first wanted.
    pub disk_files: DiskFiles,
    /// Guests started so far: each gets an address of its own, so that no neighbour entry is stale.
    pub guests_started: u16,
}

impl Stage for LabStage<'_> {
    fn attempt(&mut self, cell: &Cell) -> Result<Attempt> {
        let mut standing = self.lab_for(cell)?;
        let ready = self.make_guests_ready(&mut standing, cell);
        let setup =
            match ready.and_then(|setup| self.give_disk(&mut standing, cell).map(|()| setup)) {
                Ok(setup) => setup,
                Err(failed) => return Ok(void(failed, None, true)),
            };
        let is_fresh = setup.as_ref().is_some_and(|setup| setup.origin != GuestOrigin::Reused);
        let (undisturbed, interrupt) = (self.undisturbed, self.interrupt);
        let given_up = || !undisturbed || interrupt.urgency() > Urgency::None;
        let before = self.cores.wait(given_up);
        let port = match standing.set_port(cell) {
            Ok(port) => port,
            Err(failed) => return Ok(void(failed, setup, false)),
        };
        let conducted = self.conduct(&mut standing, cell, is_fresh);
        let slowdown_after = self.cores.slowdown();
        let core_speed = before.map(|speed| CoreSpeed { slowdown_after, ..speed });
        match conducted {
            Ok((Measured { timeline, mut parties }, search)) => {
                let observer = parties.iter_mut().find(|party| party.place == Place::Host);
                observer.into_iter().for_each(|observer| observer.interface.clone_from(&port));
                let topology = match cell.is_baseline() {
                    true => cell.testbed.without_guests().topology(),
                    false => cell.testbed.topology(),
                };
                let not_in_force = || in_force::fault_in(topology, &parties);
                let misplaced = || in_force::misplaced(standing.lab.placement(), &parties);
                let fault = trial::fault_in(&parties).or_else(not_in_force).or_else(misplaced);
                let end = match fault {
                    None => AttemptEnd::Completed,
                    Some(reason) => {
                        let console_tail = standing.console_tail();
                        AttemptEnd::Void { reason, console_tail, never_ready: false }
                    }
                };
                // After a fault everything is made anew.
                self.standing = (end == AttemptEnd::Completed).then_some(standing);
                let timeline = Some(timeline);
                let storage = self.disk_files.facts_of(cell);
                Ok(Attempt { end, guest: setup, core_speed, storage, timeline, parties, search })
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
                for StandingGuest { endpoint, guest, .. } in &mut standing.others {
                    if let Some(fault) = guest.fault() {
                        failed.reason = format!("{}: {fault} ({})", endpoint.place, failed.reason);
                        failed.console_tail = guest.console_tail();
                    }
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
    let (core_speed, storage) = (None, None);
    Attempt { end, guest, core_speed, storage, timeline: None, parties: Vec::new(), search: None }
}

/// The nodes of the cell's path, and of what is beside it.
fn nodes<'a>(standing: &'a mut Standing, cell: &Cell, is_emulated: bool) -> Nodes<'a> {
    let Standing { guest, others, peer, second, host_end, host, lab, .. } = standing;
    let watched = |label: &str, pid: Pid| WatchedProcess { label: label.into(), pid: pid.as_raw() };
    let mut processes = Vec::new();
    let of_switch = lab.switch_processes();
    processes.extend(of_switch.iter().map(|(label, pid)| watched(label, *pid)));
    let open_vswitch = lab.switch_database();
    let mut watched_guest = None;
    let is_baseline = cell.is_baseline();
    let near = match guest {
        Some(StandingGuest { endpoint, guest, .. }) if !is_baseline => {
            processes.push(watched("qemu", guest.qemu_pid()));
            processes.extend(guest.processes().iter().map(|(label, pid)| watched(label, *pid)));
            watched_guest = Some(WatchedGuest { guest, is_emulated });
            endpoint
        }
        _ => {
            processes.push(watched("second", lab.second.process.pid()));
            second
        }
    };
    let mut far_guest = None;
    let mut beside = Vec::new();
    for StandingGuest { part, endpoint, guest, .. } in others.iter_mut().filter(|_| !is_baseline) {
        let Some(label) = endpoint.place.qemu_label() else { continue };
        processes.push(watched(label, guest.qemu_pid()));
        if *part == GuestPart::FarEnd {
            far_guest = Some(endpoint);
            continue;
        }
        let is_busy = *part == GuestPart::Neighbour && cell.testbed.neighbour == Neighbour::Busy;
        let meanwhile = match cell.workload.kind {
            _ if !is_busy => Meanwhile::Nothing,
            WorkloadKind::Disk => Meanwhile::SameDiskLoad,
            _ => Meanwhile::AllCores,
        };
        beside.push(Beside { endpoint, meanwhile });
    }
    let is_disk = cell.workload.kind == WorkloadKind::Disk;
    let has_far = !is_disk || cell.workload.background_load().is_some();
    let far = match (far_guest, host_end) {
        _ if !has_far => None,
        (Some(far), _) => Some(far),
        (None, Some(host_end)) => {
            processes.extend(lab.host_end.iter().map(|end| watched("host-end", end.process.pid())));
            Some(host_end)
        }
        (None, None) => {
            processes.push(watched("peer", lab.peer.process.pid()));
            Some(peer)
        }
    };
    Nodes {
        far,
        near,
        beside,
        host,
        burn: None,
        host_burn: None,
        processes,
        open_vswitch,
        guest: watched_guest,
        watch: None,
    }
}

impl LabStage<'_> {
    /// Makes the testbed of a cell as every trial of it finds it, and keeps it standing; what its guest is.
    ///
    /// # Errors
    /// When it cannot be had, with the last words of the guest that is to blame.
    pub fn make_ready(&mut self, cell: &Cell) -> Result<Option<GuestSetup>> {
        let mut standing = self.lab_for(cell)?;
        let made = self.make_guests_ready(&mut standing, cell);
        let made = made.and_then(|setup| standing.set_port(cell).map(|_| setup));
        let setup = made.map_err(Failed::into_error)?;
        self.standing = Some(standing);
        Ok(setup)
    }

    /// The lab that a cell needs, but for its guests: the one that stands, if that serves.
    fn lab_for(&mut self, cell: &Cell) -> Result<Standing> {
        self.sandbox.reap_orphans();
        let placement = self.placements.of(cell);
        match self.standing.take() {
            Some(standing) if standing.serves(cell, placement) => Ok(standing),
            // The old one goes first: two labs at once would share names and cores.
            old => {
                drop(old);
                bring_up(self.sandbox, cell, placement, self.interrupt)
            }
        }
    }

    fn conduct(
        &self,
        standing: &mut Standing,
        cell: &Cell,
        is_fresh: bool,
    ) -> Result<(Measured, Option<SearchRecord>), NodeError> {
        let (interrupt, watch) = (self.interrupt, self.watch);
        let is_emulated = self.supply.of(cell).is_some_and(|order| order.factory.is_emulated());
        let of_guest = cell.guest.as_ref().and_then(|guest| guest.load);
        let burn = self.burn.map(CoreLoad::from).or(of_guest);
        let host_burn = cell.testbed.host_load;
        let mut nodes = Nodes { burn, host_burn, watch, ..nodes(standing, cell, is_emulated) };
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
        let tell = |step: &str| {
            if let Some(watch) = watch {
                watch.step(step);
            }
        };
        let (measured, record) = search::conduct(&mut prober, &cell.workload, &tell)?;
        Ok((measured, Some(record)))
    }

    /// Sees to it that the guests which stand are those that the cell needs, and no other.
    fn make_guests_ready(
        &mut self,
        standing: &mut Standing,
        cell: &Cell,
    ) -> Result<Option<GuestSetup>, Failed> {
        let serves = |guest: &StandingGuest| guest.serves(GuestPart::UnderTest, cell);
        let is_kept = self.reuse.keeps_groups() && standing.guest.as_ref().is_some_and(serves);
        // A guest that idles would still take its share of the host.
        if !is_kept {
            standing.dismiss_guest(self.reuse)?;
        }
        standing.dismiss_others(cell, self.reuse)?;
        if !cell.has_guest() {
            return Ok(None);
        }
        for part in beside(cell) {
            if standing.other(part).is_some() {
                continue;
            }
            let guest = match standing.wake(part, cell)? {
                Some(woken) => woken,
                None => self.start(standing, cell, part)?.0,
            };
            standing.others.push(guest);
            if part == GuestPart::Forwarder {
                standing.route_far_ends(cell)?;
            }
        }
        let mut setup = match standing.guest.take().filter(|_| is_kept) {
            Some(guest) => standing.guest.insert(guest).reused(),
            None => match standing.wake(GuestPart::UnderTest, cell)? {
                Some(woken) => standing.guest.insert(woken).reused(),
                None => {
                    let (guest, setup) = self.start(standing, cell, GuestPart::UnderTest)?;
                    standing.guest = Some(guest);
                    setup
                }
            },
        };
        setup.others = standing.others.iter().map(StandingGuest::as_other).collect();
        Ok(Some(setup))
    }

    /// Gives a baseline's near end the file that guests' disks are in.
    fn give_disk(&mut self, standing: &mut Standing, cell: &Cell) -> Result<(), Failed> {
        standing.second.disk = None;
        if cell.workload.kind == WorkloadKind::Disk && cell.is_baseline() {
            let file = self.disk_files.of(cell, Owner::UnderTest, self.interrupt)?;
            standing.second.disk = Some(file.path());
        }
        Ok(())
    }

    /// Starts a guest where there is memory for it, or is again when others that rest have gone.
    fn start(
        &mut self,
        standing: &mut Standing,
        cell: &Cell,
        part: GuestPart,
    ) -> Result<(StandingGuest, GuestSetup), Failed> {
        if part == GuestPart::Forwarder {
            // They know the way by the one before.
            standing.resting.clear();
            standing.others.clear();
            standing.guest = None;
        }
        if let Some(order) = self.supply.of(cell) {
            standing.make_room_for(order.factory.shape.memory_mib);
        }
        self.start_guest(standing, cell, part)
    }
}
