//! Axes of drawings in an SVG's own units.

/// From the lowest value to the highest, along `from`..`to` of the drawing.
pub struct Axis {
    /// The lowest value that is on it.
    pub low: f64,
    /// The highest.
    pub high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// Of values above zero, with room at both ends.
    pub fn logarithmic(values: &[f64], from: f64, to: f64) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
        let high = values.iter().copied().fold(low, f64::max);
        let room = (high / low).powf(0.08).max(1.3);
        Self { low: low / room, high: high * room, from, to, is_logarithmic: true }
    }

    /// From zero.
    pub fn from_zero(largest: f64, from: f64, to: f64) -> Self {
        let high = if largest > 0.0 { largest * 1.08 } else { 1.0 };
        Self { low: 0.0, high, from, to, is_logarithmic: false }
    }

    /// From one value to another.
    pub fn between(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            from,
            to,
            is_logarithmic: false,
        }
    }

    /// Where a value lies; what is outside lies at the end.
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.from + (self.to - self.from) * part
    }

    /// The same as text.
    pub fn at(&self, value: f64) -> String {
        point(self.place(value))
    }

    /// Round values: 1, 2 and 5 times powers of ten, and no more than fit.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic { self.logarithmic_ticks() } else { self.even_ticks(5.0) }
    }

    /// The same, for a small drawing.
    pub fn few_ticks(&self) -> Vec<f64> {
        if !self.is_logarithmic {
            return self.even_ticks(3.0);
        }
        let ticks = self.logarithmic_ticks();
        let step = ticks.len().div_ceil(4).max(1);
        ticks.into_iter().step_by(step).collect()
    }

    fn logarithmic_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks =
            (-15..=15).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        ticks.filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }

    /// No more than `most` steps.
    pub fn even_ticks(&self, most: f64) -> Vec<f64> {
        let wanted = (self.high - self.low) / most;
        let power = 10f64.powf(wanted.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
        let step = steps.into_iter().find(|step| *step >= wanted).unwrap_or(power * 10.0);
        let first = (self.low / step).ceil();
        (0..=12)
            .map(|n| (first + f64::from(n)) * step)
            .filter(|tick| *tick <= self.high + step * 1e-6)
            .collect()
    }
}

/// A round value as text, with no more decimals than it has.
pub fn tick(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// A coordinate as text.
pub fn point(at: f64) -> String {
    format!("{at:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_has_no_more_decimals_than_it_needs() {
        let ticks = [0.0, -0.000_01, 0.5, 100.0, 2_000.0, 0.2 + 0.1];
        assert_eq!(ticks.map(tick), ["0", "0", "0.5", "100", "2000", "0.3"]);
    }

    #[test]
    fn values_lie_between_the_ends_whatever_they_are() {
        let log = Axis::logarithmic(&[3.0, 300.0], 10.0, 110.0);
        assert_eq!(log.ticks(), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert!((log.place(30.0) - 60.0).abs() < 0.01);
        for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            assert!((10.0..=110.0).contains(&log.place(value)), "{value}");
        }
        assert_eq!(log.few_ticks(), [5.0, 20.0, 100.0]);
        let even = Axis::from_zero(9.0, 100.0, 0.0);
        assert_eq!(even.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(even.at(0.0), "100.0");
        let between = Axis::between(-0.2, 1.5, 0.0, 100.0);
        assert_eq!(between.even_ticks(4.0), [0.0, 0.5, 1.0, 1.5]);
        assert!(Axis::logarithmic(&[], 0.0, 1.0).place(1.0).is_finite());
        assert!(Axis::between(1.0, 1.0, 0.0, 1.0).place(1.0).is_finite());
    }
}
