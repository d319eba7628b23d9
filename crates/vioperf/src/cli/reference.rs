//! Arguments of `reference`.

use std::path::PathBuf;

use clap::Subcommand;

/// What `reference` can do.
#[derive(Debug, Subcommand)]
pub enum ReferenceCommand {
    /// List the references that runs can be set beside
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the figures of a reference, each with its part of what it is divided by
    Show {
        /// Its name, or a JSON file
        name: String,
        /// Print it as JSON, as it is stored
        #[arg(long)]
        json: bool,
    },
    /// Look for numbers that cannot be: operations times their size, response times, links, cores, repetitions
    Check {
        /// Names, or JSON files [default: every one]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print what is found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep a run's results as a reference of your own
    Add {
        /// The run's directory
        run: PathBuf,
        /// Its name
        #[arg(long = "as", value_name = "NAME")]
        name: String,
        /// What it is of [default: the question that the run answers]
        #[arg(long)]
        title: Option<String>,
        /// Take the place of the one of that name
        #[arg(long)]
        replace: bool,
    },
    /// Remove a reference of your own
    Remove {
        /// Its name
        name: String,
    },
    /// Print the JSON Schema of a reference, as `vioperf schema reference`
    Schema,
    /// Print the page of every key of a scenario file: docs/scenario-reference.md
    Scenario,
    /// Print the page of every metric, and where it is read: docs/metrics.md
    Metrics,
}
