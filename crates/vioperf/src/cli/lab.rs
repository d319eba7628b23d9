//! Arguments of `lab`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use vioperf_model::units::TimeSpan;

use super::ScenarioChanges;

/// The subcommands of `lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build the testbed of a cell, as a run would, and keep it standing until Ctrl-C or `lab down`
    Up(Box<LabUpArgs>),
    /// A shell in a part of a lab that stands, or a command: `lab shell remote -- iperf3 -s`
    Shell(LabShellArgs),
    /// End a lab, and wait until nothing of it is left
    Down {
        /// Its name [default: the only one]
        lab: Option<String>,
        /// All that stand
        #[arg(long, conflicts_with = "lab")]
        all: bool,
    },
    /// List the labs that stand
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `lab up`.
#[derive(Debug, Args)]
pub struct LabUpArgs {
    /// A built-in scenario (see `vioperf scenarios`) or a TOML file
    pub scenario: String,
    /// What is changed in it
    #[command(flatten)]
    pub changes: ScenarioChanges,
    /// Which cell, by its name or a part of it that tells its testbed [default: the first with a guest]
    #[arg(long, value_name = "CELL")]
    pub cell: Option<String>,
    /// What the lab is called [default: as the scenario, with a number where that stands already]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Programs of this machine that guests get beside busybox and ethtool, such as iperf3,tcpdump; with their libraries
    #[arg(long, value_name = "PROGRAMS", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Return as soon as it stands, and leave it in the background
    #[arg(long)]
    pub detach: bool,
    /// Of the one in the background
    #[arg(long, hide = true, requires = "detach")]
    pub tells_when_it_stands: bool,
    /// It goes down by itself after this time
    #[arg(long = "for", value_name = "TIME", default_value = "2h")]
    pub lasts: TimeSpan,
}

/// Arguments of `lab shell`.
#[derive(Debug, Args)]
pub struct LabShellArgs {
    /// Which part: `guest`, `remote` (the far end), `host` (the switch's side), or another that `lab list` shows
    pub part: String,
    /// Which lab [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// What to run there [default: a shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
