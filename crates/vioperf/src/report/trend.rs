//! A metric over time, as `vioperf trend` prints it.

use std::fmt::Write as _;

use vioperf_analysis::change_points::{LEAST_CHANGE, SIGNIFICANCE};
use vioperf_analysis::trend::{LevelChange, Point, Trend};
use vioperf_analysis::wording::{count, three_digits};

use super::csv::{quoted, text};
use super::markdown::escape;
use super::table::{self, number};
use super::text::{clean, wrap};
use crate::cli::TrendFormat;
use crate::store::to_json;

const WIDTH: usize = 100;
/// Width of the chart of intervals.
const CHART: usize = 32;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders `trends`.
///
/// # Errors
/// None that happens: all of it is text and numbers.
pub fn render(trends: &[Trend], format: TrendFormat, colors: bool) -> anyhow::Result<String> {
    Ok(match format {
        TrendFormat::Terminal => terminal(trends, colors)?,
        TrendFormat::Json => to_json(&trends)?,
        TrendFormat::Csv => csv(trends),
        TrendFormat::Markdown => markdown(trends)?,
    })
}

/// What the changes are, for a person.
pub fn legend() -> String {
    format!(
        "A level changes where fewer than 1 in {:.0} random orders of the same runs look as much like a \
         change, and by at least {} %. Times are UTC.",
        1.0 / SIGNIFICANCE,
        100.0 * LEAST_CHANGE
    )
}

fn terminal(trends: &[Trend], colors: bool) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    for trend in trends {
        let (strong, end) = if colors { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let scale = Scale::of(trend);
        writeln!(out, "{strong}{}{end}", clean(&title(trend, &scale)))?;
        writeln!(out, "  {}  {}", sparkline(&trend.points), range(&trend.points, &scale))?;
        out += &lines(trend, &scale);
        if trend.changes.is_empty() {
            writeln!(out, "  No change of level in {}.", count(trend.points.len(), "run"))?;
        }
        out.push('\n');
    }
    if !trends.is_empty() {
        out += &wrap(&legend(), WIDTH, "", "");
    }
    Ok(out)
}

/// What numbers are told in: rates can be in the billions.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    prefix: &'static str,
    /// What a value is divided by.
    pub factor: f64,
}

impl Scale {
    /// One for all of a cell's numbers, so that they can be compared at a glance.
    pub fn of(trend: &Trend) -> Self {
        let (_, most) = ends(trend.points.iter().map(|point| point.mean.abs()));
        let prefixes = [("G", 1e9), ("M", 1e6), ("k", 1e3)];
        let fits = |(_, factor): &(&str, f64)| trend.unit.ends_with("/s") && most >= *factor;
        let (prefix, factor) = prefixes.into_iter().find(fits).unwrap_or(("", 1.0));
        Self { prefix, factor }
    }

    /// A value in it.
    pub fn written(&self, value: f64) -> String {
        three_digits(value / self.factor)
    }

    /// `Gbit/s`; of words `million datagrams/s`.
    pub fn unit(&self, unit: &str) -> String {
        let word = match self.prefix {
            _ if unit == "bit/s" => return format!("{}{unit}", self.prefix),
            "G" => "billion ",
            "M" => "million ",
            "k" => "thousand ",
            _ => "",
        };
        format!("{word}{unit}")
    }
}

/// What is shown, and in which unit.
pub fn title(trend: &Trend, scale: &Scale) -> String {
    let host = if trend.host.is_empty() { "an unknown host" } else { &trend.host };
    let unit = scale.unit(&trend.unit);
    format!("{}: {} in {unit}, {} on {host}", trend.cell, trend.metric, trend.scenario)
}

/// A bar a run, from the least to the most.
fn sparkline(points: &[Point]) -> String {
    let (least, most) = ends(points.iter().map(|point| point.mean));
    points
        .iter()
        .map(|point| {
            let part = (point.mean - least) / (most - least);
            let steps = (BARS.len() - 1) as f64;
            // Of equal values the part is no number, and the bar the middle one.
            let at = if part.is_finite() { (part * steps).round() } else { (steps / 2.0).floor() };
            let reached = BARS.iter().zip(0_u8..).take_while(|(_, nth)| f64::from(*nth) <= at);
            reached.last().map_or(' ', |(bar, _)| *bar)
        })
        .collect()
}

fn range(points: &[Point], scale: &Scale) -> String {
    let (least, most) = ends(points.iter().map(|point| point.mean));
    format!("{} to {}", scale.written(least), scale.written(most))
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)))
}

/// A line a run, and between them what changed.
fn lines(trend: &Trend, scale: &Scale) -> String {
    let points = &trend.points;
    let all = points.iter().flat_map(|p| [Some(p.mean), p.low_95, p.high_95]).flatten();
    let width = ends(all);
    let columns = [
        table::text("began"),
        table::text("run"),
        number("mean"),
        number("95 % interval"),
        number("trials"),
        table::text(""),
    ];
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            vec![
                short_time(&point.started_at),
                point.run_id.clone(),
                scale.written(point.mean),
                interval(point, scale),
                point.n.to_string(),
                bar(point, width),
            ]
        })
        .collect();
    let (head, body) = table::lines(&columns, &rows);
    let mut out = head.join("\n") + "\n";
    for (nth, line) in body.iter().enumerate() {
        for change in trend.changes.iter().filter(|change| change.at == nth) {
            out += &wrap(&sentence(change, scale), WIDTH, "  ── ", "     ");
        }
        out += line;
        out.push('\n');
    }
    out
}

/// A time to the minute.
pub fn short_time(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// The 95 % interval of a run's mean.
pub fn interval(point: &Point, scale: &Scale) -> String {
    match (point.low_95, point.high_95) {
        (Some(low), Some(high)) => format!("{}–{}", scale.written(low), scale.written(high)),
        _ => "–".into(),
    }
}

/// The interval as a line and the mean as a dot on it.
fn bar(point: &Point, (least, most): (f64, f64)) -> String {
    let place = |value: f64| {
        let part = (value - least) / (most - least);
        let steps = (CHART - 1) as f64;
        (0..CHART).rfind(|&at| at as f64 <= (part * steps).round()).unwrap_or(0)
    };
    let (mean, low, high) = (
        place(point.mean),
        place(point.low_95.unwrap_or(point.mean)),
        place(point.high_95.unwrap_or(point.mean)),
    );
    let mark = |at: usize| match at {
        _ if at == mean => '●',
        _ if (low..=high).contains(&at) => '─',
        _ => ' ',
    };
    (0..CHART).map(mark).collect::<String>().trim_end().to_owned()
}

/// A change of level, and what else changed there.
pub fn sentence(change: &LevelChange, scale: &Scale) -> String {
    let sign = if change.percent > 0.0 { "+" } else { "" };
    let what = if change.provenance.is_empty() {
        "nothing recorded changed with it".to_owned()
    } else {
        change.provenance.join("; ")
    };
    format!(
        "{sign}{} %: {} → {} (p = {:.4}); {what}",
        three_digits(change.percent),
        scale.written(change.before),
        scale.written(change.after),
        change.p
    )
}

fn markdown(trends: &[Trend]) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    for trend in trends {
        let scale = &Scale::of(trend);
        writeln!(out, "### {}\n", escape(&title(trend, scale)))?;
        writeln!(out, "{}  {}\n", sparkline(&trend.points), range(&trend.points, scale))?;
        writeln!(
            out,
            "| began | run | mean | 95 % interval | trials | |\n| --- | --- | ---: | ---: | ---: | --- |"
        )?;
        for (nth, point) in trend.points.iter().enumerate() {
            let change = trend.changes.iter().find(|change| change.at == nth);
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} |",
                escape(&short_time(&point.started_at)),
                escape(&point.run_id),
                scale.written(point.mean),
                interval(point, scale),
                point.n,
                change.map(|change| escape(&sentence(change, scale))).unwrap_or_default(),
            )?;
        }
        out.push('\n');
    }
    if !trends.is_empty() {
        writeln!(out, "{}", legend())?;
    }
    Ok(out)
}

fn csv(trends: &[Trend]) -> String {
    let mut out = "scenario,host,cell,metric,unit,run_id,started_at,mean,n,low_95,high_95,level,\
                   change_percent,change_p,change_provenance\n"
        .to_owned();
    for trend in trends {
        for (nth, point) in trend.points.iter().enumerate() {
            let change = trend.changes.iter().find(|change| change.at == nth);
            let level = trend.changes.iter().filter(|change| change.at <= nth).count();
            let real =
                |value: Option<f64>| value.map(|value| format!("{value:?}")).unwrap_or_default();
            let fields = [
                text(&trend.scenario),
                text(&trend.host),
                text(&trend.cell),
                trend.metric.clone(),
                trend.unit.clone(),
                point.run_id.clone(),
                point.started_at.clone(),
                real(Some(point.mean)),
                point.n.to_string(),
                real(point.low_95),
                real(point.high_95),
                level.to_string(),
                real(change.map(|change| change.percent)),
                real(change.map(|change| change.p)),
                text(&change.map(|change| change.provenance.join("; ")).unwrap_or_default()),
            ];
            out += &fields.map(|field| quoted(&field)).join(",");
            out.push('\n');
        }
    }
    out
}
