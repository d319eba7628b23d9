//! More carried than the link can carry.

use super::Told;
use crate::wording::rate;

/// By how much a reading may be above: what waited in a queue before the window arrives in it.
const TOLERANCE: f64 = 0.05;

pub fn check(told: &Told) -> Vec<String> {
    let Some(link) = told.link_bits_per_second else { return Vec::new() };
    let most = told.bits_per_second.iter().copied().fold(0.0, f64::max);
    if most <= link * (1.0 + TOLERANCE) {
        return Vec::new();
    }
    vec![format!("{} over a link of {}", rate(most), rate(link))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_clearly_more_is_told() {
        let told = |bits: f64, link: Option<f64>| {
            check(&Told {
                bits_per_second: vec![1.0, bits],
                link_bits_per_second: link,
                ..Told::default()
            })
        };
        assert_eq!(told(1.04e8, Some(1e8)), Vec::<String>::new());
        assert_eq!(told(5.8e8, None), Vec::<String>::new());
        assert_eq!(told(5.8e8, Some(1e8)), ["580 Mbit/s over a link of 100 Mbit/s"]);
    }
}
