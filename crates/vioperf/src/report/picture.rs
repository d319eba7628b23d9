//! The small pictures of findings, as text: a bar a value, from the smallest to the largest.

use vioperf_analysis::result::{Picture, PictureOrder};

use super::text::clean;

/// The eighths of a character cell.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// More values than this are drawn as means of neighbours.
const MOST_BARS: usize = 20;

/// One line a picture: name, bars, range.
pub fn lines(pictures: &[Picture]) -> Vec<String> {
    let name = |picture: &Picture| clean(&picture.cell.0);
    let widest = pictures.iter().map(|picture| name(picture).chars().count()).max().unwrap_or(0);
    let line = |picture: &Picture| {
        format!("{:widest$}  {}  {}", name(picture), bars(&picture.values), picture.range)
    };
    pictures.iter().map(line).collect()
}

/// What the values are in the order of, in words.
pub fn order(picture: &Picture) -> &'static str {
    match picture.by {
        PictureOrder::Block => "trial by trial",
        PictureOrder::TenthOfTrial => "over a trial",
    }
}

fn bars(values: &[f64]) -> String {
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let in_bar = values.len().div_ceil(MOST_BARS).max(1);
    let heights: Vec<f64> = values.chunks(in_bar).map(mean).collect();
    let least = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let most = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |height: &f64| {
        let part = if most > least { (height - least) / (most - least) } else { 0.5 };
        // Steps of one eighth, rounded: no part lies outside of 0 to 1.
        BARS.iter().rev().zip((0..8u8).rev()).find(|(_, step)| part >= f64::from(*step) / 8.0)
    };
    heights.iter().map(|height| bar(height).map_or(BARS[0], |(bar, _)| *bar)).collect()
}

#[cfg(test)]
mod tests {
    use vioperf_model::plan::CellId;

    use super::*;

    #[test]
    fn bars_go_from_the_smallest_to_the_largest() {
        assert_eq!(bars(&[1.0, 2.0, 9.0, 5.0]), "▁▂█▅");
        assert_eq!(bars(&[3.0; 3]), "▅▅▅");
        assert_eq!(bars(&[f64::NAN]).chars().count(), 1);
        assert_eq!(bars(&[1.0; 1_000]).chars().count(), 20);
    }

    #[test]
    fn names_stand_below_one_another() {
        let picture = |name: &str| Picture {
            cell: CellId(name.into()),
            by: PictureOrder::Block,
            values: vec![1.0, 2.0],
            marked: vec![],
            range: "1 to 2 Gbit/s".into(),
        };
        let lines = lines(&[picture("virtio"), picture("igb")]);
        assert_eq!(lines[1], "igb     ▁█  1 to 2 Gbit/s");
    }
}
