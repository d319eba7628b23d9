//! Charts as rows: a name, a track that is an inline SVG, and the number in words. Text stays text,
//! so that it is readable on any width and by a screen reader; positions are percentages.

use maud::{Markup, html};
use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::Summary;
use vioperf_model::nic::NicKind;

/// What a row's mark looks like: shape and colour both tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Square, grey.
    Baseline,
    /// Circle.
    Paravirtual,
    /// Diamond.
    Emulated,
    /// Triangle.
    PassedThrough,
}

/// One row.
#[derive(Debug)]
pub struct Row {
    /// Name of the path.
    pub name: String,
    /// What stands small below the name.
    pub note: String,
    /// Links to the findings that are seen in it.
    pub marks: Markup,
    /// Its mark.
    pub shape: Shape,
    /// Mean and interval.
    pub summary: Option<Summary>,
    /// Every trial.
    pub dots: Vec<f64>,
    /// What was sent, where not all of it arrived.
    pub sent: Option<f64>,
    /// The mean as text.
    pub value: String,
    /// The interval as text.
    pub interval: String,
    /// What a link to it names.
    pub anchor: Option<String>,
}

/// A value to be marked on the scale.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What it is.
    pub name: &'static str,
}

/// Rows on one scale that begins at zero.
#[derive(Debug)]
pub struct Chart {
    /// The rows.
    pub rows: Vec<Row>,
    /// A value to be marked.
    pub mark: Option<Mark>,
    /// Unit at the scale.
    pub unit: &'static str,
    /// What one of these units is.
    pub factor: f64,
}

/// What is further out than so many times everything else is drawn off the scale.
const OFF_SCALE: f64 = 2.5;

/// An interval of few trials can be far wider than what was seen: what is further out than so many times the
/// largest of that may leave the scale.
const INTERVAL_OFF_SCALE: f64 = 1.5;

impl Chart {
    /// With the unit of a rate that suits its scale.
    pub fn with_unit(mut self, unit: Unit) -> Self {
        let (unit, factor) = unit.scale(self.largest());
        (self.unit, self.factor) = (unit, factor);
        self
    }

    /// The largest value that has to fit: of the baseline only if the others come near to it.
    fn largest(&self) -> f64 {
        let largest = |baseline: bool| {
            let rows = self.rows.iter().filter(|row| (row.shape == Shape::Baseline) == baseline);
            rows.filter_map(Row::largest).fold(0.0, f64::max)
        };
        let (others, baseline) = (largest(false), largest(true));
        if others > 0.0 && baseline > OFF_SCALE * others { others } else { others.max(baseline) }
    }
}

impl Row {
    fn largest(&self) -> Option<f64> {
        let mean = self.summary?.mean;
        let seen = self.dots.iter().copied().fold(mean, f64::max);
        let interval = self.summary?.interval_95.map(|interval| interval.high);
        let interval = interval.filter(|high| *high <= INTERVAL_OFF_SCALE * seen);
        let largest = interval.map_or(seen, |high| high.max(seen));
        // Nor has everything that was sent to fit, if that is far more than arrived.
        let sent = self.sent.filter(|sent| *sent <= OFF_SCALE * largest);
        Some(sent.map_or(largest, |sent| largest.max(sent)))
    }
}

/// From zero to `end`, in percent of the track.
pub struct Scale {
    end: f64,
    step: f64,
}

impl Scale {
    /// With room for the largest value.
    pub fn up_to(largest: f64) -> Self {
        let wanted = if largest > 0.0 { largest * 1.06 } else { 1.0 };
        let power = 10f64.powf((wanted / 5.0).log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power);
        let step = steps.into_iter().find(|step| wanted / step <= 5.0).unwrap_or(power * 10.0);
        Self { end: wanted, step }
    }

    /// Where a value lies; what is beyond lies at the end.
    pub fn at(&self, value: f64) -> String {
        format!("{:.2}%", (100.0 * value / self.end).clamp(0.0, 100.0))
    }

    /// Whether a value is on it.
    pub fn has(&self, value: f64) -> bool {
        value <= self.end
    }

    fn between(&self, low: f64, high: f64) -> String {
        let at = |value: f64| (100.0 * value / self.end).clamp(0.0, 100.0);
        format!("{:.2}%", at(high) - at(low))
    }

    /// Round values.
    pub fn ticks(&self) -> Vec<f64> {
        (0..=5).map(|n| f64::from(n) * self.step).filter(|tick| *tick <= self.end).collect()
    }
}

/// The chart as HTML.
pub fn render(chart: &Chart) -> Markup {
    let mut largest = chart.largest();
    let mark = chart.mark.filter(|mark| largest > 0.0 && mark.at <= OFF_SCALE * largest);
    if let Some(mark) = mark {
        largest = largest.max(mark.at);
    }
    let scale = Scale::up_to(largest);
    html! {
        div.chart {
            @for row in &chart.rows { (row_markup(row, &scale, mark)) }
            (axis(chart, &scale, mark))
        }
        @if let (Some(far), None) = (chart.mark, mark) {
            p.small {
                "The " (far.name) ", " (far.at) " " (chart.unit) ", lies far to the right of this scale."
            }
        }
    }
}

fn row_markup(row: &Row, scale: &Scale, mark: Option<Mark>) -> Markup {
    let class = class_of(row.shape);
    html! {
        div class={ "row " (class) } id=[&row.anchor] {
            div.name {
                @match &row.anchor {
                    Some(anchor) => a.self href={ "#" (anchor) } title="link to this cell" { (row.name) },
                    None => (row.name),
                }
                (row.marks)
                span.note { (row.note) }
            }
            svg.track height="30" role="img" aria-label={ (row.name) ": " (row.value) ", " (row.interval) } {
                @for tick in scale.ticks() {
                    line.grid x1=(scale.at(tick)) x2=(scale.at(tick)) y1="0" y2="30" {}
                }
                @if let Some(mark) = mark {
                    line.mark x1=(scale.at(mark.at)) x2=(scale.at(mark.at)) y1="0" y2="30" {}
                }
                @if let Some(summary) = &row.summary { (drawing(row, summary, scale)) }
            }
            div.value { b { (row.value) } span.note { (row.interval) } }
        }
    }
}

fn drawing(row: &Row, summary: &Summary, scale: &Scale) -> Markup {
    let is_off_scale = summary.mean > scale.end;
    html! {
        @if let Some(sent) = row.sent.filter(|sent| *sent > summary.mean) {
            rect.sent x=(scale.at(summary.mean)) y="9" height="12"
                width=(scale.between(summary.mean, sent)) {}
        }
        rect.bar x="0" y="9" height="12" width=(scale.at(summary.mean)) {}
        @if is_off_scale {
            // A cut in the bar, and an arrow where it leaves.
            svg.overflow x="92%" { path.cut d="M-4 24 L2 6 M3 24 L9 6" {} }
            svg.overflow x="100%" { path.arrow d="M-7 9 L0 15 L-7 21 Z" {} }
        } @else {
            @if let Some(interval) = summary.interval_95 {
                line.interval x1=(scale.at(interval.low)) x2=(scale.at(interval.high)) y1="15" y2="15" {}
                @if interval.high > scale.end {
                    svg.overflow x="100%" { path.beyond d="M-6 10 L0 15 L-6 20" {} }
                }
            }
            @for dot in &row.dots { circle.dot cx=(scale.at(*dot)) cy="15" r="3" {} }
            svg.overflow x=(scale.at(summary.mean)) { (symbol(row.shape)) }
        }
    }
}

/// The mark itself, around (0, 15).
pub fn symbol(shape: Shape) -> Markup {
    let path = match shape {
        Shape::Baseline => "M-5 10 H5 V20 H-5 Z",
        Shape::Paravirtual => "M-6 15 A6 6 0 1 1 6 15 A6 6 0 1 1 -6 15 Z",
        Shape::Emulated => "M0 8 L7 15 L0 22 L-7 15 Z",
        Shape::PassedThrough => "M0 8 L7 21 L-7 21 Z",
    };
    html! { path.mean d=(path) {} }
}

fn axis(chart: &Chart, scale: &Scale, mark: Option<Mark>) -> Markup {
    let label = |tick: f64| {
        let value = tick / chart.factor;
        let places = usize::from(scale.step / chart.factor < 1.0) * 2;
        if tick == 0.0 { "0".into() } else { format!("{value:.places$}") }
    };
    html! {
        div.row.axis aria-hidden="true" {
            div.name {}
            svg.track height="22" {
                @for tick in scale.ticks() {
                    text x=(scale.at(tick)) y="14" text-anchor=(if tick == 0.0 { "start" } else { "middle" }) {
                        (label(tick))
                    }
                }
            }
            div.value {
                (chart.unit)
                @if let Some(mark) = mark { span.note { "dashed: " (mark.name) } }
            }
        }
    }
}

/// What the mark of a path of that kind looks like; of a baseline without.
pub fn shape(kind: Option<NicKind>) -> Shape {
    match kind {
        None => Shape::Baseline,
        Some(NicKind::Paravirtual) => Shape::Paravirtual,
        Some(NicKind::Emulated) => Shape::Emulated,
        Some(NicKind::PassedThrough) => Shape::PassedThrough,
    }
}

/// The class of its colour.
pub fn class_of(shape: Shape) -> &'static str {
    match shape {
        Shape::Baseline => "baseline",
        Shape::Paravirtual => "paravirtual",
        Shape::Emulated => "emulated",
        Shape::PassedThrough => "passed-through",
    }
}

/// What the shapes and colours of a chart mean; that of a function of a card only where there is one.
pub fn legend(chart: &Chart) -> Markup {
    let entries = [
        (Shape::Paravirtual, "paravirtual"),
        (Shape::Emulated, "emulated card"),
        (Shape::PassedThrough, "passed through"),
    ];
    let is_rare = |shape| shape == Shape::PassedThrough;
    let is_there = |shape| chart.rows.iter().any(|row| row.shape == shape);
    html! {
        p.legend {
            @for (shape, name) in entries.into_iter().filter(|(shape, _)| !is_rare(*shape) || is_there(*shape)) {
                span class={ "key " (class_of(shape)) } {
                    svg width="16" height="30" aria-hidden="true" {
                        svg.overflow x="50%" { (symbol(shape)) }
                    }
                    (name)
                }
            }
        }
    }
}
