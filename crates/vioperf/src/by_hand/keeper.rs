//! Inside of a lab that stands: answers visitors, until it is to end.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};
use nix::unistd::geteuid;
use vioperf_lab::sandbox::Sandbox;
use vioperf_lab::visit::{Doors, VisitError};
use vioperf_model::record::Place;

use super::building::{Wanted, parts_of};
use super::message::{self, Answer, MessageError, Request};
use super::parts::{Description, is_called, name};
use super::roll::Claim;
use crate::conductor::lab_stage::LabStage;
use crate::conductor::standing::Standing;
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;

/// How often it is looked whether the lab is to end.
const LOOK_MS: u8 = 100;

/// How often guests and what visitors left behind are looked after.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long a visitor may take to say what it wants.
const VISITOR_SPEAKS: Duration = Duration::from_secs(1);

/// Why a lab goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Somebody asked for it.
    Asked,
    /// It has stood for as long as it was to.
    Time,
}

/// A lab that stands, and what is needed to tell of it.
pub struct Keeper<'a> {
    /// The sandbox it is in.
    pub sandbox: &'a Sandbox,
    /// What it was made from.
    pub wanted: &'a Wanted,
    /// Its name and socket.
    pub claim: &'a Claim,
    /// Where it stands.
    pub stage: LabStage<'a>,
    /// When it goes down by itself.
    pub until: Instant,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// Where is told what happens to it.
    pub output: &'a Output,
    /// Visitors in guests.
    pub shells: Vec<Shell>,
    /// The number of the next one's port.
    pub next_shell: u32,
}

impl Keeper<'_> {
    /// What a person is told when it stands.
    pub fn in_words(&self) -> String {
        let described = self.stage.standing.as_ref().map(|standing| self.describe(standing));
        described.map(|described| described.in_words(self.claim.name())).unwrap_or_default()
    }

    /// Answers visitors, until the lab is to end.
    pub fn keep(&mut self) -> Over {
        let mut dead: Vec<Place> = Vec::new();
        let mut look_after_at = Instant::now();
        loop {
            if self.interrupt.urgency() > Urgency::None {
                return Over::Asked;
            }
            if Instant::now() >= self.until {
                return Over::Time;
            }
            self.await_visitors();
            self.end_shells();
            self.receive_visitor();
            if Instant::now() >= look_after_at {
                self.sandbox.reap_visitors();
                self.look_after_guests(&mut dead);
                look_after_at = Instant::now() + LOOK_AFTER;
            }
        }
    }

    /// Says once of every guest that it has died; the rest stands on.
    fn look_after_guests(&mut self, dead: &mut Vec<Place>) {
        let Some(standing) = &mut self.stage.standing else { return };
        for (place, guest) in standing.guests_mut() {
            if dead.contains(&place) {
                continue;
            }
            if let Some(fault) = guest.fault() {
                dead.push(place);
                let tail = guest.console_tail().join("\n  ");
                self.output.warning(format_args!("{}: {fault}\n  {tail}", name(place)));
            }
        }
    }

    /// Waits a moment for one to come, or to leave.
    fn await_visitors(&self) {
        let left =
            self.shells.iter().map(|shell| PollFd::new(shell.visitor.as_fd(), PollFlags::empty()));
        let come = PollFd::new(self.claim.listener().as_fd(), PollFlags::POLLIN);
        let mut fds: Vec<PollFd<'_>> = left.chain([come]).collect();
        // Whether somebody did is looked at afterwards.
        let _ = poll(&mut fds, PollTimeout::from(LOOK_MS));
    }

    fn receive_visitor(&mut self) {
        let accepted = accept4(self.claim.listener().as_raw_fd(), SockFlag::SOCK_CLOEXEC);
        let Ok(number) = accepted else { return };
        // SAFETY: the kernel has just opened it for us alone.
        let visitor = unsafe { OwnedFd::from_raw_fd(number) };
        // In the lab's own user namespace the user is root, and everybody else nobody.
        let is_own = getsockopt(&visitor, sockopt::PeerCredentials)
            .is_ok_and(|who| who.uid() == geteuid().as_raw());
        if !is_own {
            return;
        }
        let answered = match message::receive::<Request>(&visitor, VISITOR_SPEAKS) {
            Ok((Request::Describe, _)) => self.describe_to(&visitor),
            Ok((Request::Enter { part }, _)) => self.let_in(visitor, &part),
            // One that only looked whether somebody is there.
            Err(MessageError::Gone) => Ok(()),
            Err(error) => refuse(&visitor, &error.to_string()),
        };
        match answered {
            // Nobody is left to be told.
            Ok(()) | Err(MessageError::Gone) => {}
            Err(error) => self.output.warning(format_args!("a visitor was not answered: {error}")),
        }
    }

    fn describe_to(&self, visitor: &OwnedFd) -> Result<(), MessageError> {
        match &self.stage.standing {
            Some(standing) => {
                let description = self.describe(standing);
                message::send(visitor, &Answer::Description(description), &[])
            }
            None => refuse(visitor, "nothing stands"),
        }
    }

    fn describe(&self, standing: &Standing) -> Description {
        let left = self.until.saturating_duration_since(Instant::now());
        self.wanted.describe(standing, left.as_secs())
    }

    /// Gives a visitor the way into a part.
    fn let_in(&mut self, visitor: OwnedFd, part: &str) -> Result<(), MessageError> {
        let Some(standing) = &mut self.stage.standing else {
            return refuse(&visitor, "nothing stands");
        };
        let parts = parts_of(standing);
        let Some(place) = parts.iter().map(|part| part.place).find(|place| is_called(*place, part))
        else {
            let known: Vec<&str> = parts.iter().map(|part| name(part.place)).collect();
            return refuse(
                &visitor,
                &format!("the lab has no part `{part}`, but: {}", known.join(", ")),
            );
        };
        if !place.is_in_guest() {
            return match doors(self.sandbox, standing, place) {
                Ok(doors) => message::send(&visitor, &Answer::Doors, &doors.descriptors()),
                Err(error) => refuse(&visitor, &error.to_string()),
            };
        }
        if let Some(reason) = self.wanted.why_no_shells() {
            return refuse(&visitor, reason);
        }
        let Some((_, guest)) = standing.guests_mut().find(|(own, _)| *own == place) else {
            return refuse(&visitor, "the guest has gone");
        };
        if let Some(fault) = guest.fault() {
            return refuse(&visitor, &fault.to_string());
        }
        let number = self.next_shell;
        self.next_shell = self.next_shell.wrapping_add(1);
        match guest.plug_shell_port(number) {
            Ok(channel) => {
                let sent = message::send(&visitor, &Answer::Channel, &[channel.as_raw_fd()]);
                self.shells.push(Shell { visitor, place, number });
                sent
            }
            Err(error) => refuse(&visitor, &error.to_string()),
        }
    }

    /// Takes the ports of visitors away that have left.
    fn end_shells(&mut self) {
        let Some(standing) = &mut self.stage.standing else { return };
        let (left, stay): (Vec<Shell>, Vec<Shell>) =
            std::mem::take(&mut self.shells).into_iter().partition(Shell::has_left);
        self.shells = stay;
        for Shell { place, number, .. } in left {
            let guest = standing.guests_mut().find(|(own, _)| *own == place);
            if let Some(Err(error)) = guest.map(|(_, guest)| guest.unplug_shell_port(number)) {
                self.output.warning(format_args!("{}: {error}", name(place)));
            }
        }
    }
}

/// A visitor in a guest.
#[derive(Debug)]
pub struct Shell {
    /// Open for as long as the visitor is there.
    visitor: OwnedFd,
    place: Place,
    /// Of its port.
    number: u32,
}

impl Shell {
    /// What it says meanwhile is not listened to.
    fn has_left(&self) -> bool {
        let mut fds = [PollFd::new(self.visitor.as_fd(), PollFlags::empty())];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
    }
}

fn refuse(visitor: &OwnedFd, reason: &str) -> Result<(), MessageError> {
    message::send(visitor, &Answer::Refused(reason.to_owned()), &[])
}

/// The namespaces of a part that is in processes of the host.
fn doors(sandbox: &Sandbox, standing: &Standing, place: Place) -> Result<Doors, VisitError> {
    let observer = standing.lab().observer.process.pid();
    let ends = standing.ends_on_host();
    let end = ends.into_iter().find(|(end, _)| end.place == place);
    Doors::of(sandbox, end.map_or(observer, |(_, pid)| pid))
}
