//! Which cells and metrics of two runs are set against each other.

use std::cmp::Ordering;

use vioperf_model::plan::CellId;

use super::metric::{ComparedMetric, Scale, Wanted};
use super::series::{Pair, Point};
use crate::result::{CellAnalysis, Metric, RunAnalysis};

/// A cell by a metric: what is asked of both sides.
#[derive(Debug)]
pub struct Question<'a> {
    /// The cell.
    pub cell: String,
    /// The variant that B is, where there are several.
    pub variant: Option<String>,
    /// Whether no guest is in its path.
    pub is_baseline: bool,
    /// What is compared.
    pub metric: &'static ComparedMetric,
    /// Of A.
    pub a: Option<&'a Metric>,
    /// Of B.
    pub b: Option<&'a Metric>,
    /// The values, or why they cannot be compared.
    pub pair: Result<Pair, String>,
}

/// All questions: A's cells in their order, then those that only B has.
pub fn between<'a>(a: &'a RunAnalysis, b: &'a RunAnalysis, wanted: &[Wanted]) -> Vec<Question<'a>> {
    let of = |run: &'a RunAnalysis, id: &CellId| run.cells.iter().find(|cell| cell.id == *id);
    let only_in_b = b.cells.iter().filter(|cell| of(a, &cell.id).is_none());
    let mut questions = Vec::new();
    for cell in a.cells.iter().chain(only_in_b) {
        let sides = [of(a, &cell.id), of(b, &cell.id)];
        questions.extend(of_cell(&cell.id.0, sides, wanted));
    }
    questions
}

/// The questions about one cell of both sides.
pub fn of_cell<'a>(
    name: &str,
    [a, b]: [Option<&'a CellAnalysis>; 2],
    wanted: &[Wanted],
) -> Vec<Question<'a>> {
    let Some(cell) = a.or(b) else { return Vec::new() };
    let question = |metric: &'static ComparedMetric, pair: Result<Pair, String>| Question {
        cell: name.to_owned(),
        variant: None,
        is_baseline: cell.is_baseline,
        metric,
        a: a.and_then(|cell| metric.read(cell)),
        b: b.and_then(|cell| metric.read(cell)),
        pair,
    };
    let (Some(of_a), Some(of_b)) = (a, b) else {
        let side = if a.is_some() { "A" } else { "B" };
        let headline = Wanted::Headline.of(cell);
        let missing = Err(format!("only {side} has this cell"));
        return headline.map(|metric| question(metric, missing)).into_iter().collect();
    };
    let mut asked: Vec<Question<'_>> = Vec::new();
    for wanted in wanted {
        let (Some(metric), Some(other)) = (wanted.of(of_a), wanted.of(of_b)) else { continue };
        if asked.iter().any(|question| std::ptr::eq(question.metric, metric)) {
            continue;
        }
        if !std::ptr::eq(metric, other) {
            let why = format!("A is measured by {}, B by {}", metric.title, other.title);
            asked.push(question(metric, Err(why)));
            continue;
        }
        let (Some(in_a), Some(in_b)) = (metric.read(of_a), metric.read(of_b)) else { continue };
        // A baseline has no guest to tell anything of: that is no news.
        if !cell.is_baseline || !in_a.values.is_empty() || !in_b.values.is_empty() {
            asked.push(question(metric, pair(metric.scale, in_a, in_b)));
        }
    }
    asked
}

fn pair(scale: Scale, a: &Metric, b: &Metric) -> Result<Pair, String> {
    Ok(Pair { a: points(scale, a, "A")?, b: points(scale, b, "B")? })
}

/// The values of one side; of several trials of a block the first.
fn points(scale: Scale, metric: &Metric, side: &str) -> Result<Vec<Point>, String> {
    if metric.values.is_empty() {
        return Err(format!(
            "{side} has no value: {}",
            metric.reason().unwrap_or("no trial counts")
        ));
    }
    let mut points: Vec<Point> = Vec::new();
    for value in &metric.values {
        if points.last().is_some_and(|last| last.block == value.block) {
            continue;
        }
        let on_scale = match scale {
            Scale::Ratio if value.value > 0.0 => value.value.ln(),
            Scale::Ratio => return Err(format!("{side} has a value of 0, which has no ratio")),
            Scale::Difference => value.value,
        };
        points.push(Point { block: value.block, value: on_scale });
    }
    Ok(points)
}

/// Whether A comes first: by its time; of runs that began in the same second by their values, so that
/// it does not matter which is called A.
pub fn is_a_first(a: &RunAnalysis, b: &RunAnalysis, questions: &[Question<'_>]) -> bool {
    let by_time = a.run.started_at.cmp(&b.run.started_at);
    let side = |read: fn(&Pair) -> &Vec<Point>| {
        let pairs = questions.iter().filter_map(|question| question.pair.as_ref().ok());
        pairs.flat_map(move |pair| read(pair).iter().map(|point| point.value)).collect::<Vec<_>>()
    };
    let by_values = || side(|pair| &pair.a).partial_cmp(&side(|pair| &pair.b));
    by_time.then_with(|| by_values().unwrap_or(Ordering::Equal)) != Ordering::Greater
}
