//! Inside of a lab that stands: answers visitors, until it is to end.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};
use nix::unistd::geteuid;
use vioperf_lab::sandbox::Sandbox;
use vioperf_lab::visit::Doors;
use vioperf_model::record::Place;

use super::building::Wanted;
use super::message::{self, Answer, MessageError, Request};
use super::parts;
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
            let mut fds = [PollFd::new(self.claim.listener().as_fd(), PollFlags::POLLIN)];
            if matches!(poll(&mut fds, PollTimeout::from(LOOK_MS)), Ok(1..)) {
                self.receive_visitor();
            }
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
                self.output.warning(format_args!("{}: {fault}\n  {tail}", parts::name(place)));
            }
        }
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
            Ok((request, _)) => self.answer(&visitor, &request),
            // One that only looked whether somebody is there.
            Err(MessageError::Gone) => Ok(()),
            Err(error) => message::send(&visitor, &Answer::Refused(error.to_string()), &[]),
        };
        match answered {
            // Nobody is left to be told.
            Ok(()) | Err(MessageError::Gone) => {}
            Err(error) => self.output.warning(format_args!("a visitor was not answered: {error}")),
        }
    }

    fn answer(&self, visitor: &OwnedFd, request: &Request) -> Result<(), MessageError> {
        let refused = |reason: String| message::send(visitor, &Answer::Refused(reason), &[]);
        let Some(standing) = &self.stage.standing else {
            return refused("nothing stands".to_owned());
        };
        match request {
            Request::Describe => {
                message::send(visitor, &Answer::Description(self.describe(standing)), &[])
            }
            Request::Enter { part } => match self.doors(standing, part) {
                Ok(doors) => message::send(visitor, &Answer::Doors, &doors.descriptors()),
                Err(reason) => refused(reason),
            },
        }
    }

    fn describe(&self, standing: &Standing) -> parts::Description {
        let left = self.until.saturating_duration_since(Instant::now());
        self.wanted.describe(standing, left.as_secs())
    }

    /// The namespaces of a part that is in processes of the host.
    fn doors(&self, standing: &Standing, part: &str) -> Result<Doors, String> {
        let ends = standing.ends_on_host();
        let ends = ends.into_iter().map(|(end, pid)| (end.place, pid));
        let observer = (Place::Host, standing.lab().observer.process.pid());
        let found = ends.chain([observer]).find(|(place, _)| parts::is_called(*place, part));
        let Some((_, pid)) = found else {
            let known = self.describe(standing).parts;
            let known = known.iter().filter(|part| !part.place.is_in_guest());
            let known: Vec<&str> = known.map(|part| parts::name(part.place)).collect();
            return Err(format!("no shell leads into `{part}`, but into: {}", known.join(", ")));
        };
        Doors::of(self.sandbox, pid).map_err(|error| error.to_string())
    }
}
