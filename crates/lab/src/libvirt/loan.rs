//! A domain with another NIC for as long as it is measured. It is given back as it was: the same
//! description to the byte, running or not as before.
//!
//! Every step can be the last: the journal is on the disk before the first one, and giving back works from
//! the journal alone.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use vioperf_model::libvirt::DomainInterface;

use super::domain_xml::{self, XmlError};
use super::edit::{Edit, EditError};
use super::journal::{Entry, Journal, JournalError, Left};
use super::list::{Found, is_up, state};
use super::virsh::{Virsh, VirshError};

/// How often a domain that shuts down is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is asked to: a guest that is still booting does not hear it.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// What may be done to a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long it may take to shut down.
    pub shut_down_within: Duration,
    /// Whether its plug is pulled when it does not.
    pub may_destroy: bool,
}

/// Why a domain could not be changed, or given back.
#[derive(Debug, thiserror::Error)]
pub enum LoanError {
    /// libvirt refused.
    #[error(transparent)]
    Virsh(#[from] VirshError),
    /// There is no journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The interface cannot be so.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Its description is none.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// It may not be changed as it is.
    #[error("the domain {name} cannot be changed: {reason}")]
    Unfit {
        /// Which.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// It goes on running.
    #[error(
        "the domain {name} did not shut down within {seconds} s: shut it down from inside (does it heed the \
         power button, or run qemu-guest-agent?), give it more time with --shut-down-within, or allow to pull its \
         plug with --allow-destroy"
    )]
    GoesOn {
        /// Which.
        name: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The user wants the end.
    #[error("interrupted")]
    Interrupted,
    /// It runs otherwise than it was told.
    #[error("libvirt started {name} with {now}, and not with {wanted} as it was told: see its log")]
    NotTaken {
        /// Which.
        name: String,
        /// What it was given.
        wanted: String,
        /// What it has.
        now: String,
    },
    /// libvirt made something else of its own description.
    #[error(
        "libvirt gives another description of {name} than before, although it was given its own: compare \
         `virsh dumpxml --inactive {name}` with {original}, and delete that folder when it is well"
    )]
    NotExact {
        /// Which.
        name: String,
        /// Where the original is.
        original: String,
    },
}

/// A domain that is lent.
#[derive(Debug)]
pub struct Loan {
    virsh: Virsh,
    journal: Journal,
    terms: Terms,
    original: String,
    /// What it was last given.
    standing: Option<Edit>,
}

/// Why the domain may not be changed, in all respects at once.
pub fn obstacles(virsh: &Virsh, found: &Found) -> Vec<String> {
    let mut all = Vec::new();
    if !found.is_persistent {
        all.push(
            "it is transient: libvirt keeps no definition that could be changed, and it is gone when it \
             stops; keep one with `virsh define`"
                .to_owned(),
        );
    }
    if found.has_managed_save {
        let save = "its memory is saved on the disk and would be started with other hardware than it knows; \
                    start it, or drop what is saved with `virsh managedsave-remove`";
        all.push(save.to_owned());
    }
    let known = ["running", "shut off"];
    if !known.contains(&found.facts.state.as_str()) {
        let state = &found.facts.state;
        all.push(format!("it is {state}: let it run, or shut it down"));
    }
    let job = virsh.ask(&["domjobinfo", "--domain", &found.facts.uuid]).unwrap_or_default();
    let is_busy = job.lines().filter_map(|line| line.split_once(':')).any(|(key, value)| {
        key.trim() == "Job type" && !["None", "Completed"].contains(&value.trim())
    });
    if found.is_up() && is_busy {
        all.push("libvirt is saving, migrating or copying it: wait for its end".to_owned());
    }
    all
}

impl Loan {
    /// Takes a domain: from here on it is given back whatever happens. Nothing is altered yet. `state` is
    /// vioperf's directory for the journal.
    ///
    /// # Errors
    /// When it may not be changed as it is, or the journal cannot be kept.
    pub fn take(
        virsh: &Virsh,
        found: &Found,
        interface: &str,
        terms: Terms,
        state: &Path,
    ) -> Result<Self, LoanError> {
        let facts = &found.facts;
        if let Some(reason) = obstacles(virsh, found).into_iter().next() {
            return Err(LoanError::Unfit { name: facts.name.clone(), reason });
        }
        let original = describe(virsh, &facts.uuid)?;
        let entry = Entry {
            uri: virsh.canonical_uri()?,
            uuid: facts.uuid.clone(),
            name: facts.name.clone(),
            interface: interface.to_owned(),
            ran: found.is_up(),
            altered: false,
        };
        let journal = Journal::begin(state, entry, &original)?;
        Ok(Self { virsh: virsh.clone(), journal, terms, original, standing: None })
    }

    /// Whether the domain runs with that NIC, so that nothing has to be altered.
    ///
    /// # Errors
    /// What libvirt refused.
    pub fn has(&self, edit: &Edit) -> Result<bool, LoanError> {
        let Entry { uuid, interface, .. } = self.journal.entry();
        match &self.standing {
            Some(standing) => Ok(standing == edit && is_up(&state(&self.virsh, uuid)?)),
            None => {
                let wanted = edit.apply(&self.original, interface)?;
                Ok(wanted == self.original && self.runs_as_described(&wanted)?)
            }
        }
    }

    /// Starts the domain with that NIC; `given_up` says when to wait no longer.
    ///
    /// # Errors
    /// What libvirt refused, or the guest did not do. The domain is still lent.
    pub fn give(&mut self, edit: &Edit, given_up: &dyn Fn() -> bool) -> Result<(), LoanError> {
        let Entry { uuid, interface, .. } = self.journal.entry().clone();
        let wanted = edit.apply(&self.original, &interface)?;
        self.journal.note_altered()?;
        self.standing = None;
        // Before the domain stops: what libvirt does not take costs no stop.
        let file = self.journal.keep_changed(&wanted)?;
        define(&self.virsh, &file)?;
        self.shut_down(given_up)?;
        self.virsh.order(&["start", "--domain", &uuid])?;
        let live = self.live()?;
        if edit.apply(&live, &interface)? != live {
            let now = self
                .interface_in(&live)?
                .map(|now| format!("{} on {}", now.model, now.connected_to()));
            let now = now.unwrap_or_else(|| "no such interface".to_owned());
            let (name, wanted) = (self.journal.entry().name.clone(), edit.to_string());
            return Err(LoanError::NotTaken { name, wanted, now });
        }
        self.standing = Some(edit.clone());
        Ok(())
    }

    /// Puts the domain back as it was. Where that fails the journal stays, and it can be done again.
    ///
    /// # Errors
    /// What libvirt refused, or the guest did not do.
    pub fn give_back(self, given_up: &dyn Fn() -> bool) -> Result<(), LoanError> {
        let Entry { uuid, name, ran, altered, .. } = self.journal.entry().clone();
        if altered {
            // The description first: whatever the guest does, its next start is as it was.
            define(&self.virsh, &self.journal.original())?;
            if describe(&self.virsh, &uuid)? != self.original {
                let original = self.journal.original().display().to_string();
                return Err(LoanError::NotExact { name, original });
            }
            let runs = is_up(&state(&self.virsh, &uuid)?);
            if runs && !(ran && self.runs_as_described(&self.original)?) {
                self.shut_down(given_up)?;
            }
            if ran && !is_up(&state(&self.virsh, &uuid)?) {
                self.virsh.order(&["start", "--domain", &uuid])?;
            }
        }
        Ok(self.journal.end()?)
    }

    /// Takes over what an earlier run left, to give it back.
    ///
    /// # Errors
    /// When that run still lives, or the journal cannot be read.
    pub fn take_over(left: Left, terms: Terms) -> Result<Self, LoanError> {
        let virsh = Virsh::new(Some(&left.entry.uri));
        let journal = left.take()?;
        let original = journal.read_original()?;
        Ok(Self { virsh, journal, terms, original, standing: None })
    }

    /// Whether the domain runs with the interface that a description gives it.
    fn runs_as_described(&self, xml: &str) -> Result<bool, LoanError> {
        if !is_up(&state(&self.virsh, &self.journal.entry().uuid)?) {
            return Ok(false);
        }
        let of = |xml: &str| -> Result<_, XmlError> {
            // What the host calls its tap is told of a running domain alone.
            let told = |it: DomainInterface| DomainInterface { target: None, ..it };
            Ok(self.interface_in(xml)?.map(told))
        };
        Ok(of(&self.live()?)? == of(xml)?)
    }

    /// What libvirt says of the running domain.
    fn live(&self) -> Result<String, VirshError> {
        self.virsh.ask(&["dumpxml", "--domain", &self.journal.entry().uuid])
    }

    /// The interface that is altered, as a description has it.
    fn interface_in(&self, xml: &str) -> Result<Option<DomainInterface>, XmlError> {
        let of = &self.journal.entry().interface;
        Ok(domain_xml::facts(xml)?.interfaces.into_iter().find(|found| found.mac == *of))
    }

    fn shut_down(&self, given_up: &dyn Fn() -> bool) -> Result<(), LoanError> {
        let Entry { uuid, name, .. } = self.journal.entry();
        let deadline = Instant::now() + self.terms.shut_down_within;
        let mut ask_at = Instant::now();
        while is_up(&state(&self.virsh, uuid)?) {
            if given_up() {
                return Err(LoanError::Interrupted);
            }
            let now = Instant::now();
            if now >= deadline {
                if !self.terms.may_destroy {
                    let seconds = self.terms.shut_down_within.as_secs();
                    return Err(LoanError::GoesOn { name: name.clone(), seconds });
                }
                self.virsh.order(&["destroy", "--domain", uuid])?;
                return Ok(());
            }
            if now >= ask_at {
                // It may have ended just now, or be about to.
                let _ = self.virsh.order(&["shutdown", "--domain", uuid]);
                ask_at = now + ASK_AGAIN;
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// What libvirt keeps of a domain, passwords included: what it is started with the next time.
fn describe(virsh: &Virsh, uuid: &str) -> Result<String, VirshError> {
    virsh.ask(&["dumpxml", "--domain", uuid, "--inactive", "--security-info"])
}

fn define(virsh: &Virsh, file: &Path) -> Result<(), VirshError> {
    let file = file.to_string_lossy();
    virsh.order(&["define", "--file", &file]).map(drop)
}
