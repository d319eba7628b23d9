//! Cuts a party's samples to the common window, and reads increases of counters inside it.

use std::borrow::Cow;

use vioperf_model::record::{Party, Timeline};
use vioperf_model::sample::{NodeReport, Sample};

/// Why a number could not be derived, for a person. Never replaced by a zero.
pub type Absent = Cow<'static, str>;

/// A number of one trial, or why there is none.
pub type Reading = Result<f64, Absent>;

/// The least part of the window that the samples have to span, in percent. Samples end up to one
/// interval short of the window at either end; a party that lost more did not see the trial.
const LEAST_COVER_PERCENT: f64 = 50.0;

/// One party's samples inside the common window, oldest first, on its own clock.
#[derive(Debug)]
pub struct Window<'a> {
    samples: Vec<&'a Sample>,
    report: &'a NodeReport,
    /// From the first sample to the last, in seconds. Above zero.
    pub seconds: f64,
}

impl<'a> Window<'a> {
    /// The samples of `party` from the first at or after the window's start to the last at or
    /// before its end.
    ///
    /// # Errors
    /// When the load was never measured, or the samples span too little of the window.
    pub fn cut(party: &'a Party, timeline: Option<&Timeline>) -> Result<Self, Absent> {
        let timeline = timeline.ok_or("the load was never measured")?;
        let length = timeline.measured_until_ns.saturating_sub(timeline.measured_from_ns);
        // i128: neither a hostile offset nor a hostile timestamp can overflow it.
        let on_party_clock =
            |conductor_ns: u64| i128::from(conductor_ns) + i128::from(party.clock.offset_ns);
        let from = on_party_clock(timeline.measured_from_ns);
        let until = on_party_clock(timeline.measured_until_ns);
        let mut samples: Vec<&Sample> = party
            .report
            .samples
            .iter()
            .filter(|sample| (from..=until).contains(&i128::from(sample.monotonic_ns)))
            .collect();
        // Already in order unless the record is damaged, and then this takes linear time.
        samples.sort_by_key(|sample| sample.monotonic_ns);
        let span = match (samples.first(), samples.last()) {
            (Some(first), Some(last)) => last.monotonic_ns - first.monotonic_ns,
            _ => 0,
        };
        if span == 0 {
            let count = samples.len();
            return Err(format!("{count} samples lie in the window, two are the least").into());
        }
        let cover = percent(span as f64, length as f64);
        if cover < LEAST_COVER_PERCENT {
            return Err(format!("the samples span only {cover:.0} % of the window").into());
        }
        Ok(Self { samples, report: &party.report, seconds: span as f64 / 1e9 })
    }

    /// The first sample.
    pub fn first(&self) -> &'a Sample {
        self.samples[0]
    }

    /// Every sample, oldest first. At least two.
    pub fn samples(&self) -> &[&'a Sample] {
        &self.samples
    }

    /// Clock ticks per second of the party's machine.
    ///
    /// # Errors
    /// When the party did not tell.
    pub fn ticks_per_second(&self) -> Reading {
        match self.report.ticks_per_second {
            0 => Err("the length of a clock tick is not known".into()),
            ticks => Ok(f64::from(ticks)),
        }
    }

    /// Why `group` is not in the samples.
    pub fn reason(&self, group: &str) -> Absent {
        match self.report.absent.get(group) {
            Some(reason) => format!("{group}: {reason}").into(),
            None => format!("{group}: not in the samples").into(),
        }
    }

    /// By how much a counter of `group` grew from the first sample to the last.
    ///
    /// # Errors
    /// When either sample lacks it, or it runs backwards anywhere in between.
    pub fn increase(
        &self,
        group: &str,
        read: impl Fn(&Sample) -> Option<u64>,
    ) -> Result<u64, Absent> {
        let first = read(self.samples[0]).ok_or_else(|| self.reason(group))?;
        let last_sample = self.samples[self.samples.len() - 1];
        let last = read(last_sample).ok_or_else(|| self.reason(group))?;
        let mut before = first;
        for now in self.samples.iter().filter_map(|sample| read(sample)) {
            if now < before {
                return Err(format!("{group}: a counter ran backwards").into());
            }
            before = now;
        }
        Ok(last - first)
    }
}

/// `part` in percent of `whole`; 0 of 0 is 0.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::LoadCounters;

    use super::*;
    use crate::testing::{party_with_samples, timeline};

    fn sample(monotonic_ns: u64, bytes: u64) -> Sample {
        let load = Some(LoadCounters { bytes, calls: 1, ..LoadCounters::default() });
        Sample { monotonic_ns, load, ..Sample::default() }
    }

    fn bytes(sample: &Sample) -> Option<u64> {
        sample.load.map(|load| load.bytes)
    }

    #[test]
    fn only_what_lies_inside_counts_on_the_partys_own_clock() {
        let samples = (0..=20).map(|i| sample(5_000 + i * 100, i * i)).collect();
        let mut party = party_with_samples(samples);
        party.clock.offset_ns = 5_000;
        let line = timeline(250, 1_490);
        let window = Window::cut(&party, Some(&line)).unwrap();
        assert_eq!(window.first().monotonic_ns, 5_300);
        assert_eq!(window.increase("load", bytes).unwrap(), 14 * 14 - 3 * 3);
        assert!((window.seconds - 1_100e-9).abs() < 1e-15);
    }

    #[test]
    fn a_counter_that_runs_backwards_in_between_yields_nothing() {
        let party =
            party_with_samples(vec![sample(0, 10), sample(50, 30), sample(80, 5), sample(100, 40)]);
        let line = timeline(0, 100);
        let window = Window::cut(&party, Some(&line)).unwrap();
        assert!(window.increase("load", bytes).unwrap_err().contains("backwards"));
    }

    #[test]
    fn too_few_samples_are_said_to_be_too_few() {
        let line = timeline(0, 100);
        for samples in [vec![], vec![sample(50, 1)], vec![sample(50, 1), sample(50, 2)]] {
            let party = party_with_samples(samples);
            assert!(Window::cut(&party, Some(&line)).unwrap_err().contains("two are the least"));
        }
        let party = party_with_samples(vec![sample(10, 1), sample(40, 2)]);
        assert!(Window::cut(&party, Some(&line)).unwrap_err().contains("30 %"));
        assert!(Window::cut(&party, None).is_err());
    }
}
