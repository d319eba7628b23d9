//! The stage of trials between two machines.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use vioperf_model::plan::Cell;
use vioperf_model::record::{Place, SearchRecord};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::workload::{Workload, WorkloadKind};

use super::client::{Connection, Way};
use super::domain::Domain;
use super::guest::GuestStage;
use super::hypervisor::Hypervisor;
use super::own_node::OwnNode;
use super::trial::{Conducted, End, conduct};
use crate::conductor::node_link::{NodeError, NodeLink};
use crate::conductor::schedule::{Attempt, AttemptEnd, Stage};
use crate::conductor::search;
use crate::conductor::trial::{Measured, fault_in};
use crate::interrupt::Interrupt;
use crate::live::Watch;
use crate::output::Output;

/// How long a node may take to answer for the first time.
const NODE_START: Duration = Duration::from_secs(10);

/// Both ends, as long as they serve.
#[derive(Debug)]
pub struct Ends {
    client: End,
    server: End,
    hypervisor: Option<Hypervisor>,
    /// Of the path, in bytes.
    mtu: u32,
    /// Ends with the stage.
    _own_node: OwnNode,
}

impl Ends {
    /// Starts a node here and greets the one there.
    ///
    /// # Errors
    /// When either does not answer.
    pub fn greet(connection: Connection, name: &str, interrupt: &Interrupt) -> Result<Self> {
        let (own_node, channel) = OwnNode::start(&[]).context("cannot start a node")?;
        let here = NodeLink::greet("this machine", channel, NODE_START, interrupt)?;
        let there = NodeLink::greet(name, connection.channel, NODE_START, interrupt)?;
        Ok(Self {
            client: End { place: Place::Client, link: here, address: connection.own },
            server: End { place: Place::Server, link: there, address: connection.server },
            hypervisor: None,
            mtu: connection.mtu,
            _own_node: own_node,
        })
    }

    /// Has the hypervisor of the server watched too, as far as it can be; why not, where it cannot.
    pub fn watch_hypervisor(&mut self, domain: &Domain, interrupt: &Interrupt) -> Option<String> {
        let uuid = &domain.measured.domain.uuid;
        let mut hypervisor = match Hypervisor::greet(&domain.whereabouts, interrupt) {
            Ok(hypervisor) => hypervisor,
            Err(error) => return Some(format!("{error:#}")),
        };
        let unseen = hypervisor.watch(uuid, interrupt).err();
        self.hypervisor = Some(hypervisor);
        unseen.map(|error| format!("QEMU's threads: {error}"))
    }

    /// The server's address, and the MTU of the path to it, in bytes.
    pub fn path(&self) -> (IpAddr, u32) {
        (self.server.address, self.mtu)
    }

    /// The interface of the server that has the address which is measured; nothing where none has.
    pub fn server_interface(&mut self) -> Option<InterfaceFacts> {
        self.server.link.interface_of(self.server.address).ok()
    }

    /// Says goodbye to the server, so that it need not wonder where we are.
    pub fn farewell(mut self) {
        self.server.link.farewell();
        if let Some(hypervisor) = self.hypervisor {
            hypervisor.farewell();
        }
    }

    fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.client.link.set_interrupt(interrupt);
        self.server.link.set_interrupt(interrupt);
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.set_interrupt(interrupt);
        }
    }
}

/// Where trials happen.
pub struct MachineStage<'a> {
    /// How to get to the server, again if need be.
    pub way: &'a Way,
    /// Both ends, if they still stand.
    pub ends: Option<Ends>,
    /// The virtual machine that the server is, where libvirt looks after it.
    pub guest: Option<GuestStage<'a>>,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// Who is told of the steps before a trial.
    pub output: &'a Output,
    /// Who looks on, each second.
    pub watch: Option<&'a dyn Watch>,
}

impl Stage for MachineStage<'_> {
    fn attempt(&mut self, cell: &Cell) -> Result<Attempt> {
        let setup = match &mut self.guest {
            Some(guest) => {
                match guest.make_ready(cell, &mut self.ends, self.way, self.interrupt, self.output)
                {
                    Ok(setup) => Some(setup),
                    Err(end) => return Ok(nothing(end)),
                }
            }
            None => None,
        };
        let mut ends = match self.ends.take() {
            Some(ends) => ends,
            None => {
                let connection = self.way.connect(self.interrupt)?;
                Ends::greet(connection, &self.way.machine().to_string(), self.interrupt)?
            }
        };
        let (Conducted { timeline, parties, fault }, search) =
            self.conduct(&mut ends, &cell.workload);
        let reason = fault.map(|fault| fault.to_string()).or_else(|| fault_in(&parties));
        let end = match reason {
            None => {
                ends.set_interrupt(self.interrupt);
                self.ends = Some(ends);
                AttemptEnd::Completed
            }
            // After a fault both ends are made anew.
            Some(reason) => AttemptEnd::Void { reason, console_tail: vec![], never_ready: false },
        };
        Ok(Attempt {
            end,
            guest: setup,
            core_speed: None,
            storage: None,
            timeline,
            parties,
            search,
        })
    }
}

fn nothing(end: AttemptEnd) -> Attempt {
    let (guest, core_speed, timeline, search) = (None, None, None, None);
    Attempt { end, guest, core_speed, storage: None, timeline, parties: Vec::new(), search }
}

impl MachineStage<'_> {
    fn conduct(&self, ends: &mut Ends, workload: &Workload) -> (Conducted, Option<SearchRecord>) {
        let watch = self.watch;
        let mut one_load = |load: &Workload, drain: Duration| {
            let pair = (&mut ends.client, &mut ends.server);
            conduct(pair, ends.hypervisor.as_mut(), load, drain, self.interrupt, watch)
        };
        if workload.kind != WorkloadKind::RateSearch {
            return (one_load(workload, Duration::ZERO), None);
        }
        let mut prober = |load: &Workload, drain: Duration| {
            let Conducted { timeline, parties, fault } = one_load(load, drain);
            match (fault, timeline) {
                (None, Some(timeline)) => Ok(Measured { timeline, parties }),
                (fault, _) => Err(fault.unwrap_or(NodeError::Interrupted)),
            }
        };
        let tell = |step: &str| {
            if let Some(watch) = watch {
                watch.step(step);
            }
        };
        match search::conduct(&mut prober, workload, &tell) {
            Ok((Measured { timeline, parties }, record)) => {
                (Conducted { timeline: Some(timeline), parties, fault: None }, Some(record))
            }
            Err(fault) => {
                (Conducted { timeline: None, parties: Vec::new(), fault: Some(fault) }, None)
            }
        }
    }
}

impl Drop for MachineStage<'_> {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            ends.farewell();
        }
    }
}
