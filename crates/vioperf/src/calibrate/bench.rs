//! The lab that is measured in, and single trials in it, read the way that a run's are.

use std::fmt;

use anyhow::anyhow;
use vioperf_analysis::analyse;
use vioperf_analysis::result::{CellAnalysis, Metric};
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::nic::NicModel;
use vioperf_model::plan::Plan;
use vioperf_model::record::{HostFacts, Outcome, RunInfo, SCHEMA_VERSION, TrialRecord};
use vioperf_model::scenario::{Factors, Guest, Repeat, Scenario, Testbed};
use vioperf_model::units::{BitRate, Ratio, TimeSpan};
use vioperf_model::wire::Impairment;
use vioperf_model::workload::{Workload, WorkloadKind};

use crate::conductor::lab_stage::LabStage;
use crate::conductor::schedule::{Attempt, AttemptEnd, Stage};
use crate::interrupt::Urgency;
use crate::output::Output;
use crate::progress::now;

/// How often a trial is tried that does not come off.
const ATTEMPTS: u32 = 2;

/// Which way the load goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Between two namespaces of the host, over the switch.
    Host,
    /// Between a namespace and a guest.
    Guest,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "on the host",
            Self::Guest => "with a guest",
        })
    }
}

/// Why something was not measured.
#[derive(Debug)]
pub(super) enum Trouble {
    /// This one thing: it is left out.
    NotMeasured(String),
    /// Nor will anything else be.
    End(anyhow::Error),
}

/// A lab in which single trials are made.
pub struct Bench<'a> {
    /// Where trials happen.
    pub stage: LabStage<'a>,
    /// What the guests of the lab are like.
    pub guest: Guest,
    /// The guests' NIC; absent where no guest can be had, or any more.
    pub nic: Option<NicModel>,
    /// The host.
    pub host: HostFacts,
    /// Fewer and shorter trials.
    pub quick: bool,
    /// Where progress is told.
    pub output: &'a Output,
}

/// A trial that counts, and what it was read as.
pub(super) struct Trial {
    pub record: TrialRecord,
    pub cell: CellAnalysis,
}

/// What a trial is made with.
#[derive(Clone)]
pub(super) struct Wanted {
    pub path: Path,
    pub workload: Workload,
    /// What the link is held to.
    pub link: Option<BitRate>,
    /// What the near end burns meanwhile.
    pub burn: Option<Ratio>,
}

impl Wanted {
    /// A load of that kind and length on a link as fast as it goes.
    pub fn new(path: Path, kind: WorkloadKind, milliseconds: u64) -> Self {
        let duration = TimeSpan::from_millis(milliseconds);
        let warmup = TimeSpan::from_millis(300);
        let workload = Workload { duration, warmup, ..Workload::new(kind) };
        Self { path, workload, link: None, burn: None }
    }
}

impl<'a> Bench<'a> {
    /// Whether guests can be had.
    pub(super) fn has_guest(&self) -> bool {
        self.nic.is_some()
    }

    /// The sandbox that the lab lives in.
    pub(super) fn sandbox(&self) -> &'a Sandbox {
        self.stage.sandbox
    }

    /// Tells what is done now.
    pub(super) fn say(&self, what: &str) {
        self.output.note(format_args!("calibrating: {what}"));
    }

    /// How many trials are made of a thing, and how long each takes at least in milliseconds.
    pub(super) fn trials(&self) -> (usize, u64) {
        if self.quick { (1, 1_000) } else { (3, 2_000) }
    }

    /// The scenario that a wish comes to.
    pub(super) fn scenario(&self, wanted: &Wanted) -> Scenario {
        let nic = self.nic.filter(|_| wanted.path == Path::Guest).into_iter().collect::<Vec<_>>();
        Scenario {
            name: "calibrate".into(),
            question: "Is what is known read?".into(),
            reference: Vec::new(),
            testbed: Testbed { rate: wanted.link, ..Testbed::default() },
            guest: self.guest.clone(),
            workload: wanted.workload.clone(),
            factors: Factors::of_nics(nic),
            scale: None,
            parts: Vec::new(),
            variants: Vec::new(),
            repeat: Repeat { blocks: 1, ..Repeat::default() },
        }
    }

    /// Makes one trial, and another where the first does not come off.
    pub(super) fn measure(&mut self, wanted: &Wanted) -> Result<Trial, Trouble> {
        let scenario = self.scenario(wanted);
        let plan = Plan::new(&scenario, 0);
        let is_wanted =
            |cell: &&vioperf_model::plan::Cell| (cell.has_guest()) == (wanted.path == Path::Guest);
        let none = || Trouble::End(anyhow!("the plan has no cell {}", wanted.path));
        let cell = plan.cells.iter().find(is_wanted).cloned().ok_or_else(none)?;
        if self.stage.interrupt.urgency() > Urgency::None {
            return Err(Trouble::End(anyhow!("interrupted")));
        }
        let mut reason = String::new();
        for attempt in 1..=ATTEMPTS {
            self.stage.burn = wanted.burn;
            let started_at = now();
            let attempted = self.stage.attempt(&cell);
            self.stage.burn = None;
            let Attempt { end, guest, core_speed, storage, timeline, parties, search } =
                attempted.map_err(Trouble::End)?;
            match end {
                AttemptEnd::Completed => {
                    let record = TrialRecord {
                        schema_version: SCHEMA_VERSION,
                        sequence: 0,
                        block: 0,
                        cell: cell.id.clone(),
                        attempt,
                        started_at,
                        started_after_ms: 0,
                        ended_after_ms: None,
                        outcome: Outcome::Completed,
                        guest,
                        core_speed,
                        storage,
                        timeline,
                        parties,
                        search,
                    };
                    let info = self.run_info(scenario, plan);
                    let analysis = analyse(&info, std::slice::from_ref(&record));
                    let read = analysis.cells.into_iter().find(|read| read.id == cell.id);
                    let cell = read.ok_or_else(none)?;
                    return Ok(Trial { record, cell });
                }
                AttemptEnd::Void { reason: why, never_ready, .. } => {
                    reason = why;
                    // Nor would it for any other trial, and each would wait as long.
                    if never_ready && attempt == ATTEMPTS && wanted.path == Path::Guest {
                        self.nic = None;
                    }
                }
                AttemptEnd::Interrupted => return Err(Trouble::End(anyhow!("interrupted"))),
            }
        }
        Err(Trouble::NotMeasured(reason))
    }

    /// Delays and drops what leaves the guest that stands (a trial has to have been made with it), or
    /// lets all pass again.
    pub(super) fn impair_guest(&mut self, impairment: Option<Impairment>) -> Result<(), Trouble> {
        let none = || Trouble::NotMeasured("the guest did not outlive its first trial".into());
        let standing = self.stage.standing.as_mut().ok_or_else(none)?;
        let outcome = standing.impair_guest(impairment);
        outcome.map(drop).map_err(|error| Trouble::NotMeasured(format!("{error:#}")))
    }

    /// How late the machine of the near end (where the last trial was) wakes a thread up from a sleep, in
    /// microseconds, ascending.
    pub(super) fn lateness_us(&mut self, sleep: TimeSpan, count: u16) -> Result<Vec<f64>, Trouble> {
        let none = || Trouble::NotMeasured("the lab did not outlive its last trial".into());
        let standing = self.stage.standing.as_mut().ok_or_else(none)?;
        let late = standing.time_sleeps(sleep, count);
        let late = late.map_err(|error| Trouble::NotMeasured(format!("{error:#}")))?;
        let mut late_us: Vec<f64> = late.into_iter().map(|ns| ns as f64 / 1e3).collect();
        late_us.sort_by(f64::total_cmp);
        Ok(late_us)
    }

    fn run_info(&self, scenario: Scenario, plan: Plan) -> RunInfo {
        let (hypervisor, variant_hypervisors) = self.stage.supply.facts(&plan);
        RunInfo {
            schema_version: SCHEMA_VERSION,
            vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: now(),
            command_line: Vec::new(),
            scenario_origin: "vioperf calibrate".into(),
            scenario,
            left_out: Vec::new(),
            plan,
            host: self.host.clone(),
            hypervisor,
            variant_hypervisors,
            placement: None,
            variant_placements: [].into(),
            resumed: Vec::new(),
            calibration: None,
            machine_before: None,
            domain: None,
            ended: None,
        }
    }
}

/// What a metric of a single trial reads.
pub(super) fn reading(metric: &Metric, name: &str) -> Result<f64, Trouble> {
    metric.mean().ok_or_else(|| {
        let reason = metric.absent.keys().next().map_or("it has no value", String::as_str);
        Trouble::NotMeasured(format!("{name}: {reason}"))
    })
}

/// What a reading of the analysis gave.
pub(super) fn given(reading: vioperf_analysis::calibration::Reading) -> Result<f64, Trouble> {
    reading.map_err(|reason| Trouble::NotMeasured(reason.into_owned()))
}
