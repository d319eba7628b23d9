//! What a look at a machine on which nothing of ours runs says of measuring there.

use vioperf_model::record::{CoreFrequency, MachineLook};

use crate::wording::{percent, three_digits};

/// Busy and stolen time of all cores together, in percent of all of them, from which it matters.
const BUSY_PERCENT: f64 = 5.0;
/// A sleep whose median end is later than this was kept waiting for a core. Timers that are merged make
/// it 50 µs (`PR_SET_TIMERSLACK`).
const LATE_MEDIAN_NS: u64 = 500_000;
/// Where the least frequency is a smaller part of the most, load decides which of them it is.
const SCALES_BELOW: f64 = 0.95;

/// One side of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aspect {
    /// What was looked at, in two words.
    pub name: &'static str,
    /// What was seen.
    pub seen: String,
    /// Why measuring suffers from it and what to do, where it does.
    pub advice: Option<&'static str>,
}

/// Everything that a look shows.
pub fn aspects(look: &MachineLook) -> [Aspect; 3] {
    [idle_noise(look), wake_ups(look), frequency(look)]
}

/// Whether the cores had nothing else to do.
pub fn idle_noise(look: &MachineLook) -> Aspect {
    let cores = look.cores.len().max(1) as f64;
    let busy = look.cores.iter().map(|core| core.busy_percent).sum::<f64>() / cores;
    let stolen = look.cores.iter().map(|core| core.steal_percent).sum::<f64>() / cores;
    Aspect {
        name: "idle noise",
        seen: format!(
            "{} of all cores busy, {} stolen, {} runnable at most",
            percent(busy),
            percent(stolen),
            look.runnable_at_most
        ),
        advice: (busy + stolen > BUSY_PERCENT).then_some(
            "other programs (or, of stolen time, other machines on the same hardware) take what is to be \
             measured: end them, or measure elsewhere",
        ),
    }
}

/// Whether a thread gets a core when it is due.
pub fn wake_ups(look: &MachineLook) -> Aspect {
    let us = |ns: u64| three_digits(ns as f64 / 1e3);
    let (median, most) = (look.wake_up_late_median_ns, look.wake_up_late_max_ns);
    Aspect {
        name: "wake-ups",
        seen: format!("{} µs late in the median, {} at most", us(median), us(most)),
        advice: (median > LATE_MEDIAN_NS).then_some(
            "threads wait for a core, and so will the load and every latency: end what else is running",
        ),
    }
}

/// Whether the cores keep to one frequency.
pub fn frequency(look: &MachineLook) -> Aspect {
    let name = "frequency";
    let scales = |core: &&CoreFrequency| {
        let range = core.least_khz.zip(core.most_khz);
        core.governor != "performance"
            && range.is_some_and(|(least, most)| (least as f64) < SCALES_BELOW * most as f64)
    };
    let scaling: Vec<&CoreFrequency> = look.frequencies.iter().filter(scales).collect();
    let Some(core) = scaling.first().copied().or(look.frequencies.first()) else {
        let seen = "not visible here (usual in a virtual machine)".into();
        return Aspect { name, seen, advice: None };
    };
    let alike = if scaling.is_empty() { look.frequencies.len() } else { scaling.len() };
    let ghz =
        |khz: Option<u64>| khz.map_or_else(|| "?".into(), |khz| three_digits(khz as f64 / 1e6));
    Aspect {
        name,
        seen: format!(
            "{alike} of {} cores, governor {}: {} to {} GHz",
            look.cores.len(),
            core.governor,
            ghz(core.least_khz),
            ghz(core.most_khz)
        ),
        advice: (!scaling.is_empty()).then_some(
            "a light load is then measured on slow cores, and CPU time per unit of work is not that of a \
             busy machine: set the governor to performance (cpupower frequency-set --governor performance)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::CoreTime;

    use super::*;

    fn doubted(look: &MachineLook) -> Vec<&'static str> {
        let doubted = aspects(look).into_iter().filter(|aspect| aspect.advice.is_some());
        doubted.map(|aspect| aspect.name).collect()
    }

    fn quiet() -> MachineLook {
        let core = CoreTime { busy_percent: 1.0, steal_percent: 0.5 };
        let frequency = CoreFrequency {
            governor: "performance".into(),
            least_khz: Some(800_000),
            most_khz: Some(3_000_000),
            ..CoreFrequency::default()
        };
        MachineLook {
            cores: vec![core; 2],
            wake_up_late_median_ns: 60_000,
            wake_up_late_max_ns: 900_000,
            frequencies: vec![frequency; 2],
            ..MachineLook::default()
        }
    }

    #[test]
    fn a_quiet_machine_gives_no_doubt() {
        assert_eq!(doubted(&quiet()), [""; 0]);
        assert_eq!(doubted(&MachineLook::default()), [""; 0]);
        assert_eq!(
            frequency(&quiet()).seen,
            "2 of 2 cores, governor performance: 0.800 to 3.00 GHz"
        );
        assert_eq!(wake_ups(&quiet()).seen, "60.0 µs late in the median, 900 at most");
    }

    #[test]
    fn each_side_is_doubted_for_itself() {
        let mut look = quiet();
        look.cores[1].steal_percent = 12.0;
        assert_eq!(doubted(&look), ["idle noise"]);
        let late = MachineLook { wake_up_late_median_ns: 2_000_000, ..quiet() };
        assert_eq!(doubted(&late), ["wake-ups"]);
        let mut look = quiet();
        look.frequencies[1].governor = "schedutil".into();
        assert_eq!(doubted(&look), ["frequency"]);
        assert!(frequency(&look).seen.starts_with("1 of 2 cores, governor schedutil"));
    }
}
