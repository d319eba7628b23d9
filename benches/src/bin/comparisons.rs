//! Tries the comparison out on this machine: pairs that do not differ, which must not be told apart,
//! and pairs whose links differ by a known rate, which must be. `make comparisons`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::Value;

/// Tries `vioperf compare` out: on pairs that are equal, and on links whose rates differ.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each pair is tried.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    tries: u16,
    /// Pairs to try, by the start of their names; all where absent.
    #[arg(long, value_delimiter = ',')]
    pairs: Vec<String>,
    /// vioperf's program; the one beside this program where absent.
    #[arg(long)]
    vioperf: Option<PathBuf>,
}

/// A and B, and what is to come of comparing them.
struct Pair {
    name: &'static str,
    about: &'static str,
    /// What each is held to or has otherwise, as `--variant` takes it.
    a: &'static str,
    b: &'static str,
    design: Design,
    /// Passes over both; with two runs, of each.
    blocks: u32,
    /// Whether a guest is in the path, and not the host's own alone.
    guest: bool,
    expected: &'static str,
}

/// How they are measured.
#[derive(Clone, Copy, PartialEq)]
enum Design {
    /// In turn, in one run.
    OneRun,
    /// One run after the other.
    TwoRuns,
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "equal-link",
        about: "the same link of 100 Mbit/s",
        a: "rate=100 Mbit/s",
        b: "rate=100 Mbit/s",
        design: Design::OneRun,
        blocks: 10,
        guest: false,
        expected: "no difference",
    },
    Pair {
        name: "equal-host",
        about: "the host's own path, as fast as it goes",
        a: "rate=400 Gbit/s",
        b: "rate=400 Gbit/s",
        design: Design::OneRun,
        blocks: 10,
        guest: false,
        expected: "no difference",
    },
    Pair {
        name: "equal-guest",
        about: "the same guest",
        a: "vcpus=1",
        b: "vcpus=1",
        design: Design::OneRun,
        blocks: 10,
        guest: true,
        expected: "no difference",
    },
    Pair {
        name: "equal-runs",
        about: "the host's own path, one run after the other",
        a: "rate=400 Gbit/s",
        b: "rate=400 Gbit/s",
        design: Design::TwoRuns,
        blocks: 12,
        guest: false,
        expected: "no difference",
    },
    Pair {
        name: "faster-link",
        about: "a link of 100 Mbit/s against one of 105",
        a: "rate=100 Mbit/s",
        b: "rate=105 Mbit/s",
        design: Design::OneRun,
        blocks: 10,
        guest: false,
        expected: "better",
    },
    Pair {
        name: "slower-link",
        about: "a link of 100 Mbit/s against one of 95",
        a: "rate=100 Mbit/s",
        b: "rate=95 Mbit/s",
        design: Design::OneRun,
        blocks: 10,
        guest: false,
        expected: "worse",
    },
    Pair {
        name: "faster-runs",
        about: "a link of 100 Mbit/s against one of 105, one run after the other",
        a: "rate=100 Mbit/s",
        b: "rate=105 Mbit/s",
        design: Design::TwoRuns,
        blocks: 12,
        guest: false,
        expected: "better",
    },
];

const SCENARIO: &str = "\
name = \"pair\"
question = \"Do they differ?\"
[workload]
kind = \"tcp-stream\"
duration = \"300 ms\"
warmup = \"100 ms\"
";

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let beside = own.with_file_name("vioperf");
    let vioperf = arguments.vioperf.clone().unwrap_or(beside);
    let wanted = |pair: &&Pair| {
        let names = &arguments.pairs;
        names.is_empty() || names.iter().any(|start| pair.name.starts_with(start.as_str()))
    };
    println!("| A and B | measured | should be | tries | came out as | largest p, smallest p |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for pair in PAIRS.iter().filter(wanted) {
        println!("{}", tried(pair, &vioperf, arguments.tries)?);
    }
    Ok(())
}

/// Tries a pair so often; a row of the table.
fn tried(pair: &Pair, vioperf: &Path, tries: u16) -> Result<String> {
    let mut verdicts: BTreeMap<String, u32> = BTreeMap::new();
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for number in 1..=tries {
        let (verdict, p) = compared(pair, vioperf)
            .with_context(|| format!("{}, try {number} of {tries}", pair.name))?;
        eprintln!("{} {number}/{tries}: {verdict}, p = {p:.4}", pair.name);
        *verdicts.entry(verdict).or_default() += 1;
        (least, most) = (least.min(p), most.max(p));
    }
    let mut row = String::new();
    let design = match pair.design {
        Design::OneRun => format!("in turn, {} blocks", pair.blocks),
        Design::TwoRuns => format!("two runs of {} blocks", pair.blocks),
    };
    let counts: Vec<String> =
        verdicts.iter().map(|(verdict, n)| format!("{verdict}: {n}")).collect();
    write!(
        row,
        "| {} | {design} | {} | {tries} | {} | {most:.3}, {least:.4} |",
        pair.about,
        pair.expected,
        counts.join(", "),
    )?;
    Ok(row)
}

/// Measures A and B once, and what `compare` says of the throughput.
fn compared(pair: &Pair, vioperf: &Path) -> Result<(String, f64)> {
    let folder = tempfile::tempdir().context("cannot make a directory for the runs")?;
    let scenario = folder.path().join("pair.toml");
    let nic = if pair.guest { "[factors]\nnic = \"virtio\"\n" } else { "" };
    fs::write(&scenario, format!("{SCENARIO}{nic}")).context("cannot write the scenario")?;
    let run = |out: &Path, changes: &[String]| -> Result<()> {
        let mut command = Command::new(vioperf);
        command.arg("run").arg(&scenario).arg("--out").arg(out).arg("--no-history");
        command.arg(format!("--blocks={}", pair.blocks)).args(changes);
        answer(&mut command).map(drop)
    };
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut command = Command::new(vioperf);
    command.args(["compare", "--metric=headline", "--format=json"]).arg(&first);
    match pair.design {
        Design::OneRun => {
            run(&first, &[format!("--variant=a:{}", pair.a), format!("--variant=b:{}", pair.b)])?;
        }
        Design::TwoRuns => {
            run(&first, &[format!("--set=testbed.{}", pair.a)])?;
            run(&second, &[format!("--set=testbed.{}", pair.b)])?;
            command.arg(&second);
        }
    }
    let comparison: Value = serde_json::from_str(&answer(&mut command)?)?;
    let rows = comparison["rows"].as_array().context("the comparison has no rows")?;
    let row = rows
        .iter()
        .filter(|row| row["is_baseline"] != pair.guest)
        .min_by(|a, b| p_value(a).total_cmp(&p_value(b)))
        .context("the comparison has no such row")?;
    let verdict = row["verdict"].as_str().context("a row has no verdict")?;
    Ok((verdict.to_owned(), p_value(row)))
}

fn p_value(row: &Value) -> f64 {
    row["difference"]["p_value"].as_f64().unwrap_or(1.0)
}

/// What a program prints; its complaint where it fails.
fn answer(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output().context("cannot start vioperf")?;
    if !done.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
