//! `vioperf run`: the main job.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow};
use vioperf_analysis::calibration::cite;
use vioperf_analysis::wording::count;
use vioperf_lab::placement::usable_cores;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::plan::{Costs, Plan};
use vioperf_model::record::{LeftOut, MachineLook, RunEnd, RunEnding, RunInfo, SCHEMA_VERSION};
use vioperf_model::scenario::Scenario;

use crate::calibrate::stored;
use crate::cli::RunArgs;
use crate::commands::report::analysis_of;
use crate::conductor::core_speed::Cores;
use crate::conductor::disk_files::DiskFiles;
use crate::conductor::hypervisor::{GuestSupply, Ingredients};
use crate::conductor::lab_stage::LabStage;
use crate::conductor::placement::Placements;
use crate::conductor::schedule::{Earlier, Schedule, SoFar};
use crate::conductor::standing::{self, Standing};
use crate::exit::{Failure, run_code};
use crate::history;
use crate::interrupt::{Interrupt, Urgency, signal_name};
use crate::live::Watch;
use crate::machines::scenario_run;
use crate::output::Output;
use crate::preflight::{self, Ready};
use crate::prepare::spoken;
use crate::progress::dashboard::Dashboard;
use crate::progress::{Onlooker, Recorder, RunClock, now};
use crate::provenance::host_facts;
use crate::references::{self, Named};
use crate::resume::Resumed;
use crate::sandboxed::{self, Side};
use crate::scenarios::Found;
use crate::store::{self, RunDirectory};
use crate::{machine_look, prepare, report};

mod parts;

/// Everything that is settled before the lab is made.
struct Prepared {
    origin: String,
    command_line: Vec<String>,
    scenario: Scenario,
    left_out: Vec<LeftOut>,
    plan: Plan,
    ingredients: Vec<Ingredients>,
    directory: PathBuf,
    /// What its results are set beside.
    references: Vec<Named>,
    /// The run that goes on; absent for a new one.
    resumed: Option<Resumed>,
}

/// Measures a scenario and reports.
pub fn execute(args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    // Also where nothing comes of this run.
    sandboxed::put_back_what_is_left(output);
    if let Some(whole) = &args.part_of {
        return parts::measure_one(whole, args, output);
    }
    if let Some(directory) = args.resume.as_deref() {
        if store::parts::holds_parts(directory) {
            return parts::resume(directory, args, output);
        }
        return go_on(directory, args, output);
    }
    let name = args.scenario.as_deref().unwrap_or_default();
    let mut found = prepare::scenario(name, &args.changes)?;
    name_references(&mut found, &args.reference)?;
    let directory = args.out.clone().unwrap_or_else(|| default_directory(&found.scenario));
    if !found.parts.is_empty() {
        return parts::begin(found, &directory, args, output);
    }
    begin(found, std::env::args().collect(), directory, args, output)
}

/// A scenario, and its parts, name from then on what the command line asks to be set beside; all of it has to be there before
/// anything is measured.
fn name_references(found: &mut Found, asked: &[String]) -> Result<(), Failure> {
    for scenario in std::iter::once(&mut found.scenario).chain(&mut found.parts) {
        for name in asked {
            if !scenario.reference.contains(name) {
                scenario.reference.push(name.clone());
            }
        }
        references::find_all(&scenario.reference).map_err(|error| Failure::Usage(error.into()))?;
    }
    Ok(())
}

/// Measures a scenario that has no parts.
fn begin(
    found: Found,
    command_line: Vec<String>,
    directory: PathBuf,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    if let Some(server) = found.scenario.testbed.server.clone() {
        return between_machines(found, &server, &directory, args, output);
    }
    let prepared = prepare_new(found, command_line, directory, args, output)?;
    measure(&prepared, args, output)
}

/// Goes on with a run.
fn go_on(directory: &Path, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    match prepare_resumed(directory, args, output)? {
        Left::Nothing(how) => conclude(directory, &how, args, output),
        Left::Some(prepared) => measure(&prepared, args, output),
    }
}

fn measure(prepared: &Prepared, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    // From here on there are two processes; until here there was one thread.
    match sandboxed::enter(output)? {
        Side::Outside(ended) => {
            if ended.message().is_some() && store::holds_run(&prepared.directory) {
                let directory = prepared.directory.display();
                output.note(format_args!(
                        "what was finished is kept: `vioperf report {directory}` shows it, `vioperf run \
                         --resume {directory}` goes on"
                    ));
            }
            Ok(ExitCode::from(u8::try_from(ended.exit_code()).unwrap_or(1)))
        }
        Side::Inside(sandbox) => inside(&sandbox, prepared, args, output),
    }
}

/// Where the testbed names a server there is no lab.
fn between_machines(
    found: Found,
    server: &str,
    directory: &Path,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let references = references::find_all(&found.scenario.reference)?;
    let stored = scenario_run::run(found, server, directory, args, output)?;
    references::keep(directory, &references)?;
    let code = conclude(directory, &stored.how, args, output)?;
    stored.not_put_back.map_or(Ok(code), |error| Err(error.into()))
}

fn prepare_new(
    found: Found,
    command_line: Vec<String>,
    directory: PathBuf,
    args: &RunArgs,
    output: &Output,
) -> Result<Prepared, Failure> {
    let Ready { scenario, left_out, without, ingredients } =
        preflight::check(found.scenario, &args.allow_overwrite)?;
    for left_out in &left_out {
        output.warning(format_args!("{} is left out: {}", left_out.what, left_out.reason));
    }
    let plan = prepare::plan(&scenario, &without);
    store::check_vacant(&directory).map_err(|error| Failure::Usage(error.into()))?;
    let costs = prepare::likely_costs(scenario.guest.accel);
    announce(&scenario, &plan, costs, output);
    let references = references::find_all(&scenario.reference)?;
    Ok(Prepared {
        origin: found.origin,
        command_line,
        scenario,
        left_out,
        plan,
        ingredients,
        directory,
        references,
        resumed: None,
    })
}

/// What of a run is left to measure.
enum Left {
    Nothing(RunEnding),
    Some(Box<Prepared>),
}

fn prepare_resumed(directory: &Path, args: &RunArgs, output: &Output) -> Result<Left, Failure> {
    let resumed = Resumed::open(directory, args, output)?;
    if let Some(how) = resumed.ending() {
        resumed.end(&how)?;
        output.note(match how {
            RunEnding::BudgetUsed => {
                "its time is used up, that of earlier sittings included: a larger --budget goes on"
            }
            _ => "nothing is left to measure",
        });
        return Ok(Left::Nothing(how));
    }
    resumed.announce(output);
    let RunInfo { scenario, scenario_origin, plan, left_out, command_line, .. } =
        resumed.info.clone();
    let Ready { scenario, left_out: lacking, ingredients, .. } =
        preflight::check(scenario, &args.allow_overwrite)?;
    if let Some(lacking) = lacking.iter().find(|lacking| !left_out.contains(lacking)) {
        return Err(Failure::Machine(anyhow!(
            "the run cannot go on as it began: {} cannot be had here any more ({})",
            lacking.what,
            lacking.reason
        )));
    }
    Ok(Left::Some(Box::new(Prepared {
        origin: scenario_origin,
        command_line,
        scenario,
        left_out,
        plan,
        ingredients,
        directory: directory.to_owned(),
        // They are in the directory since the run began.
        references: Vec::new(),
        resumed: Some(resumed),
    })))
}

fn announce(scenario: &Scenario, plan: &Plan, costs: &Costs, output: &Output) {
    let at_most = if scenario.repeat.may_settle() { "at most " } else { "" };
    output.note(format_args!(
        "{}: {} x {} = {at_most}{}, {}about {} (seed {})",
        scenario.name,
        count(plan.cells.len(), "cell"),
        prepare::blocks(&scenario.repeat),
        count(plan.trial_count(), "trial"),
        prepare::at_most(scenario),
        spoken(prepare::estimate(scenario, plan, costs)),
        plan.seed,
    ));
}

fn default_directory(scenario: &Scenario) -> PathBuf {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    // A directory of its own, and not one in that of another.
    Path::new("runs").join(format!("{}-{time}", scenario.name.replace('/', "-")))
}

/// The part that runs in the sandbox.
fn inside(
    sandbox: &Sandbox,
    prepared: &Prepared,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;
    sandbox.unblock_signals()?;
    let session = Session {
        sandbox,
        prepared,
        interrupt: &interrupt,
        started: Instant::now(),
        output,
        placements: Placements::new(&prepared.scenario, &prepared.plan),
        machine_before: match prepared.resumed {
            Some(_) => None,
            None => machine_look::look(Path::new("/")),
        },
    };
    if let Some(resumed) = &prepared.resumed {
        resumed.check_machine(&prepared.ingredients)?;
    }
    let how = match session.set_up() {
        Ok((standing, supply)) => session.measure(standing, supply)?,
        Err(_) if interrupt.urgency() > Urgency::None => {
            output.note(match prepared.resumed {
                None => "interrupted before the first trial: there is nothing to report",
                Some(_) => "interrupted before a further trial: the run is as it was",
            });
            return Ok(run_code(&session.interrupted(), true));
        }
        Err(failure) => return Err(failure),
    };
    conclude(&prepared.directory, &how, args, output)
}

/// A run from within its sandbox.
struct Session<'a> {
    sandbox: &'a Sandbox,
    prepared: &'a Prepared,
    interrupt: &'a Interrupt,
    started: Instant,
    output: &'a Output,
    /// Which cores the threads of each variant's lab are held to.
    placements: Placements,
    /// What went on the machine before anything was made; of a run that is resumed it was seen before.
    machine_before: Option<MachineLook>,
}

impl Session<'_> {
    fn interrupted(&self) -> RunEnding {
        let signal = self.interrupt.signal().map_or("a signal", signal_name);
        RunEnding::Interrupted { signal: signal.to_owned() }
    }

    /// Makes the first lab, and what guests start from.
    fn set_up(&self) -> Result<(Standing, GuestSupply), Failure> {
        let Prepared { plan, ingredients, .. } = self.prepared;
        let Some(first) = plan.cells.first() else {
            return Err(Failure::Usage(anyhow!("the scenario has no cell to measure")));
        };
        let placement = self.placements.of(first);
        let standing = standing::bring_up(self.sandbox, first, placement, self.interrupt)?;
        let supply = GuestSupply::set_up(standing.lab(), ingredients, self.interrupt, self.output)?;
        Ok((standing, supply))
    }

    /// Measures the plan and stores it; when this returns the lab is gone.
    fn measure(&self, standing: Standing, supply: GuestSupply) -> Result<RunEnding, Failure> {
        let Prepared { scenario, plan, .. } = self.prepared;
        let (output, started) = (self.output, self.started);
        let costs = if supply.is_emulated() { &Costs::TCG } else { &Costs::KVM };
        let blocks = plan.blocks.len();
        let block_estimate = plan.estimate(scenario.guest.reuse, costs)
            / u32::try_from(blocks).unwrap_or(u32::MAX).max(1);
        let (mut info, created);
        let (directory, earlier) = match &self.prepared.resumed {
            None => {
                info = run_info(self.prepared, &supply, &self.placements);
                info.machine_before = self.machine_before.clone();
                created = RunDirectory::create(&self.prepared.directory, &info)?;
                references::keep(&self.prepared.directory, &self.prepared.references)?;
                (&created, &Earlier::default())
            }
            Some(resumed) => {
                info = resumed.sitting(&supply)?;
                resumed.directory.write_info(&info)?;
                (&resumed.directory, &resumed.earlier)
            }
        };
        let mut cores = Cores::new(usable_cores(Path::new("/")));
        if scenario.repeat.undisturbed {
            cores.get_to_know();
        }
        let dashboard = output.shows_status().then(|| Dashboard::new(output));
        let mut stage = LabStage {
            sandbox: self.sandbox,
            supply,
            placements: self.placements.clone(),
            cores,
            undisturbed: scenario.repeat.undisturbed,
            reuse: scenario.guest.reuse,
            interrupt: self.interrupt,
            watch: dashboard.as_ref().map(|dashboard| -> &dyn Watch { dashboard }),
            standing: Some(standing),
            burn: None,
            disk_files: DiskFiles::default(),
            guests_started: 0,
        };
        let how = Schedule {
            plan,
            repeat: &scenario.repeat,
            block_estimate,
            stage: &mut stage,
            audience: &mut Recorder {
                directory,
                output,
                scenario,
                blocks,
                took_before: earlier.took(),
                onlooker: dashboard.as_ref().map(|dashboard| Onlooker::new(dashboard, &info)),
                first_trial: None,
            },
            clock: &RunClock { started, before: earlier.took() },
            interrupt: self.interrupt,
            earlier,
            so_far: SoFar::new(plan, &scenario.repeat, earlier),
        }
        .run();
        output.status("");
        drop(stage);
        info.ended = Some(RunEnd { at: now(), how: how.clone() });
        if let Err(error) = directory.write_info(&info) {
            // The records stand; a reader sees a run that did not end.
            output.warning(error);
        }
        Ok(how)
    }
}

fn run_info(prepared: &Prepared, supply: &GuestSupply, placements: &Placements) -> RunInfo {
    let (hypervisor, variant_hypervisors) = supply.facts(&prepared.plan);
    let (placement, variant_placements) = placements.facts(&prepared.plan);
    let host = host_facts(Path::new("/"));
    let calibration = stored::find(&host, hypervisor.as_ref());
    RunInfo {
        schema_version: SCHEMA_VERSION,
        vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        command_line: prepared.command_line.clone(),
        scenario_origin: prepared.origin.clone(),
        scenario: prepared.scenario.clone(),
        left_out: prepared.left_out.clone(),
        plan: prepared.plan.clone(),
        host,
        hypervisor,
        variant_hypervisors,
        placement,
        variant_placements,
        resumed: Vec::new(),
        calibration: calibration.as_ref().map(cite),
        machine_before: None,
        domain: None,
        ended: None,
    }
}

/// Reports what was stored, from the disk, as `vioperf report` would.
fn conclude(
    directory: &Path,
    how: &RunEnding,
    args: &RunArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let analysis = analysis_of(directory, output)?;
    // A part's report is part of the whole's.
    let is_part = args.part_of.is_some();
    if !is_part {
        let text = if args.json {
            report::json::render(&analysis)
        } else {
            report::terminal::render(&analysis, args.wide, output.colors_results())
        };
        output.result(&text)?;
    }
    write_page(directory, &report::html::render(&analysis), is_part, output);
    history::enter(&analysis, Some(directory), args.no_history, output);
    if matches!(how, RunEnding::Interrupted { .. } | RunEnding::Failed { .. }) && !is_part {
        output.note(match analysis.run.scenario.testbed.server {
            None => format!("to go on: vioperf run --resume {}", directory.display()),
            Some(_) => format!(
                "a run between two machines cannot be resumed: what was measured is kept in {}, and the same command \
                 begins a new one",
                directory.display()
            ),
        });
    }
    if let RunEnding::Failed { message } = how {
        output.error(format_args!("the run ended early: {message}"));
    }
    let incomplete = analysis.cells.iter().any(|cell| cell.trials.completed == 0);
    Ok(run_code(how, incomplete))
}

/// Writes the page of a run beside its records.
fn write_page(directory: &Path, page: &str, is_part: bool, output: &Output) {
    match store::write_whole(directory, "report.html", page.as_bytes()) {
        Ok(()) if is_part => {}
        Ok(()) => {
            output.note(format_args!("HTML report: {}", directory.join("report.html").display()));
        }
        Err(error) => output.warning(error),
    }
}
