//! A virtual machine of libvirt's between trials: it has the NIC that the next cell needs, it answers, and
//! what bound its NIC is what was asked for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use vioperf_lab::libvirt::LoanError;
use vioperf_model::libvirt::DomainInterface;
use vioperf_model::plan::Cell;
use vioperf_model::record::{GuestOrigin, GuestSetup};

use super::client::{Connection, Way};
use super::domain::{Domain, Lent};
use super::stage::Ends;
use crate::conductor::hypervisor::milliseconds;
use crate::conductor::schedule::AttemptEnd;
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;

/// How often a guest that boots is tried.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The virtual machine at the other end.
#[derive(Debug)]
pub struct GuestStage<'a> {
    /// What it is.
    pub domain: &'a mut Domain,
    /// The right to change it; absent where it is measured as it is.
    pub lent: Option<&'a mut Lent>,
    /// How long it may take to answer after its start.
    pub ready_within: Duration,
    /// How it came about, where that was before the first trial.
    pub met: Option<GuestSetup>,
}

impl GuestStage<'_> {
    /// Sees to it that the guest which answers is the one that the cell needs.
    ///
    /// # Errors
    /// How the attempt ends without one.
    pub fn make_ready(
        &mut self,
        cell: &Cell,
        ends: &mut Option<Ends>,
        way: &Way,
        interrupt: &Interrupt,
        output: &Output,
    ) -> Result<GuestSetup, AttemptEnd> {
        let began = Instant::now();
        let is_fresh = self.have(cell, ends, interrupt, output)?;
        if ends.is_none() {
            let connection = self.connect(way, is_fresh, interrupt).map_err(never_ready)?;
            let name = way.machine().to_string();
            let mut fresh = Ends::greet(connection, &name, interrupt).map_err(never_ready)?;
            self.domain.look_again();
            self.domain.measured.unreadable = fresh.watch_hypervisor(self.domain, interrupt);
            if let Some(reason) = self.wrong_interface(cell, &mut fresh) {
                return Err(void(reason));
            }
            *ends = Some(fresh);
        }
        if let Some(met) = self.met.take().filter(|_| !is_fresh) {
            return Ok(met);
        }
        let ready_ms = is_fresh.then(|| milliseconds(began.elapsed()));
        let origin = if is_fresh { GuestOrigin::Booted } else { GuestOrigin::Reused };
        let interface = self.domain.measured.interface();
        let port = interface.and_then(|interface| interface.target.clone());
        let path = interface.map(path);
        Ok(GuestSetup { ready_ms, path, port, ..GuestSetup::of(origin) })
    }

    /// Makes it ready before the first trial: what its path is like has to be known for the plan. Where a cell's
    /// guest does not come off, that of the next one is tried; the trials tell why.
    ///
    /// # Errors
    /// When none comes off.
    pub fn meet(
        &mut self,
        cells: &[&Cell],
        way: &Way,
        interrupt: &Interrupt,
        output: &Output,
    ) -> Result<Ends> {
        let mut ends = None;
        let mut why = "the scenario has no cell to measure".to_owned();
        for cell in cells {
            match self.make_ready(cell, &mut ends, way, interrupt, output) {
                Ok(setup) => self.met = Some(setup),
                Err(AttemptEnd::Void { reason, .. }) => why = reason,
                Err(_) => bail!("interrupted before the first trial: nothing was measured"),
            }
            if let Some(ends) = ends {
                return Ok(ends);
            }
        }
        bail!("{why}")
    }

    /// Whether it had to be started for that.
    fn have(
        &mut self,
        cell: &Cell,
        ends: &mut Option<Ends>,
        interrupt: &Interrupt,
        output: &Output,
    ) -> Result<bool, AttemptEnd> {
        let Some(lent) = &mut self.lent else { return Ok(false) };
        let failed = |error| match error {
            LoanError::Interrupted => AttemptEnd::Interrupted,
            error => void(error.to_string()),
        };
        let Some(edit) = lent.lacks(cell).map_err(failed)? else { return Ok(false) };
        // Its node ends in good order, not by the guest's shutting down.
        if let Some(ends) = ends.take() {
            ends.farewell();
        }
        output.status_step(&format!("{} is started with {edit}", lent.name));
        lent.give(&edit, interrupt).map_err(failed)?;
        Ok(true)
    }

    /// A guest that was just started is waited for.
    fn connect(&self, way: &Way, is_fresh: bool, interrupt: &Interrupt) -> Result<Connection> {
        if !is_fresh {
            return way.connect(interrupt);
        }
        let patient = way.patiently();
        let deadline = Instant::now() + self.ready_within;
        loop {
            match patient.connect(interrupt) {
                Err(_) if Instant::now() < deadline && interrupt.urgency() < Urgency::Now => {
                    thread::sleep(TRY_AGAIN);
                }
                // The last time it says what is wrong.
                Err(_) => return way.connect(interrupt),
                connected => return connected,
            }
        }
    }

    /// A number for another interface or driver would be worse than none.
    fn wrong_interface(&self, cell: &Cell, ends: &mut Ends) -> Option<String> {
        // As it is it has what it has.
        self.lent.as_ref()?;
        let Some(facts) = ends.server_interface() else {
            return Some(
                "the guest does not tell which interface has the address that is measured, so not that it is the one \
                 that was changed"
                    .to_owned(),
            );
        };
        let asked = &self.domain.measured.interface;
        if !facts.mac.eq_ignore_ascii_case(asked) {
            return Some(format!(
                "the address that is measured is on the guest's {} ({}), and not on the NIC that is changed \
                 ({asked})",
                facts.name, facts.mac
            ));
        }
        let model = cell.nic?;
        let wanted = model.row().driver;
        match facts.driver.as_deref() {
            Some(driver) if driver == wanted => None,
            Some(driver) => Some(format!(
                "the guest bound the driver {driver}, but the model {model} needs {wanted}"
            )),
            None => Some(format!("the guest does not tell which driver its {model} NIC has bound")),
        }
    }
}

/// The way of its frames on the hypervisor.
fn path(interface: &DomainInterface) -> String {
    let tap = interface.target.as_deref().unwrap_or("no tap");
    let backend = interface.backend.as_deref().map(|backend| format!(" by {backend}"));
    let backend = backend.unwrap_or_default();
    format!("{}{backend}, {tap}, {}", interface.model, interface.connected_to())
}

fn void(reason: String) -> AttemptEnd {
    AttemptEnd::Void { reason, console_tail: Vec::new(), never_ready: true }
}

#[expect(clippy::needless_pass_by_value, reason = "it ends here")]
fn never_ready(error: anyhow::Error) -> AttemptEnd {
    void(format!("{error:#}"))
}
