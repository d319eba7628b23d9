//! A run that stopped goes on: what of it is left, and whether it may.

use std::path::Path;
use std::time::Instant;

use anyhow::anyhow;
use vioperf_analysis::provenance::{self, Change, Facts};
use vioperf_analysis::wording::count;
use vioperf_model::plan::Cell;
use vioperf_model::record::{HostFacts, RunEnd, RunEnding, RunInfo, Sitting, TrialRecord};

use crate::cli::{RunArgs, ScenarioChanges};
use crate::conductor::hypervisor::{GuestSupply, Ingredients};
use crate::conductor::schedule::{
    Attempt, AttemptEnd, Audience, Earlier, Position, Schedule, SoFar, Stage,
};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{RunClock, now};
use crate::provenance::host_facts;
use crate::store::{Line, RunDirectory, StoreError, StoredRun};

/// A run that stopped, opened to go on.
#[derive(Debug)]
pub struct Resumed {
    /// Where its records go; nobody else writes there.
    pub directory: RunDirectory,
    /// What is stored of it, a new budget applied.
    pub info: RunInfo,
    /// What was measured of it.
    pub earlier: Earlier,
    /// Whether it goes on although the machine changed.
    anyway: bool,
}

impl Resumed {
    /// Opens the run in `directory`, and repairs the end of its records.
    ///
    /// # Errors
    /// [`Failure::Usage`] where the command line asks for what a run that goes on cannot have, else
    /// what keeps the directory from being read and written.
    pub fn open(directory: &Path, args: &RunArgs, output: &Output) -> Result<Self, Failure> {
        check_options(args, directory)?;
        let (opened, stored, repair) = RunDirectory::reopen(directory).map_err(|error| {
            let is_usage = matches!(error, StoreError::NoRun(_) | StoreError::InUse(_));
            if is_usage { Failure::Usage(error.into()) } else { error.into() }
        })?;
        if let Some(repair) = repair {
            output.warning(format_args!("{}: {repair}", directory.display()));
        }
        let StoredRun { mut info, records } = stored;
        if info.scenario.testbed.server.is_some() {
            return Err(Failure::Usage(anyhow!(
                "{0} is one between two machines, which cannot be resumed: what it measured is kept (`vioperf report {0}` \
                 shows it), and the command that began it begins a new one",
                directory.display()
            )));
        }
        info.scenario.repeat.budget = args.changes.budget.or(info.scenario.repeat.budget);
        complete(&mut info);
        let mut earlier = Earlier::default();
        for line in records {
            match line? {
                Line::Record(record) => earlier.add(&info.plan, &record),
                Line::Damage(damage) => {
                    output.warning(format_args!("{damage}; its trial is measured anew"));
                }
            }
        }
        Ok(Self { directory: opened, info, earlier, anyway: args.resume_anyway })
    }

    /// How the run ends where it is, if nothing of it is left to measure.
    pub fn ending(&self) -> Option<RunEnding> {
        let interrupt = Interrupt::default();
        let ending = Schedule {
            plan: &self.info.plan,
            repeat: &self.info.scenario.repeat,
            block_estimate: std::time::Duration::ZERO,
            stage: &mut Closed,
            audience: &mut Closed,
            clock: &RunClock { started: Instant::now(), before: self.earlier.took() },
            interrupt: &interrupt,
            earlier: &self.earlier,
            so_far: SoFar::new(&self.info.plan, &self.info.scenario.repeat, &self.earlier),
        }
        .run();
        let is_left = matches!(ending, RunEnding::Interrupted { .. });
        (!is_left).then_some(ending)
    }

    /// Stores how the run ended, where that is not stored yet.
    ///
    /// # Errors
    /// What the system refused.
    pub fn end(&self, how: &RunEnding) -> Result<(), StoreError> {
        if self.info.ended.as_ref().is_some_and(|ended| ended.how == *how) {
            return Ok(());
        }
        let ended = Some(RunEnd { at: now(), how: how.clone() });
        self.directory.write_info(&RunInfo { ended, ..self.info.clone() })
    }

    /// Says what is behind.
    pub fn announce(&self, output: &Output) {
        let stopped = match &self.info.ended {
            None => "it was killed".to_owned(),
            Some(RunEnd { how: RunEnding::Interrupted { signal }, .. }) => {
                format!("it was interrupted by {signal}")
            }
            Some(RunEnd { how: RunEnding::Failed { message }, .. }) => {
                format!("it failed: {message}")
            }
            Some(RunEnd { how: RunEnding::BudgetUsed, .. }) => "its time was used up".to_owned(),
            Some(_) => "trials of it are missing".to_owned(),
        };
        output.note(format_args!(
            "{} goes on ({stopped}): {} of {} are done (seed {})",
            self.info.scenario.name,
            self.earlier.completed(),
            count(self.info.plan.trial_count(), "trial"),
            self.info.plan.seed,
        ));
    }

    /// Asks whether this machine is as it was, as far as that can be told before a guest is started.
    /// Settings of the network are those of the network namespace that it is asked in.
    ///
    /// # Errors
    /// [`Failure::Machine`] with what changed, unless the run is to go on anyway.
    pub fn check_machine(&self, ingredients: &[Ingredients]) -> Result<(), Failure> {
        let host = host_facts(Path::new("/"));
        let mut now = provenance::facts(env!("CARGO_PKG_VERSION"), &host, None);
        for Ingredients { name, qemu, kernel, .. } in ingredients {
            let (qemu, kernel) = (&qemu.version_line, &kernel.release);
            now.extend(provenance::guest_facts(name.as_deref(), qemu, kernel));
        }
        self.permit(&now).map(drop)
    }

    /// `run.json` for the sitting that begins.
    ///
    /// # Errors
    /// As [`Resumed::check_machine`].
    pub fn sitting(&self, supply: &GuestSupply) -> Result<RunInfo, Failure> {
        let (hypervisor, of_variants) = supply.facts(&self.info.plan);
        let host: HostFacts = host_facts(Path::new("/"));
        let version = env!("CARGO_PKG_VERSION");
        let mut facts = provenance::facts(version, &host, hypervisor.as_ref());
        facts.extend(provenance::variant_facts(&of_variants));
        let changes = self.permit(&facts)?;
        let mut info = self.info.clone();
        info.resumed.push(Sitting {
            at: now(),
            command_line: std::env::args().collect(),
            vioperf_version: version.to_owned(),
            host,
            hypervisor,
            first_sequence: self.earlier.next_sequence(),
            stopped: info.ended.take(),
            changes: changes.iter().map(ToString::to_string).collect(),
        });
        Ok(info)
    }

    fn permit(&self, now: &Facts) -> Result<Vec<Change>, Failure> {
        let RunInfo { vioperf_version, host, hypervisor, .. } = &self.info;
        let mut before = provenance::facts(vioperf_version, host, hypervisor.as_ref());
        before.extend(provenance::variant_facts(&self.info.variant_hypervisors));
        let changes = provenance::contradictions(&before, now);
        if changes.is_empty() || self.anyway {
            return Ok(changes);
        }
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Err(Failure::Machine(anyhow!(
            "this machine is not as it was when the run began:\n  - {}\nits results would be a mixture: make \
             it as it was, or start a new run; --resume-anyway goes on, and every report says so",
            changes.join("\n  - ")
        )))
    }
}

/// Gives the cells of a run from before cells held all of their own what they lack.
fn complete(info: &mut RunInfo) {
    let RunInfo { scenario, plan, .. } = info;
    for cell in plan.cells.iter_mut().filter(|cell| cell.nic.is_some() && cell.guest.is_none()) {
        let name = cell.variant_name();
        let variant = scenario.variants.iter().find(|variant| Some(variant.name.as_str()) == name);
        let (guest, placement) =
            (scenario.guest_of(variant), scenario.testbed_of(variant).placement);
        cell.guest = Some(guest);
        cell.testbed.placement = placement;
    }
}

/// Refuses what would make another run of it.
///
/// # Errors
/// [`Failure::Usage`] with the options that have to be left out.
pub fn check_options(args: &RunArgs, directory: &Path) -> Result<(), Failure> {
    let RunArgs { scenario, changes, out, .. } = args;
    // Every option is named, so that a new one is not forgotten.
    let ScenarioChanges {
        overrides,
        variant,
        blocks,
        goal,
        most_blocks,
        budget: _,
        scale,
        seed,
        kernel,
        qemu,
    } = changes;
    let given = [
        ("a scenario", scenario.is_some()),
        ("--set", !overrides.is_empty()),
        ("--variant", !variant.is_empty()),
        ("--blocks", blocks.is_some()),
        ("--goal", goal.is_some()),
        ("--most-blocks", most_blocks.is_some()),
        ("--scale", scale.is_some()),
        ("--seed", seed.is_some()),
        ("--kernel", kernel.is_some()),
        ("--qemu", qemu.is_some()),
        ("--out", out.is_some()),
    ];
    let given: Vec<&str> =
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if given.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(anyhow!(
        "--resume takes scenario, plan and place from {}, so that all trials are of one plan: leave out {}, \
         or start a new run with it",
        directory.display(),
        given.join(" and ")
    )))
}

/// A stage on which nothing is measured, to learn whether anything would be.
struct Closed;

impl Stage for Closed {
    fn attempt(&mut self, _: &Cell) -> anyhow::Result<Attempt> {
        let end = AttemptEnd::Interrupted;
        Ok(Attempt {
            end,
            guest: None,
            core_speed: None,
            storage: None,
            timeline: None,
            parties: Vec::new(),
            search: None,
        })
    }
}

impl Audience for Closed {
    fn trial_begins(&mut self, _: &Position<'_>) {}

    fn trial_ended(&mut self, _: &Position<'_>, _: &TrialRecord) -> Result<(), StoreError> {
        Ok(())
    }
}
