//! How long the analysis of many trials takes, and how much memory.
//!
//! Makes up trials of 100 samples a party (8 interfaces, 12 threads on the host), hands them to the
//! analysis one at a time, and tells its time and the peak of the process's memory:
//!
//!     cargo run --release -p vioperf-analysis --features testing --example many_trials -- 10000
//!
//! With a directory as second argument the run is stored there instead, for `vioperf report`.

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use vioperf_analysis::Analyser;
use vioperf_analysis::testing::{Synthetic, with_flat_rate};
use vioperf_model::plan::Plan;
use vioperf_model::record::{Party, Place, RunInfo, TrialRecord};
use vioperf_model::sample::{Sample, ThreadTimes};

const SAMPLES: u64 = 100;
const INTERFACES_ON_HOST: usize = 8;
const THREADS_ON_HOST: i32 = 12;
/// Records in memory at a time.
const AT_ONCE: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let trials: usize = arguments.next().ok_or("say how many trials")?.parse()?;
    let directory = arguments.next();
    let run = run_of(trials)?;
    let templates: Vec<TrialRecord> = run
        .plan
        .cells
        .iter()
        .map(|cell| widened(with_flat_rate(cell, 0, 0, 1e9)))
        .collect::<Result<_, _>>()?;
    let order = run.plan.blocks.iter().zip(0..).flat_map(|(block, number)| {
        block.iter().filter_map(|cell| templates.get(*cell)).map(move |template| (template, number))
    });
    let records =
        order.zip(0..).take(trials).map(|((template, block), n)| varied(template, block, n));
    match directory {
        Some(directory) => store(Path::new(&directory), &run, records)?,
        None => analyse(&run, records)?,
    }
    Ok(())
}

fn analyse(
    run: &RunInfo,
    records: impl Iterator<Item = TrialRecord>,
) -> Result<(), Box<dyn Error>> {
    let mut analyser = Analyser::new(run);
    let (mut took, mut trials) = (Stopwatch::default(), 0u32);
    let mut records = records.peekable();
    while records.peek().is_some() {
        // Only the analysis is timed, not the making up.
        let few: Vec<TrialRecord> = records.by_ref().take(AT_ONCE).collect();
        took.time(|| few.iter().for_each(|record| analyser.add(record)))?;
        trials += u32::try_from(few.len())?;
    }
    let mut analysis = None;
    took.time(|| analysis = Some(analyser.finish()))?;
    println!(
        "{trials} trials, {} cells: {:.3} s ({:.3} s of a core, {:.0} µs a trial), peak memory {} MiB",
        analysis.map_or(0, |analysis| analysis.cells.len()),
        took.clock.as_secs_f64(),
        took.core.as_secs_f64(),
        took.core.as_secs_f64() * 1e6 / f64::from(trials.max(1)),
        peak_memory_kib()? / 1024,
    );
    Ok(())
}

/// Time by the clock and on a core: on a busy machine they are not the same.
#[derive(Default)]
struct Stopwatch {
    clock: Duration,
    core: Duration,
}

impl Stopwatch {
    fn time(&mut self, work: impl FnOnce()) -> Result<(), Box<dyn Error>> {
        let (began, on_core) = (Instant::now(), time_on_core()?);
        work();
        self.core += time_on_core()?.saturating_sub(on_core);
        self.clock += began.elapsed();
        Ok(())
    }
}

/// The first field of `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst).
fn time_on_core() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split_whitespace().next().ok_or("no schedstat")?.parse()?))
}

fn store(
    directory: &Path,
    run: &RunInfo,
    records: impl Iterator<Item = TrialRecord>,
) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("run.json"), serde_json::to_vec_pretty(run)?)?;
    let mut file = BufWriter::new(fs::File::create(directory.join("trials.jsonl"))?);
    for record in records {
        serde_json::to_writer(&mut file, &record)?;
        file.write_all(b"\n")?;
    }
    file.flush()?;
    Ok(())
}

/// A run of so many blocks that there are as many trials.
fn run_of(trials: usize) -> Result<RunInfo, Box<dyn Error>> {
    let mut run = Synthetic::tcg().run;
    let cells = run.plan.cells.len().max(1);
    run.scenario.repeat.blocks = u32::try_from(trials.div_ceil(cells))?;
    run.plan = Plan::new(&run.scenario, run.plan.seed);
    Ok(run)
}

/// The record with [`SAMPLES`] samples a party, and as many interfaces and threads as a host has.
fn widened(mut record: TrialRecord) -> Result<TrialRecord, Box<dyn Error>> {
    for party in &mut record.parties {
        let (mut first, mut last) = match party.report.samples.as_slice() {
            [first, .., last] => (first.clone(), last.clone()),
            _ => continue,
        };
        if party.place == Place::Host {
            [&mut first, &mut last].into_iter().for_each(crowd);
        }
        let ends = [serde_json::to_value(first)?, serde_json::to_value(last)?];
        let at = |i: u64| serde_json::from_value(between(&ends, i as f64 / (SAMPLES - 1) as f64));
        party.report.samples = (0..SAMPLES).map(at).collect::<Result<_, _>>()?;
    }
    Ok(record)
}

fn crowd(sample: &mut Sample) {
    if let Some(interfaces) = &mut sample.interfaces {
        let one = interfaces.values().next().copied().unwrap_or_default();
        let names = (interfaces.len()..INTERFACES_ON_HOST).map(|n| format!("veth{n}"));
        interfaces.extend(names.map(|name| (name, one)));
    }
    if let Some(threads) = &mut sample.threads {
        let further = (0..THREADS_ON_HOST).skip(threads.len()).map(|n| ThreadTimes {
            process: if n % 2 == 0 { "qemu".into() } else { "peer".into() },
            tid: 1_000 + n,
            name: "worker".into(),
            on_cpu_ns: sample.monotonic_ns / 100,
            waiting_ns: Some(0),
        });
        threads.extend(further);
    }
}

/// Every number between its values at the two ends.
fn between(ends: &[Value; 2], part: f64) -> Value {
    match ends {
        [Value::Array(from), Value::Array(to)] => {
            from.iter().zip(to).map(|(a, b)| between(&[a.clone(), b.clone()], part)).collect()
        }
        [Value::Object(from), Value::Object(to)] => {
            let value = |(key, a): (&String, &Value)| {
                let b = to.get(key).unwrap_or(a);
                (key.clone(), between(&[a.clone(), b.clone()], part))
            };
            from.iter().map(value).collect()
        }
        [Value::Number(from), Value::Number(to)] => match (from.as_u64(), to.as_u64()) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
            (Some(a), Some(b)) => (a + (b.saturating_sub(a) as f64 * part) as u64).into(),
            _ => from.clone().into(),
        },
        [other, _] => other.clone(),
    }
}

/// A trial like the template, as fast as chance will have it.
fn varied(template: &TrialRecord, block: u32, sequence: u32) -> TrialRecord {
    let mut record = template.clone();
    (record.block, record.sequence) = (block, sequence);
    let factor = 950 + u64::from(sequence.wrapping_mul(2_654_435_761) >> 16) % 100;
    let samples = |party: &mut Party| {
        for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
            load.bytes = load.bytes / 1_000 * factor;
        }
    };
    record.parties.iter_mut().for_each(samples);
    record
}

/// `VmHWM` of proc_pid_status(5).
fn peak_memory_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?.parse()?)
}
