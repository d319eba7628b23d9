//! `vioperf run` of a scenario whose testbed names a server: the same plan, record and report as in a lab.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vioperf_analysis::wording::count;
use vioperf_model::record::{RunEnding, TrialRecord};
use vioperf_model::scenario::Scenario;

use super::client::{Family, Machine, ToServer, Way};
use super::measure::{Job, Measured, measure};
use super::ssh::ToMachine;
use super::token::Token;
use crate::cli::RunArgs;
use crate::conductor::schedule::{Audience, Position};
use crate::exit::Failure;
use crate::live::Watch;
use crate::output::Output;
use crate::prepare;
use crate::progress::dashboard::Dashboard;
use crate::progress::{Onlooker, Recorder};
use crate::scenarios::Found;
use crate::store::{self, RunDirectory, StoreError};

/// What came of it.
#[derive(Debug)]
pub struct Stored {
    /// How it ended.
    pub how: RunEnding,
    /// Why the virtual machine that was changed is not as it was, if so.
    pub not_put_back: Option<anyhow::Error>,
}

/// Measures and stores it.
///
/// # Errors
/// What keeps it from being measured or stored.
pub fn run(
    found: Found,
    server: &str,
    directory: &Path,
    args: &RunArgs,
    output: &Output,
) -> Result<Stored, Failure> {
    let Found { origin, scenario, .. } = found;
    store::check_vacant(directory).map_err(|error| Failure::Usage(error.into()))?;
    let way = way(server).map_err(Failure::Usage)?;
    let plan = prepare::plan(&scenario, &BTreeSet::new());
    output.note(format_args!(
        "{}: {} x {} = {} (seed {})",
        scenario.name,
        count(plan.cells.len(), "cell"),
        prepare::blocks(&scenario.repeat),
        count(plan.trial_count(), "trial"),
        plan.seed,
    ));
    let dashboard = output.shows_status().then(|| Dashboard::new(output));
    let watch = dashboard.as_ref().map(|dashboard| -> &dyn Watch { dashboard });
    let blocks = plan.blocks.len();
    let job = Job {
        scenario: scenario.clone(),
        origin,
        seed: plan.seed,
        way,
        permission: args.allowed.permission(),
        output,
        watch,
    };
    let measured = measure(job, |info| {
        let directory = RunDirectory::create(directory, info)?;
        let dashboard = dashboard.as_ref();
        Ok(Records { directory, output, scenario: &scenario, blocks, dashboard, first_trial: None })
    })?;
    let Measured { info, audience, not_put_back } = measured;
    output.status("");
    if let Err(error) = audience.directory.write_info(&info) {
        // The records stand; a reader sees a run that did not end.
        output.warning(error);
    }
    let how = info.ended.map_or(RunEnding::Completed, |end| end.how);
    Ok(Stored { how, not_put_back })
}

/// How to get to a server, as a scenario names it.
fn way(server: &str) -> Result<Way> {
    let machine: Machine = server.parse().context("testbed.server")?;
    Ok(match machine {
        Machine::Ssh(destination) => {
            Way::Ssh(ToMachine { destination, address: None, patient: false })
        }
        Machine::Server(target) => {
            let token = Token::find(None)?;
            Way::Server(ToServer { target, family: Family::Any, token, tls: None })
        }
    })
}

/// Stores every record, then shows it.
struct Records<'a> {
    directory: RunDirectory,
    output: &'a Output,
    scenario: &'a Scenario,
    blocks: usize,
    dashboard: Option<&'a Dashboard<'a>>,
    first_trial: Option<(Instant, usize)>,
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Records<'_> {
    fn recorder(&self) -> Recorder<'_> {
        let &Self { ref directory, output, scenario, blocks, dashboard, first_trial } = self;
        let onlooker = dashboard.map(Onlooker::of_trials);
        let took_before = Duration::ZERO;
        Recorder { directory, output, scenario, blocks, took_before, onlooker, first_trial }
    }
}

impl Audience for Records<'_> {
    fn trial_begins(&mut self, position: &Position<'_>) {
        let mut recorder = self.recorder();
        recorder.trial_begins(position);
        self.first_trial = recorder.first_trial;
    }

    fn trial_ended(
        &mut self,
        position: &Position<'_>,
        record: &TrialRecord,
    ) -> Result<(), StoreError> {
        self.recorder().trial_ended(position, record)
    }
}
