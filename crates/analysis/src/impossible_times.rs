//! Times that cannot be: a clock that ran backwards, or cores whose time is not that of the clock.

use vioperf_model::record::{Party, TrialRecord};
use vioperf_model::sample::CoreTicks;

use crate::window::Window;

/// By how much a core's time may differ from the clock's, as a part of it: what was stolen is often told of late.
const DIFFERENCE: f64 = 0.35;
/// Ticks by which it may beside that: the first and the last are not whole, and what waited for an
/// emulated timer's interrupt is counted late.
const TICKS: f64 = 6.0;

/// What cannot be in a trial, for a person: the first that is found.
pub fn of_trial(trial: &TrialRecord) -> Option<String> {
    trial.parties.iter().find_map(|party| of_party(trial, party))
}

fn of_party(trial: &TrialRecord, party: &Party) -> Option<String> {
    let samples = &party.report.samples;
    let backwards = samples.iter().zip(samples.iter().skip(1)).find_map(|(before, after)| {
        before.monotonic_ns.checked_sub(after.monotonic_ns).filter(|ns| *ns > 0)
    });
    if let Some(ns) = backwards {
        return Some(format!("{}: its monotonic clock ran back by {ns} ns", party.place));
    }
    let window = Window::cut(party, trial.timeline.as_ref()).ok()?;
    let per_second = window.ticks_per_second().ok()?;
    let samples = window.samples();
    let (first, last) = (samples.first()?, samples.last()?);
    let cores = first.cores.iter().flatten().zip(last.cores.iter().flatten());
    let expected = window.seconds * per_second;
    cores.filter(|(before, after)| before.core == after.core).find_map(|(before, after)| {
        let ticks = all(after).checked_sub(all(before))? as f64;
        let is_odd = (ticks - expected).abs() > DIFFERENCE * expected + TICKS;
        is_odd.then(|| {
            format!(
                "{}: core {} was told of for {:.2} s in {:.2} s",
                party.place,
                before.core,
                ticks / per_second,
                window.seconds
            )
        })
    })
}

/// Every state; what guests ran is contained in the user's.
fn all(ticks: &CoreTicks) -> u64 {
    let CoreTicks { user, nice, system, idle, iowait, irq, softirq, steal, .. } = *ticks;
    [user, nice, system, idle, iowait, irq, softirq, steal].into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::Place;

    use super::*;
    use crate::testing::Synthetic;

    /// A trial with cores that are busy for a part of the time and else idle.
    fn sound() -> TrialRecord {
        let mut trial = Synthetic::calm_kvm().trials.remove(0);
        for party in &mut trial.parties {
            let (samples, per_second) = (&mut party.report.samples, party.report.ticks_per_second);
            let began = samples[0].monotonic_ns;
            for sample in samples {
                let ticks = (sample.monotonic_ns - began) * u64::from(per_second) / 1_000_000_000;
                for core in sample.cores.iter_mut().flatten() {
                    *core = CoreTicks {
                        core: core.core,
                        user: ticks / 3,
                        idle: ticks - ticks / 3,
                        ..CoreTicks::default()
                    };
                }
            }
        }
        trial
    }

    #[test]
    fn a_sound_clock_is_nothing_and_the_impossible_is_named() {
        assert_eq!(of_trial(&sound()), None);
        let mut lost = sound();
        for core in
            lost.parties[1].report.samples.iter_mut().flat_map(|s| s.cores.iter_mut().flatten())
        {
            core.idle = 0;
        }
        assert!(of_trial(&lost).unwrap().contains("core 0 was told of for"));
        let mut backwards = sound();
        backwards.parties[0].report.samples[3].monotonic_ns -= 1_000_000_000;
        let told = of_trial(&backwards).unwrap();
        assert!(told.contains("ran back") && told.contains(&Place::Peer.to_string()), "{told}");
    }
}
