//! `vioperf scenarios`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use vioperf_analysis::wording::count;
use vioperf_model::icf::{Icf, MAX_FILE_BYTES, Told, plain_name};
use vioperf_model::plan::{Costs, Plan};
use vioperf_model::scenario::Scenario;

use crate::cli::ScenariosArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::scenarios::Found;
use crate::store::to_json;
use crate::{prepare, scenarios};

/// Lists the built-in scenarios, or writes one from a file of IOmeter's.
pub fn execute(args: &ScenariosArgs, output: &Output) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.from_icf {
        return from_icf(file, &args.disk, output);
    }
    let scenarios = scenarios::built_in()?;
    if args.json {
        let written: Vec<&Scenario> = scenarios.iter().map(|found| &found.scenario).collect();
        output.result(&to_json(&written)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for Found { scenario, parts, .. } in &scenarios {
        let measured = if parts.is_empty() { std::slice::from_ref(scenario) } else { parts };
        let plans = measured.iter().map(|own| (own, Plan::new(own, 0)));
        let plans: Vec<(&Scenario, Plan)> = plans.collect();
        let time: Duration =
            plans.iter().map(|(own, plan)| prepare::estimate(own, plan, &Costs::TCG)).sum();
        let cells = plans.iter().map(|(_, plan)| plan.cells.len()).sum();
        let how_often = match parts.len() {
            0 => prepare::blocks(&scenario.repeat),
            parts => format!("in {}", count(parts, "part")),
        };
        writeln!(
            text,
            "{}\n  {}\n  {}, {how_often}, about {:.0} min\n",
            scenario.name,
            scenario.question,
            count(cells, "cell"),
            time.as_secs_f64() / 60.0,
        )?;
    }
    text.push_str("Run one with `vioperf run NAME`; see its order with `vioperf plan NAME`.\n");
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn from_icf(file: &Path, disks: &[String], output: &Output) -> Result<ExitCode, Failure> {
    let shown = file.display();
    let mut bytes = Vec::new();
    // A byte more than such a file has, so that a longer one is told from it.
    File::open(file)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {shown}; check its path"))?;
    // Names in it are in the code page of the machine that it was saved on.
    let icf = Icf::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Failure::Usage(anyhow!("{shown}: {error}")))?;
    let stem = file.file_stem().map(|stem| plain_name(&stem.to_string_lossy()));
    let stem = stem.filter(|stem| !stem.is_empty());
    let name = stem.as_deref().unwrap_or("iometer");
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    let Told { toml, left_out } = icf.scenario(name, &disks);
    left_out.into_iter().for_each(|what| output.warning(what));
    output.result(&toml)?;
    Ok(ExitCode::SUCCESS)
}
