//! What is known of a planted truth, and whether a reading is right: the pure part of `vioperf
//! calibrate`.

mod citation;
mod totals;

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};
use vioperf_model::calibration::{Area, Check, CheckUnit, Scatter};
use vioperf_model::units::BitRate;

use crate::statistics::summarise;

pub use crate::shapes::median;

pub use crate::window::Reading;
pub use citation::{cite, failed, sentence, smallest_effects};
pub use totals::{Totals, burned_percent_of_core, process_percent_of_core};

/// Bytes before the payload of an Ethernet frame.
const ETHERNET_HEADER_BYTES: u32 = 14;
/// TCP's header with time stamps (RFC 9293, RFC 7323), which Linux sends by default.
const TCP_HEADER_BYTES: u32 = 20 + 12;
/// UDP's (RFC 768).
const UDP_HEADER_BYTES: u32 = 8;

/// Trials on either side of the comparison that a scatter is told for.
const TRIALS_OF_A_SIDE: f64 = 5.0;

/// Payload a second that TCP gets over a saturated link which counts frames from the Ethernet header on,
/// in segments as long as the MTU allows.
pub fn tcp_payload_rate(link: BitRate, mtu: u32, ip_header_bytes: u32) -> f64 {
    let payload = mtu.saturating_sub(ip_header_bytes + TCP_HEADER_BYTES);
    share(link, payload, mtu + ETHERNET_HEADER_BYTES)
}

/// The same of datagrams of so much payload.
pub fn udp_payload_rate(link: BitRate, payload_bytes: u32, ip_header_bytes: u32) -> f64 {
    let headers = UDP_HEADER_BYTES + ip_header_bytes + ETHERNET_HEADER_BYTES;
    share(link, payload_bytes, payload_bytes + headers)
}

fn share(link: BitRate, payload: u32, frame: u32) -> f64 {
    // A token bucket is told whole bytes a second.
    let bytes_per_second = link.as_bits_per_second() / 8;
    bytes_per_second as f64 * 8.0 * f64::from(payload) / f64::from(frame)
}

/// The interval that holds the number of successes of `n` tries with probability `p` in 99 of 100
/// cases, each tail half of the rest; absent where `p` is no probability.
pub fn binomial_interval_99(n: u64, p: f64) -> Option<(f64, f64)> {
    let distribution = Binomial::new(p, n).ok()?;
    let bound = |tail: f64| distribution.inverse_cdf(tail) as f64;
    Some((bound(0.005), bound(0.995)))
}

/// What a reading may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowed {
    low: f64,
    high: f64,
}

impl Allowed {
    /// No more than `amount` from the truth, to either side.
    pub fn within(truth: f64, amount: f64) -> Self {
        Self { low: truth - amount, high: truth + amount }
    }

    /// No more than `percent` of the truth from it.
    pub fn within_percent(truth: f64, percent: f64) -> Self {
        Self::within(truth, truth.abs() * percent / 100.0)
    }

    /// The truth and nothing else.
    pub fn exactly(truth: f64) -> Self {
        Self::within(truth, 0.0)
    }

    /// From `low` to `high`, both included.
    pub fn between((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

/// Judges what the trials read by their median; nothing of no trials.
pub fn check(
    area: Area,
    what: impl Into<String>,
    unit: CheckUnit,
    truth: f64,
    trials: &[f64],
    allowed: Allowed,
) -> Option<Check> {
    let reading = median(trials)?;
    let Allowed { low, high } = allowed;
    Some(Check {
        area,
        what: what.into(),
        unit,
        truth,
        reading,
        trials: trials.to_vec(),
        allowed_low: low,
        allowed_high: high,
        passed: (low..=high).contains(&reading),
    })
}

/// How much equal trials differ; absent of fewer than two.
pub fn scatter(values: &[f64]) -> Option<Scatter> {
    let summary = summarise(values)?;
    let standard_deviation = summary.standard_deviation?;
    let degrees_of_freedom = 2.0 * TRIALS_OF_A_SIDE - 2.0;
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?.inverse_cdf(0.975);
    Some(Scatter {
        n: summary.n,
        mean: summary.mean,
        standard_deviation,
        smallest_effect_of_5: t * standard_deviation * (2.0 / TRIALS_OF_A_SIDE).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINK: BitRate = BitRate::from_bits_per_second(100_000_000);

    #[test]
    fn payload_of_a_link_is_what_the_headers_leave() {
        let tcp = tcp_payload_rate(LINK, 1500, 20);
        assert!((tcp - 100e6 * 1448.0 / 1514.0).abs() < 1.0, "{tcp}");
        let udp = udp_payload_rate(LINK, 1470, 20);
        assert!((udp - 100e6 * 1470.0 / 1512.0).abs() < 1.0, "{udp}");
        assert!(udp_payload_rate(LINK, 1450, 40) < udp);
        assert!(tcp_payload_rate(LINK, 10, 20) < 1.0, "no room for payload");
    }

    #[test]
    fn a_binomial_interval_agrees_with_the_tables() {
        // n = 100, p = 0.5: P(X <= 36) = 0.0033, P(X <= 37) = 0.0060; symmetric.
        assert_eq!(binomial_interval_99(100, 0.5), Some((37.0, 63.0)));
        assert_eq!(binomial_interval_99(1000, 0.0), Some((0.0, 0.0)));
        assert_eq!(binomial_interval_99(10, 1.5), None);
    }

    #[test]
    fn a_reading_that_is_wrong_is_caught() {
        let of = |reading: f64| {
            let allowed = Allowed::within_percent(100e6, 1.0);
            check(Area::Rate, "x", CheckUnit::BitsPerSecond, 100e6, &[reading], allowed).unwrap()
        };
        assert!(of(100.9e6).passed && of(99.1e6).passed);
        assert!(!of(101.1e6).passed && !of(98.9e6).passed && !of(f64::NAN).passed);
        let exact = Allowed::exactly(4000.0);
        let counted =
            |n: f64| check(Area::Counts, "x", CheckUnit::Packets, 4000.0, &[n], exact).unwrap();
        assert!(counted(4000.0).passed && !counted(3999.0).passed);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_smallest_effect_follows_from_the_scatter() {
        // t(0.975; 8) = 2.306: 2.306 x sqrt(2 / 5) of the standard deviation, which is 1.
        let scatter = scatter(&[9.0, 10.0, 11.0]).unwrap();
        assert!((scatter.smallest_effect_of_5 - 1.4584).abs() < 1e-3, "{scatter:?}");
    }

    proptest! {
        #[test]
        fn a_binomial_interval_holds_its_mean(n in 1u64..100_000, p in 0.0f64..=1.0) {
            let (low, high) = binomial_interval_99(n, p).unwrap();
            let mean = n as f64 * p;
            prop_assert!(low <= mean + 1.0 && mean - 1.0 <= high, "{low} {mean} {high}");
        }
    }
}
