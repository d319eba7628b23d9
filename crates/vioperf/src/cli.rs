//! The command line.

mod compare;
mod history;
mod lab;
mod libvirt;
mod machines;
mod reference;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vioperf_model::scenario::Scale;
use vioperf_model::scenario_file::Override;
use vioperf_model::units::{Ratio, TimeSpan};

pub use compare::{CompareArgs, CompareFormat, Smallest};
pub use history::{
    HistoryAction, HistoryArgs, ListFormat, Since, TrendArgs, TrendFormat, ViewArgs, Which,
};
pub use lab::{LabCommand, LabShellArgs, LabUpArgs};
pub use libvirt::{Allowed, LibvirtCommand};
pub use machines::{ServeArgs, TestArgs};
pub use reference::ReferenceCommand;

/// What does virtualization cost my network path, why, and what should I change?
#[derive(Debug, Parser)]
#[command(name = "vioperf", version, about, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// Print results only: no progress, no hints
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to colour what is printed on a terminal
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorChoice,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    all that was asked for was done
  1    it could not go on; what was finished is stored and reported
  2    the command line or the scenario is wrong
  3    this machine lacks something; `vioperf doctor` says what
  4    the run ended, but some cell has no trial that counts
  5    a comparison came out as --fail-if says
  6    `vioperf calibrate` read something wrong
  130  interrupted (Ctrl-C), 143 terminated (SIGTERM); what was finished is reported";

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a scenario in a lab of its own, and report
    Run(RunArgs),
    /// Plant what is known into a lab, and look how well it is read on this machine
    #[command(long_about = CALIBRATE)]
    Calibrate(CalibrateArgs),
    /// Keep the testbed of a cell standing, and get a shell in its parts, for a look by hand
    #[command(subcommand)]
    Lab(LabCommand),
    /// Let `vioperf test` on another machine measure the network to this one
    Serve(ServeArgs),
    /// Measure the network to a machine where `vioperf serve` runs
    Test(TestArgs),
    /// Virtual machines that libvirt looks after: list them, or put them back after a run that was killed
    #[command(subcommand)]
    Libvirt(LibvirtCommand),
    /// Show what a scenario would measure, in which order, and how long it would take
    Plan(PlanArgs),
    /// List the built-in scenarios and what each answers, or write one from a file of IOmeter's
    Scenarios(ScenariosArgs),
    /// Check what this machine can do, and say what to do about what it cannot
    Doctor(DoctorArgs),
    /// Report a stored run
    Report(ReportArgs),
    /// Tell what limits the cells of a stored run, from what was read, and what to do about it
    Explain(ExplainArgs),
    /// List the runs that were measured here
    History(HistoryArgs),
    /// Show a metric run after run, where its level changed, and what else changed there
    Trend(TrendArgs),
    /// Show the runs that were measured here in a browser: lists, reports, cells over time, two runs side by side
    View(ViewArgs),
    /// Write the trials of runs as one table, for DuckDB, pandas or a spreadsheet
    Export(ExportArgs),
    /// Compare two stored runs, or the variants of one: what is better or worse, beyond chance and by as much as matters
    Compare(CompareArgs),
    /// Manage the kernels that guests boot
    #[command(subcommand)]
    Kernel(KernelCommand),
    /// Print the JSON Schema of a file or output
    Schema(SchemaArgs),
    /// Published figures, and one's own, that runs are set beside: list, show, check and add them; and pages of the
    /// documentation that are made from the program's own tables
    #[command(subcommand)]
    Reference(ReferenceCommand),
    /// Print a shell's completions
    Completions(CompletionsArgs),
    /// Write the man pages into a directory
    Man(ManArgs),
    /// One end of the traffic, told what to do over standard input (started by vioperf itself)
    #[command(hide = true)]
    Node {
        /// The most bytes of memory it may take for data
        #[arg(long)]
        memory: Option<u64>,
    },
}

/// What is changed in a scenario.
#[derive(Debug, Clone, Args)]
pub struct ScenarioChanges {
    /// Change a key of the scenario: `nic=virtio,e1000`, `workload.duration=10s`, `reuse=none`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Compare variants in one run, A and B in turn: a name, or a name and what it has otherwise, such
    /// as `old`, `new:qemu=/opt/qemu/bin/qemu-system-x86_64`, `new:offloads.gro=off`; may be repeated
    #[arg(long, value_name = "NAME[:KEY=VALUE]", value_parser = Override::of_variant)]
    pub variant: Vec<Override>,
    /// Passes over all cells [default: the scenario's]; with --goal the least, else neither more nor
    /// fewer
    #[arg(long, value_name = "N")]
    pub blocks: Option<u32>,
    /// Measure until every cell's 95 % interval is no wider than this to either side, such as 2.5%
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "2.5%")]
    pub goal: Option<Ratio>,
    /// With a goal: passes at most
    #[arg(long, value_name = "N")]
    pub most_blocks: Option<u32>,
    /// Begin no block that would not end within this time, such as 3m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<TimeSpan>,
    /// Multiply every duration by this, the budget's too, such as 0.02 or 1/60
    #[arg(long, value_name = "NUMBER")]
    pub scale: Option<Scale>,
    /// Seed of the random order inside the blocks [default: drawn, and recorded]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// The guest's kernel image [default: the host's own, else a fetched one]
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<String>,
    /// The QEMU program [default: qemu-system-x86_64 in PATH]
    #[arg(long, value_name = "FILE")]
    pub qemu: Option<String>,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// A built-in scenario (see `vioperf scenarios`) or a TOML file; SCENARIO/PART is one part of it
    #[arg(required_unless_present = "resume")]
    pub scenario: Option<String>,
    /// What is changed in it
    #[command(flatten)]
    pub changes: ScenarioChanges,
    /// Where to store the run [default: runs/SCENARIO-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this directory where it stopped, however it stopped: same plan, same
    /// order. Of the scenario only --budget can be given anew; it counts the time of all sittings
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Resume although this machine is not as it was; what changed is stored, and a finding
    #[arg(long)]
    pub resume_anyway: bool,
    /// Set the results beside published figures too, or those of a run of your own (`vioperf reference list`), or a JSON
    /// file's
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub reference: Vec<String>,
    /// What may be done to the virtual machine that a scenario names
    #[command(flatten)]
    pub allowed: Allowed,
    /// Allow to overwrite this block device, which the scenario names (testbed.storage.device): what is on it is lost
    #[arg(long, value_name = "DEVICE")]
    pub allow_overwrite: Vec<String>,
    /// Do not enter the run in the history (VIOPERF_NO_HISTORY=1 says the same for every run)
    #[arg(long)]
    pub no_history: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// Measure the part of that name of the run in this directory (given by vioperf itself)
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "resume")]
    pub part_of: Option<PathBuf>,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Fewer and shorter trials: less than a minute instead of some minutes
    #[arg(long)]
    pub quick: bool,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The form
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: CalibrateFormat,
    /// The guest's kernel image [default: the host's own, else a fetched one]
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<String>,
    /// The QEMU program [default: qemu-system-x86_64 in PATH]
    #[arg(long, value_name = "FILE")]
    pub qemu: Option<String>,
}

const CALIBRATE: &str = "\
Plant what is known into a lab, and look how well it is read on this machine.

Links of known rate, packets that a witness on the switch counts too, packets that are dropped and \
delayed on purpose, CPU time that is burned on purpose: on the host, and with a guest where one can be \
had. Prints truth, reading and error of each, and the noise floor: what is read where nothing changes. \
The result is stored, and reports of later runs on this machine cite it. Needs the program `nft` \
(nftables) for counts and losses. Run it while nothing else does. Exit code 6 says that a reading is \
beyond what is allowed.";

/// The forms of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalibrateFormat {
    /// A table
    Terminal,
    /// Everything (see `vioperf schema calibration`)
    Json,
    /// For a pull request
    Markdown,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// A built-in scenario (see `vioperf scenarios`) or a TOML file
    pub scenario: String,
    /// What is changed in it
    #[command(flatten)]
    pub changes: ScenarioChanges,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `scenarios`.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Print them as JSON
    #[arg(long, conflicts_with = "from_icf")]
    pub json: bool,
    /// Print the scenario that measures what this test configuration file of IOmeter's says
    #[arg(long, value_name = "FILE")]
    pub from_icf: Option<PathBuf>,
    /// The disk models of that scenario's guests
    #[arg(
        long,
        value_name = "MODEL",
        value_delimiter = ',',
        default_value = "virtio-blk",
        requires = "from_icf"
    )]
    pub disk: Vec<String>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print the checks as JSON
    #[arg(long)]
    pub json: bool,
    /// The guest's kernel image to check
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<String>,
    /// The QEMU program to check
    #[arg(long, value_name = "FILE")]
    pub qemu: Option<String>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run's directory
    pub run: PathBuf,
    /// The form
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: ReportFormat,
    /// Which trial, by its place in the run, from 0 (iperf3 only) [default: the last that counts]
    #[arg(long, value_name = "NUMBER")]
    pub trial: Option<u32>,
    /// Set the results beside these published figures too, or those of a run of your own (`vioperf reference list`), or
    /// a JSON file's
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub reference: Vec<String>,
    /// Print every column (terminal only)
    #[arg(long)]
    pub wide: bool,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables for a terminal
    Terminal,
    /// Everything that was derived, with units (see `vioperf schema report`)
    Json,
    /// One row a cell
    Csv,
    /// For a pull request
    Markdown,
    /// One self-contained page
    Html,
    /// Means and intervals as metrics, for Prometheus and its textfile collector
    Openmetrics,
    /// One trial, as `iperf3 --json` would have told it
    Iperf3,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The run's directory
    pub run: PathBuf,
    /// The cell, or what the names of several have in common [default: all]
    pub cell: Option<String>,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The runs' directories
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The form
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: ExportFormat,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The forms of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Apache Parquet: typed columns, units in the metadata
    Parquet,
    /// RFC 4180, with a header row
    Csv,
    /// The result file of IOmeter 1.1.0: trials of disks alone
    Iometer,
}

/// The subcommands of `kernel`.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// Put the distribution's current kernel into the cache, without installing it
    Fetch {
        /// Do nothing where guests can already use the host's own or a cached kernel
        #[arg(long)]
        if_needed: bool,
    },
    /// List the cached kernels
    List,
    /// Remove a kernel from the cache
    Remove {
        /// Its release, as `kernel list` shows it
        release: String,
    },
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum)]
    pub of: SchemaOf,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A scenario file
    Scenario,
    /// run.json
    Run,
    /// parts.json
    Parts,
    /// A line of trials.jsonl
    Trial,
    /// `report --format json`
    Report,
    /// `compare --format json`
    Compare,
    /// `calibrate --format json`
    Calibration,
    /// A file of published figures: `reference show NAME --json`
    Reference,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
