//! The rate of streams over time, as numbers: the best interval of a trial, what nearly all of them reach, and dips.

use vioperf_model::workload::WorkloadKind;

use crate::cell::CellTrials;
use crate::measure::{Measure, Unit};
use crate::rates::TrialReadings;
use crate::result::{CourseDip, CourseIntervals, RateOverTime};
use crate::shapes::{Course, Intervals};
use crate::window::Reading;

/// Whether the load is one whose rate is told over time: payload, for as long as it lasts.
fn is_of(kind: WorkloadKind) -> bool {
    Measure::of(kind).unit == Unit::Bits
}

/// Of the trials of a cell; absent of a load that is no stream.
pub(crate) fn gather(trials: &CellTrials, kind: WorkloadKind) -> Option<RateOverTime> {
    let metric = |read: fn(&Intervals) -> f64| {
        trials.metric_of(|readings: &TrialReadings| -> Reading {
            let intervals = readings.course.as_ref().and_then(|course| course.intervals.as_ref());
            intervals.map(read).ok_or_else(|| "fewer than ten samples were taken in it".into())
        })
    };
    is_of(kind).then(|| RateOverTime {
        interval_seconds: metric(|intervals| intervals.seconds),
        peak_bits_per_second: metric(Intervals::peak),
        sustained_bits_per_second: metric(Intervals::sustained),
        dips: metric(|intervals| intervals.dips().len() as f64),
        deepest_dip_percent: metric(|intervals| {
            intervals.dips().iter().map(|dip| dip.depth_percent).fold(0.0, f64::max)
        }),
    })
}

/// Of one trial, for its course.
pub(crate) fn of_trial(course: Option<&Course>, kind: WorkloadKind) -> Option<CourseIntervals> {
    let intervals = course?.intervals.as_ref().filter(|_| is_of(kind))?;
    Some(CourseIntervals {
        seconds: intervals.seconds,
        peak_per_second: intervals.peak(),
        sustained_per_second: intervals.sustained(),
        dips: intervals
            .dips()
            .into_iter()
            .map(|dip| CourseDip {
                from_seconds: dip.from_seconds,
                seconds: dip.seconds,
                depth_percent: dip.depth_percent,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use crate::analyse;
    use crate::testing::Synthetic;
    use vioperf_model::workload::WorkloadKind;

    #[test]
    fn streams_have_peak_and_sustained_rate_around_their_mean() {
        let run = Synthetic::calm_kvm();
        for cell in &analyse(&run.run, &run.trials).cells {
            let over_time = cell.rate_over_time.as_ref().unwrap();
            let mean = cell.headline().mean().unwrap();
            let peak = over_time.peak_bits_per_second.mean().unwrap();
            let sustained = over_time.sustained_bits_per_second.mean().unwrap();
            assert!(sustained <= mean * 1.001 && mean <= peak * 1.001, "{sustained} {mean} {peak}");
            assert!(sustained > 0.9 * mean, "a calm run has no dips");
            assert_eq!(over_time.dips.mean(), Some(0.0));
            assert_eq!(over_time.deepest_dip_percent.mean(), Some(0.0));
            let typical = cell.courses[0].intervals.as_ref().unwrap();
            assert!(typical.peak_per_second >= typical.sustained_per_second);
            assert_eq!(typical.dips, []);
        }
    }

    #[test]
    fn a_second_of_half_the_rate_is_a_dip_of_the_trial() {
        let mut run = Synthetic::calm_kvm();
        // Every counter of the load stands still between two samples in the middle of the first trial.
        let middle = run.trials[0].parties[0].report.samples.len() / 2;
        for party in &mut run.trials[0].parties {
            let samples = &mut party.report.samples;
            let before = samples[middle - 1].load;
            samples[middle].load = before;
        }
        let cell = run.trials[0].cell.clone();
        let analysis = analyse(&run.run, &run.trials);
        let cell = analysis.cells.iter().find(|own| own.id == cell).unwrap();
        let over_time = cell.rate_over_time.as_ref().unwrap();
        let deepest = &over_time.deepest_dip_percent.values;
        let deepest = deepest.iter().map(|trial| trial.value).fold(0.0, f64::max);
        assert!(deepest > 40.0, "{deepest}");
        assert!(over_time.dips.values.iter().any(|trial| trial.value == 1.0));
    }

    #[test]
    fn loads_that_are_no_streams_have_none() {
        for kind in [WorkloadKind::PacketRate, WorkloadKind::RequestResponse] {
            let run = Synthetic::of_kind(kind);
            let analysis = analyse(&run.run, &run.trials);
            assert!(analysis.cells.iter().all(|cell| cell.rate_over_time.is_none()), "{kind:?}");
            let mut courses = analysis.cells.iter().flat_map(|cell| &cell.courses);
            assert!(courses.all(|course| course.intervals.is_none()));
        }
    }
}
