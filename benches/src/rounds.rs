//! How a contest is held: a heat of all entries, then a final of alternating runs.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::arena::{Arena, Side};
use crate::arguments::Arguments;
use crate::contests::{Class, Contest, Metric};
use crate::entry::{Entry, Outputs, Run};
use crate::machine::CoreTime;
use crate::process::Running;

/// How long a client may take beside the time that it was told to send for.
const GRACE: Duration = Duration::from_secs(8);

/// How long everybody sends in the heat.
pub const HEAT_SECONDS: u16 = 1;

/// An entry and its runs.
pub struct Contender {
    pub entry: Entry,
    /// The run that decided who goes on, or why there is none.
    pub heat: Result<Run, String>,
    /// One a round; none for who was not in the final.
    pub finals: Vec<Run>,
}

impl Contender {
    /// The metric in every round of the final; nothing where one round has none.
    pub fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        let values: Option<Vec<f64>> = self.finals.iter().map(|run| run.value(metric)).collect();
        values.filter(|values| !values.is_empty())
    }
}

/// Holds a contest between entries, each as it is in the heat and in the final. Those that fail are
/// kept with the reason; what fails in the final is tried again once in its round, then it is out.
pub fn hold(
    arena: &Arena,
    contest: &Contest,
    entries: impl Iterator<Item = (Entry, Entry)>,
    arguments: &Arguments,
) -> Vec<Contender> {
    eprintln!("{}: {}", contest.name, contest.title);
    let mut contenders: Vec<Contender> = entries
        .map(|(heat, entry)| {
            let heat = run(arena, &heat).map_err(|error| format!("{error:#}"));
            tell(&entry, contest, "heat", &heat);
            Contender { entry, heat, finals: Vec::new() }
        })
        .collect();
    let mut finalists = choose(&contenders, contest, usize::from(arguments.finalists));
    for round in 0..usize::from(arguments.runs) {
        // Nobody is always first, or always after the same other.
        let count = finalists.len();
        if count > 0 {
            finalists.rotate_left(round % count);
        }
        let mut out = Vec::new();
        for index in &finalists {
            let Some(contender) = contenders.get_mut(*index) else { continue };
            match run(arena, &contender.entry).or_else(|_| run(arena, &contender.entry)) {
                Ok(run) => contender.finals.push(run),
                Err(error) => {
                    contender.finals.clear();
                    contender.heat = Err(format!("in round {}: {error:#}", round + 1));
                    tell(&contender.entry, contest, "final", &contender.heat);
                    out.push(*index);
                }
            }
        }
        finalists.retain(|index| !out.contains(index));
        eprintln!("{}: round {} of {}", contest.name, round + 1, arguments.runs);
    }
    contenders
}

fn tell(entry: &Entry, contest: &Contest, stage: &str, outcome: &Result<Run, String>) {
    let metric = decisive(contest);
    match outcome.as_ref().map(|run| run.value(metric)) {
        Ok(Some(value)) => eprintln!("  {stage}: {}: {value:.4e}", entry.name()),
        Ok(None) => eprintln!("  {stage}: {}: no number", entry.name()),
        Err(reason) => eprintln!("  {stage}: {}: {reason}", entry.name()),
    }
}

fn decisive(contest: &Contest) -> Metric {
    contest.bars.first().map_or(Metric::Throughput, |bar| bar.metric)
}

/// Who goes into the final: for every bar the best of vioperf's modes and the best peers of the heat,
/// of the bar's classes and by its metric: some (`--finalists`) by the first bar of each class, one by
/// the others.
fn choose(contenders: &[Contender], contest: &Contest, at_most: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut seated: Vec<(bool, Class)> = Vec::new();
    for bar in contest.bars {
        for (ours, class) in [(true, bar.ours), (false, bar.theirs)] {
            let first = !seated.contains(&(ours, class));
            seated.push((ours, class));
            let seats = match (ours, first) {
                (_, true) if class == Class::Ordinary => at_most,
                _ => 1,
            };
            for index in best(contenders, bar.metric, ours, class).into_iter().take(seats) {
                if !chosen.contains(&index) {
                    chosen.push(index);
                }
            }
        }
    }
    chosen
}

/// vioperf's modes, or the peers, of a class, the best in the heat first.
fn best(contenders: &[Contender], metric: Metric, ours: bool, class: Class) -> Vec<usize> {
    let mut found: Vec<(usize, f64)> = contenders
        .iter()
        .enumerate()
        .filter(|(_, contender)| contender.entry.ours == ours && contender.entry.class == class)
        .filter_map(|(index, contender)| {
            Some((index, contender.heat.as_ref().ok()?.value(metric)?))
        })
        .collect();
    found.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    if metric.more_is_better() {
        found.reverse();
    }
    found.into_iter().map(|(index, _)| index).collect()
}

/// One run: server, client, and what both cost.
fn run(arena: &Arena, entry: &Entry) -> Result<Run> {
    let before = CoreTime::now();
    let mut server = Running::start(arena, Side::Server, &entry.server)?;
    server.await_listening(entry.port)?;
    let mut client = Running::start(arena, Side::Client, &entry.client)?;
    let client = client.wait(Duration::from_secs(u64::from(entry.seconds)) + GRACE)?;
    let server = server.finish(entry.server_ends)?;
    let meanwhile = CoreTime::now().since(before);
    if !client.success {
        bail!("`{}` failed: {}", entry.client, client.said());
    }
    let outputs = Outputs { client: &client.output, server: &server.output };
    let reading = (entry.read)(&outputs)
        .with_context(|| format!("cannot read what `{}` said ({})", entry.client, client.said()))?;
    Ok(Run {
        reading,
        cpu_seconds: client.cpu_seconds + server.cpu_seconds,
        busy_seconds: meanwhile.busy,
        stolen_share: meanwhile.stolen / meanwhile.whole.max(0.01),
        resident_peak_bytes: client.resident_peak_bytes.max(server.resident_peak_bytes),
    })
}
