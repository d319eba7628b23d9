//! The virtual machine at the other end, where libvirt looks after it: what it is, whether it may be
//! changed, and that it is put back.

mod interface;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use vioperf_lab::libvirt::{self, Edit, FindError, Found, Left, Loan, LoanError, Terms, Virsh};
use vioperf_model::libvirt::{DomainInterface, DomainSource, LibvirtDomain, MeasuredDomain};
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::scenario::Scenario;
use vioperf_model::units::TimeSpan;

use super::client::Way;
use super::hypervisor::Whereabouts;
use super::ssh::Destination;
use super::stage::Ends;
use crate::exit::Failure;
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;
use crate::paths;

/// How long a guest may take to shut down where nothing else is said.
const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(60);

/// What the user allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permission {
    /// To shut the domain down, change it, start it and put it back.
    pub change: bool,
    /// To pull its plug where it does not shut down.
    pub destroy: bool,
    /// How long it may take to shut down; absent is a minute.
    pub shut_down_within: Option<TimeSpan>,
    /// How to get to the hypervisor; absent goes by libvirt's URI.
    pub hypervisor: Option<Destination>,
}

impl Permission {
    /// As the lab wants to know it.
    pub fn terms(&self) -> Terms {
        let within = self.shut_down_within.map_or(SHUT_DOWN_WITHIN, TimeSpan::as_duration);
        Terms { shut_down_within: within, may_destroy: self.destroy }
    }
}

/// A domain that is going to be measured.
#[derive(Debug)]
pub struct Domain {
    virsh: Virsh,
    found: Found,
    /// What is stored of it.
    pub measured: MeasuredDomain,
    /// Where its hypervisor is.
    pub whereabouts: Whereabouts,
}

/// Looks whether the domain of a scenario can be measured as it says; everything that is wrong is told at
/// once. Nothing is altered, but for what an earlier run left where change is allowed. The guest is asked (by `way`) only
/// where nobody else tells which interface is meant.
///
/// # Errors
/// What is wrong.
pub fn examine(
    scenario: &Scenario,
    permission: &Permission,
    way: &Way,
    output: &Output,
) -> Result<Option<Domain>, Failure> {
    let Some(wanted) = &scenario.testbed.libvirt else { return Ok(None) };
    let virsh = Virsh::new(wanted.uri.as_deref());
    let mut problems = Vec::new();
    let changes = scenario.changes_domain();
    if changes && !permission.change {
        problems.push(format!(
            "the scenario changes the NIC of the virtual machine {}, or what that is connected to: it is shut down and \
             started for that, and put back at the end: say --allow-change if it may",
            wanted.domain
        ));
    }
    let found = find(&virsh, wanted, permission, output, &mut problems);
    if let Some((uri, found)) = found {
        let whereabouts = match &permission.hypervisor {
            Some(destination) => Whereabouts::Ssh(destination.clone()),
            None => Whereabouts::of(&uri),
        };
        let ask = || mac_of_measured(way);
        let interface = interface::choose(&found, wanted, &way.addresses(), changes, &ask);
        let interface = interface.map_err(|problem| problems.push(problem)).ok().flatten();
        if changes {
            let obstacles = libvirt::obstacles(&virsh, &found).into_iter();
            let name = &found.facts.name;
            problems
                .extend(obstacles.map(|it| format!("the domain {name} cannot be changed: {it}")));
            problems.extend(edits(scenario, &found, interface.as_ref()));
            problems.extend(sources(&virsh, scenario, &whereabouts));
        }
        if problems.is_empty() {
            let domain = found.facts.clone();
            let interface = interface.map(|interface| interface.mac).unwrap_or_default();
            let measured = MeasuredDomain { uri, domain, interface, unreadable: None };
            return Ok(Some(Domain { virsh, found, measured, whereabouts }));
        }
    }
    Err(Failure::Machine(anyhow!(problems.join("\n       "))))
}

fn find(
    virsh: &Virsh,
    wanted: &LibvirtDomain,
    permission: &Permission,
    output: &Output,
    problems: &mut Vec<String>,
) -> Option<(String, Found)> {
    let found = virsh
        .canonical_uri()
        .map_err(FindError::from)
        .and_then(|uri| Ok((uri, libvirt::find(virsh, &wanted.domain)?)));
    let (uri, found) = found.map_err(|error| problems.push(error.to_string())).ok()?;
    match left_of(&found.facts.uuid) {
        Err(error) => problems.push(format!("{error:#}")),
        Ok(None) => return Some((uri, found)),
        Ok(Some(left)) if permission.change => {
            output.note(format_args!(
                "an earlier run was ended before it had put {} back: doing it now",
                left.entry.name
            ));
            match restore(left, permission.terms(), &Interrupt::default()) {
                Ok(()) => return libvirt::find(virsh, &found.facts.uuid).ok().map(|found| (uri, found)),
                Err(error) => problems.push(error.to_string()),
            }
        }
        Ok(Some(left)) => problems.push(format!(
            "the domain {} is not as its owner left it: an earlier run was ended before it had put it back; \
             `vioperf libvirt restore` does it",
            left.entry.name
        )),
    }
    None
}

fn left_of(uuid: &str) -> Result<Option<Left>> {
    let left = Left::all(&journals()?)?;
    Ok(left.into_iter().find(|left| left.entry.uuid == uuid))
}

/// Where journals are.
pub fn journals() -> Result<PathBuf> {
    paths::libvirt_journals().context("cannot keep a journal of what is changed")
}

/// Puts a domain back that an earlier run left.
///
/// # Errors
/// What libvirt refused, or the guest did not do; the journal stays then.
pub fn restore(left: Left, terms: Terms, interrupt: &Interrupt) -> Result<(), LoanError> {
    Loan::take_over(left, terms)?.give_back(&|| interrupt.urgency() > Urgency::None)
}

/// What the guest says of the interface that has the address which is measured, if it says anything.
fn mac_of_measured(way: &Way) -> Option<String> {
    let interrupt = Interrupt::default();
    let connection = way.connect(&interrupt).ok()?;
    let mut ends = Ends::greet(connection, &way.machine().to_string(), &interrupt).ok()?;
    let mac = ends.server_interface().map(|interface| interface.mac);
    ends.farewell();
    mac
}

/// What of its cells no interface can be, or this one cannot.
fn edits(scenario: &Scenario, found: &Found, interface: Option<&DomainInterface>) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    for cell in &Plan::new(scenario, 0).cells {
        let checked = edit(cell).and_then(|edit| match interface {
            Some(interface) => found.can_have(&edit, &interface.mac),
            None => Ok(()),
        });
        match checked {
            Err(error) if !wrong.contains(&error.to_string()) => wrong.push(error.to_string()),
            _ => {}
        }
    }
    wrong
}

/// Which of the sources of its cells are not there.
fn sources(virsh: &Virsh, scenario: &Scenario, whereabouts: &Whereabouts) -> Vec<String> {
    let is_here = *whereabouts == Whereabouts::Here;
    let plan = Plan::new(scenario, 0);
    let domains = plan.cells.iter().filter_map(|cell| cell.testbed.libvirt.as_ref());
    let mut wanted: Vec<&DomainSource> = domains.filter_map(|it| it.source.as_ref()).collect();
    let mut seen = Vec::new();
    wanted.retain(|source| {
        !seen.contains(source) && {
            seen.push(*source);
            true
        }
    });
    wanted.into_iter().filter_map(|source| libvirt::missing(virsh, source, is_here)).collect()
}

/// What the interface is to be in a cell.
fn edit(cell: &Cell) -> Result<Edit, libvirt::EditError> {
    let of_nic = match (cell.nic, &cell.guest) {
        (Some(model), Some(guest)) => {
            // Options are those of virtio: of a factor with other models beside it they mean that one.
            let options = guest.device_options.iter().filter(|_| model.name() == "virtio");
            Edit::new(model, options.map(|(name, value)| (name.as_str(), value.to_string())))?
        }
        _ => Edit::default(),
    };
    let domain = cell.testbed.libvirt.as_ref();
    Ok(of_nic.connected_to(domain.and_then(|domain| domain.source.clone())))
}

impl Domain {
    /// Takes it, to change it.
    ///
    /// # Errors
    /// When the journal cannot be kept.
    pub fn lend(&self, permission: &Permission) -> Result<Lent> {
        let interface = &self.measured.interface;
        let terms = permission.terms();
        let loan = Loan::take(&self.virsh, &self.found, interface, terms, &journals()?)?;
        Ok(Lent { loan, name: self.found.facts.name.clone() })
    }

    /// What the host calls its tap changes with every start.
    pub fn look_again(&mut self) {
        // What cannot be told now was told before, or is not known.
        if let Ok(found) = libvirt::find(&self.virsh, &self.measured.domain.uuid) {
            self.measured.domain = found.facts;
        }
    }

    /// The address that is measured is on the NIC with that MAC address, the guest says: then this is the
    /// interface under test. What is wrong with that, if anything.
    pub fn note_interface(&mut self, mac: &str) -> Option<String> {
        let measured = &mut self.measured;
        let has = |interface: &DomainInterface| interface.mac.eq_ignore_ascii_case(mac);
        let asked_for = !measured.interface.is_empty();
        if let Some(found) = measured.domain.interfaces.iter().find(|it| has(it)) {
            if !asked_for {
                measured.interface.clone_from(&found.mac);
            } else if measured.interface != found.mac {
                return Some(format!(
                    "the address that is measured is on {mac}, and not on {}, the interface that was named",
                    measured.interface
                ));
            }
            return None;
        }
        Some(format!(
            "the address that is measured is on an interface with the MAC address {mac}, and the domain {} has \
             none such: is it another machine, or is there a bridge in the guest?",
            measured.domain.name
        ))
    }
}

/// A domain that is changed for a while.
#[derive(Debug)]
pub struct Lent {
    loan: Loan,
    /// Its name.
    pub name: String,
}

impl Lent {
    /// What has to be done so that it runs with the NIC of a cell, connected as there; nothing where it does.
    ///
    /// # Errors
    /// What libvirt refused.
    pub fn lacks(&self, cell: &Cell) -> Result<Option<Edit>, LoanError> {
        let edit = edit(cell)?;
        Ok(if self.loan.has(&edit)? { None } else { Some(edit) })
    }

    /// Starts it so.
    ///
    /// # Errors
    /// What libvirt refused, or the guest did not do.
    pub fn give(&mut self, edit: &Edit, interrupt: &Interrupt) -> Result<(), LoanError> {
        self.loan.give(edit, &|| interrupt.urgency() > Urgency::AfterTrial)
    }

    /// Puts it back, whatever the user wants by now; one more signal ends that too.
    ///
    /// # Errors
    /// When it could not be put back: then `vioperf libvirt restore` can, later.
    pub fn give_back(self, interrupt: &Interrupt) -> Result<()> {
        let patience = interrupt.forgetting();
        let name = self.name;
        let returned = self.loan.give_back(&|| patience.urgency() > Urgency::None);
        returned.with_context(|| {
            format!("{name} is not as it was: `vioperf libvirt restore` puts it back")
        })
    }
}
