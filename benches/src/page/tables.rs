//! The tables of the page.

use super::wording::{classes, demand, met, significant, title, value};
use crate::contests::{Bar, Class, Contest, Demand, Metric};
use crate::rounds::Contender;
use crate::statistics::{median, ratio, spread};

/// The most memory that a node may hold.
const RESIDENT_BAR_BYTES: u64 = 16 << 20;

/// The rows of a contest in the table of bars: those with a bar, and the rest that have a ratio.
pub fn verdicts(contest: &Contest, contenders: &[Contender]) -> String {
    contest.bars.iter().map(|bar| verdict(contest, bar, contenders)).collect()
}

fn verdict(contest: &Contest, bar: &Bar, contenders: &[Contender]) -> String {
    let what = format!("{}: {}{}", contest.title, title(bar.metric), classes(bar.ours, bar.theirs));
    let demanded = demand(bar.demand);
    let ours = best(contenders, bar.metric, |contender| {
        contender.entry.ours && contender.entry.class == bar.ours
    });
    let theirs = best(contenders, bar.metric, |contender| {
        !contender.entry.ours && contender.entry.class == bar.theirs
    });
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return format!("| {what} | {demanded} | not measured | | |\n");
    };
    let Some(ratio) = ratio(&ours.values, &theirs.values) else {
        return format!("| {what} | {demanded} | not measured | | |\n");
    };
    let verdict = match bar.demand {
        Demand::Told => "",
        demand => met(demand.is_met_by(ratio.value)),
    };
    format!(
        "| {what} | {demanded} | {} ({} to {}) | {} by {} | {verdict} |\n",
        significant(ratio.value),
        significant(ratio.interval.0),
        significant(ratio.interval.1),
        ours.name,
        theirs.name,
    )
}

struct Best {
    name: String,
    values: Vec<f64>,
    median: f64,
}

/// The best of those contenders by a metric's median in the final.
fn best(
    contenders: &[Contender],
    metric: Metric,
    among: impl Fn(&Contender) -> bool,
) -> Option<Best> {
    let measured = contenders.iter().filter(|contender| among(contender)).filter_map(|contender| {
        let values = contender.values(metric)?;
        Some(Best { name: contender.entry.name(), median: median(&values)?, values })
    });
    if metric.more_is_better() {
        measured.max_by(|one, other| one.median.total_cmp(&other.median))
    } else {
        measured.min_by(|one, other| one.median.total_cmp(&other.median))
    }
}

/// A contest with its numbers and commands.
pub fn contest(contest: &Contest, contenders: &[Contender]) -> String {
    let mut metrics: Vec<Metric> = Vec::new();
    for bar in contest.bars {
        if !metrics.contains(&bar.metric) {
            metrics.push(bar.metric);
        }
    }
    let mut text = format!("\n### `{}`: {}\n\n| who |", contest.name, contest.title);
    metrics.iter().for_each(|metric| text += &format!(" {} | spread |", title(*metric)));
    text += " resident MiB |\n| --- |";
    metrics.iter().for_each(|_| text += " ---: | --- |");
    text += " ---: |\n";
    let (finalists, others): (Vec<_>, Vec<_>) =
        contenders.iter().partition(|contender| !contender.finals.is_empty());
    finalists.iter().for_each(|contender| text += &row(contender, &metrics));
    text += &stolen(&finalists);
    text += &out(contest, &others);
    text += &commands(contenders);
    text
}

fn row(contender: &Contender, metrics: &[Metric]) -> String {
    let mut text = format!("| {} |", name(contender));
    for metric in metrics {
        let values = contender.values(*metric).unwrap_or_default();
        match (median(&values), spread(&values)) {
            (Some(middle), Some((low, high))) => {
                let (low, high) = (value(*metric, low), value(*metric, high));
                text += &format!(" {} | {low} to {high} |", value(*metric, middle));
            }
            _ => text += " not told | |",
        }
    }
    let resident = contender.finals.iter().map(|run| run.resident_peak_bytes).max().unwrap_or(0);
    text += &format!(" {} |\n", significant(mebibytes(resident)));
    text
}

/// How much of the machine was not there: the more, the less a single round says.
fn stolen(finalists: &[&Contender]) -> String {
    let runs = finalists.iter().flat_map(|contender| &contender.finals);
    let shares: Vec<f64> = runs.map(|run| run.stolen_share * 100.0).collect();
    match (median(&shares), spread(&shares)) {
        (Some(middle), Some((_, most))) => format!(
            "\nStolen by the hypervisor in a run: {middle:.1} % of the cores' time, at most {most:.1} %.\n"
        ),
        _ => String::new(),
    }
}

fn name(contender: &Contender) -> String {
    let name = contender.entry.name();
    let joined = if contender.entry.class == Class::Joined { " (joined)" } else { "" };
    if contender.entry.ours { format!("**{name}**{joined}") } else { format!("{name}{joined}") }
}

/// Who did not come into the final, with the number of the heat or the reason.
fn out(contest: &Contest, others: &[&Contender]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let metric = contest.bars.first().map_or(Metric::Throughput, |bar| bar.metric);
    let each = |contender: &&Contender| match &contender.heat {
        Ok(run) => {
            let number = run.value(metric).map_or("no number".into(), |v| value(metric, v));
            format!("{} {number}", contender.entry.name())
        }
        Err(reason) => format!("{} failed ({})", contender.entry.name(), reason.replace('\n', " ")),
    };
    let list: Vec<String> = others.iter().map(each).collect();
    format!("\nOut in the heat ({}, one run): {}.\n", title(metric), list.join("; "))
}

fn commands(contenders: &[Contender]) -> String {
    let mut text = String::from("\n<details><summary>Commands</summary>\n\n");
    for contender in contenders {
        let entry = &contender.entry;
        text += &format!("- {}: `{}`, `{}`\n", entry.name(), entry.server, entry.client);
    }
    text + "\n</details>\n"
}

/// The row of memory in the table of bars.
pub fn resident(bytes: u64) -> String {
    format!(
        "| Resident memory of either end of vioperf under any of these, MiB | at most {} | {} | | {} |\n",
        significant(mebibytes(RESIDENT_BAR_BYTES)),
        significant(mebibytes(bytes)),
        met(bytes <= RESIDENT_BAR_BYTES)
    )
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
