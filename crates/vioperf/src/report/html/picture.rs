//! The small picture of a finding: a line through its values, with those that it is about as dots.

use maud::{Markup, html};
use vioperf_analysis::result::Picture;

use crate::report::picture::order;
use crate::report::text::clean;

/// Size in the SVG's own units: a margin is left for the dots.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 48.0;
const MARGIN: f64 = 5.0;

/// Name, line and range.
pub fn figure(picture: &Picture) -> Markup {
    let points = points(&picture.values);
    let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let is_marked = |at: &usize| picture.marked.contains(at);
    let name = clean(&picture.cell.0);
    let range = format!("{}, {}", picture.range, order(picture));
    html! {
        figure.picture {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) role="img"
                aria-label=(format!("{name}: {range}")) {
                polyline points=(line.join(" ")) {}
                @for (at, (x, y)) in points.iter().enumerate() {
                    @if is_marked(&at) {
                        circle.marked cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="4" {}
                    } @else if points.len() <= 60 {
                        circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="2" {}
                    }
                }
            }
            figcaption { (name) ": " (range) }
        }
    }
}

/// Where each value lies: from left to right, the largest at the top.
fn points(values: &[f64]) -> Vec<(f64, f64)> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let step = (WIDTH - 2.0 * MARGIN) / (values.len().saturating_sub(1).max(1)) as f64;
    let part = |value: f64| if most > least { (value - least) / (most - least) } else { 0.5 };
    let point = |(at, value): (usize, &f64)| {
        let y = HEIGHT - MARGIN - part(*value) * (HEIGHT - 2.0 * MARGIN);
        (MARGIN + step * at as f64, y)
    };
    values.iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::result::PictureOrder;
    use vioperf_model::plan::CellId;

    use super::*;

    #[test]
    fn every_value_has_its_dot_and_a_name_stays_text() {
        let picture = Picture {
            cell: CellId("<b>".into()),
            by: PictureOrder::Block,
            values: vec![1.0, 3.0, 2.0],
            marked: vec![1],
            range: "1 to 3 Gbit/s".into(),
        };
        let page = figure(&picture).into_string();
        assert_eq!(page.matches("<circle").count(), 3);
        assert_eq!(page.matches("class=\"marked\"").count(), 1);
        assert!(page.contains("120.0,5.0") && !page.contains("<b>"), "{page}");
    }
}
