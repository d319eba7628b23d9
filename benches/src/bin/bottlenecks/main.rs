//! Plants bottlenecks between two namespaces and looks which vioperf tells first: `make bottlenecks`.
//! What is planted is the table of `vioperf-plants`; `docs/diagnosis.md` shows what came of it.

mod matrix;
mod neighbours;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;
use vioperf_plants::plant::Plant;
use vioperf_plants::plants;
use vioperf_plants::trial::reported;

use crate::matrix::{Told, Tried, page};
use crate::neighbours::{are_busy, were_busy};

/// Plants bottlenecks, one at a time, and looks which vioperf tells first.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each plant is tried.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    tries: u16,
    /// How often each control is, in which nothing is planted.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    control_tries: u16,
    /// Plants to try, by the start of their names; all where absent.
    #[arg(long, value_delimiter = ',')]
    plants: Vec<String>,
    /// Keep the runs in this directory; else they are deleted.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Make no trials: report again what --keep has kept.
    #[arg(long, requires = "keep")]
    again: bool,
    /// Put the tables between the markers of this page.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Only list the plants.
    #[arg(long)]
    list: bool,
    /// vioperf's program; the one beside this program where absent.
    #[arg(long)]
    vioperf: Option<PathBuf>,
}

fn main() -> ExitCode {
    match bottlenecks(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("bottlenecks: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether as many are right as should be.
fn bottlenecks(arguments: &Arguments) -> Result<bool> {
    let wanted = |plant: &Plant| {
        let names = &arguments.plants;
        names.is_empty() || names.iter().any(|start| plant.name.starts_with(start.as_str()))
    };
    let plants: Vec<Plant> = plants::all().into_iter().filter(wanted).collect();
    if plants.is_empty() {
        bail!("no plant's name begins so: --list tells the names");
    }
    if arguments.list {
        plants.iter().for_each(|plant| println!("{:32} {}", plant.name, plant.about));
        return Ok(true);
    }
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let vioperf = arguments.vioperf.clone().unwrap_or_else(|| own.with_file_name("vioperf"));
    let vioperf = vioperf.canonicalize().with_context(|| {
        format!("no vioperf at {}: build it, or name it by --vioperf", vioperf.display())
    })?;
    let temporary = tempfile::tempdir().context("cannot make a directory for the runs")?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let began = Instant::now();
    let mut all = Vec::new();
    for plant in &plants {
        all.push(tried(plant, arguments, &vioperf, folder));
    }
    let text = page(&all, began.elapsed());
    println!("{text}");
    if let Some(path) = &arguments.page {
        matrix::put_between_markers(path, &text)?;
    }
    Ok(matrix::holds(&all))
}

/// Tries a plant as often as wanted; one that cannot be planted here is told and counts as tried.
fn tried(plant: &Plant, arguments: &Arguments, vioperf: &Path, folder: &Path) -> Tried {
    let tries = if plant.is_control() { arguments.control_tries } else { arguments.tries };
    let mut tried = Tried { plant: *plant, told: Vec::new(), trouble: None };
    for number in 1..=tries {
        let folder = folder.join(format!("{}-{number}", plant.name));
        let busy_before = !arguments.again && are_busy();
        let told = if arguments.again {
            reported(vioperf, &folder.join("run"))
        } else {
            // A run directory has to be new.
            let _ = fs::remove_dir_all(&folder);
            plant.tried(vioperf, &folder)
        };
        match told {
            Ok(told) => {
                let beside_others = if arguments.again {
                    were_busy(&told.report)
                } else {
                    busy_before || are_busy()
                };
                let told_first = Told { first: told.first().to_owned(), beside_others };
                let is_right = told_first.is_right(plant);
                let verdict = if is_right { "right" } else { "NOT RIGHT" };
                let all = told.rules.join(", ");
                eprintln!("{} {number}/{tries}: {verdict}: {} [{all}]", plant.name, told.first());
                tried.told.push(told_first);
            }
            Err(error) => {
                eprintln!("{} {number}/{tries}: {error:#}", plant.name);
                tried.trouble = Some(format!("{error:#}"));
            }
        }
    }
    tried
}
