//! The stage of trials between two machines.

use std::time::Duration;

use anyhow::{Context, Result};
use vioperf_model::plan::Cell;
use vioperf_model::record::{Place, SearchRecord};
use vioperf_model::workload::{Workload, WorkloadKind};

use super::client::{Connection, Way};
use super::own_node::OwnNode;
use super::trial::{Conducted, End, conduct};
use crate::conductor::node_link::{NodeError, NodeLink};
use crate::conductor::schedule::{Attempt, AttemptEnd, Stage};
use crate::conductor::search;
use crate::conductor::trial::{Measured, fault_in};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How long a node may take to answer for the first time.
const NODE_START: Duration = Duration::from_secs(10);

/// Both ends, as long as they serve.
#[derive(Debug)]
pub struct Ends {
    client: End,
    server: End,
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
            _own_node: own_node,
        })
    }

    /// Says goodbye to the server, so that it need not wonder where we are.
    pub fn farewell(mut self) {
        self.server.link.farewell();
    }
}

/// Where trials happen.
#[derive(Debug)]
pub struct MachineStage<'a> {
    /// How to get to the server, again if need be.
    pub way: &'a Way,
    /// Both ends, if they still stand.
    pub ends: Option<Ends>,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// Who is told, each second.
    pub output: &'a Output,
    /// Whether anybody is.
    pub tells: bool,
}

impl Stage for MachineStage<'_> {
    fn attempt(&mut self, cell: &Cell) -> Result<Attempt> {
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
                ends.client.link.set_interrupt(self.interrupt);
                ends.server.link.set_interrupt(self.interrupt);
                self.ends = Some(ends);
                AttemptEnd::Completed
            }
            // After a fault both ends are made anew.
            Some(reason) => AttemptEnd::Void { reason, console_tail: vec![], never_ready: false },
        };
        Ok(Attempt { end, guest: None, core_speed: None, timeline, parties, search })
    }
}

impl MachineStage<'_> {
    fn conduct(&self, ends: &mut Ends, workload: &Workload) -> (Conducted, Option<SearchRecord>) {
        let (output, tells) = (self.output, self.tells);
        let mut tell = |line: String| {
            if tells {
                output.note(line);
            }
        };
        let mut one_load = |load: &Workload, drain: Duration| {
            let pair = (&mut ends.client, &mut ends.server);
            conduct(pair, load, drain, self.interrupt, &mut tell)
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
        match search::conduct(&mut prober, workload, &|step| output.status_step(step)) {
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
