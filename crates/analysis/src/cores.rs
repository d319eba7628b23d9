//! How busy a machine's cores were.

use vioperf_model::sample::{CoreTicks, Sample};

use crate::result::CoreStates;
use crate::window::{Absent, Reading, Window};

/// One trial's view of a machine.
#[derive(Debug, Clone)]
pub struct MachineReading {
    /// All cores added up; 100 is one core.
    pub busy_percent_of_core: Reading,
    /// The same without interrupts and soft interrupts, for which no thread may be charged.
    pub charged_percent_of_core: Reading,
    /// Core by core, or why there are none.
    pub cores: Result<Vec<CoreReading>, Absent>,
}

/// One trial's view of a core.
#[derive(Debug, Clone)]
pub struct CoreReading {
    /// Its number.
    pub core: u32,
    /// Not idle and not stolen, in percent of the window.
    pub busy_percent: Reading,
    /// The same without interrupts and soft interrupts.
    pub charged_percent: Reading,
    /// By state.
    pub states: CoreStates,
}

impl MachineReading {
    /// Reads the cores of `window`.
    pub fn of(window: Result<&Window<'_>, Absent>) -> Self {
        match window.and_then(read_cores) {
            Ok(cores) => {
                let busy = cores.iter().map(|core| core.busy_percent.clone()).sum();
                let charged = cores.iter().map(|core| core.charged_percent.clone()).sum();
                Self {
                    busy_percent_of_core: busy,
                    charged_percent_of_core: charged,
                    cores: Ok(cores),
                }
            }
            Err(reason) => Self {
                busy_percent_of_core: Err(reason.clone()),
                charged_percent_of_core: Err(reason.clone()),
                cores: Err(reason),
            },
        }
    }
}

fn read_cores(window: &Window<'_>) -> Result<Vec<CoreReading>, Absent> {
    let ticks_per_second = window.ticks_per_second()?;
    let cores = window.first().cores.as_ref().ok_or_else(|| window.reason("cores"))?;
    if cores.is_empty() {
        return Err("cores: none is listed".into());
    }
    let scale = 100.0 / ticks_per_second / window.seconds;
    Ok(cores.iter().enumerate().map(|(at, ticks)| core(window, at, ticks.core, scale)).collect())
}

/// `scale` turns ticks inside the window into percent of it.
fn core(window: &Window<'_>, at: usize, core: u32, scale: f64) -> CoreReading {
    let ticks = |read: fn(&CoreTicks) -> u64| {
        window.increase("cores", |sample| find(sample, at, core).map(read)).map(|n| n as f64)
    };
    let in_percent = |reading: Reading| reading.map(|ticks| ticks * scale);
    // `guest` is contained in `user` and `guest_nice` in `nice` (proc_stat(5)).
    let user_and_guest = sum([ticks(|t| t.user), ticks(|t| t.nice)]);
    let guest = sum([ticks(|t| t.guest), ticks(|t| t.guest_nice)]);
    let system = ticks(|t| t.system);
    let irq = ticks(|t| t.irq);
    let softirq = ticks(|t| t.softirq);
    let busy = sum([user_and_guest.clone(), system.clone(), irq.clone(), softirq.clone()]);
    let charged = sum([user_and_guest.clone(), system.clone()]);
    let user = match (&user_and_guest, &guest) {
        (Ok(both), Ok(guest)) => Some((both - guest).max(0.0) * scale),
        _ => None,
    };
    // The kernel's document warns that iowait may decrease: that costs the idle share alone.
    let idle = sum([ticks(|t| t.idle), ticks(|t| t.iowait)]);
    CoreReading {
        core,
        busy_percent: in_percent(busy),
        charged_percent: in_percent(charged),
        states: CoreStates {
            user,
            system: in_percent(system).ok(),
            irq: in_percent(irq).ok(),
            softirq: in_percent(softirq).ok(),
            steal: in_percent(ticks(|t| t.steal)).ok(),
            guest: in_percent(guest).ok(),
            idle: in_percent(idle).ok(),
        },
    }
}

/// The ticks of `core`, expected at the same place as in the first sample.
fn find(sample: &Sample, at: usize, core: u32) -> Option<&CoreTicks> {
    let cores = sample.cores.as_ref()?;
    let expected = cores.get(at).filter(|ticks| ticks.core == core);
    expected.or_else(|| cores.iter().find(|ticks| ticks.core == core))
}

fn sum<const N: usize>(parts: [Reading; N]) -> Reading {
    parts.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{party_with_samples, timeline};

    fn sample(monotonic_ns: u64, ticks: CoreTicks) -> Sample {
        Sample { monotonic_ns, cores: Some(vec![ticks]), ..Sample::default() }
    }

    #[test]
    fn guest_time_is_not_counted_twice() {
        let from = CoreTicks { core: 3, ..CoreTicks::default() };
        let until = CoreTicks { user: 60, guest: 50, system: 20, idle: 15, steal: 5, ..from };
        let party = party_with_samples(vec![sample(0, from), sample(1_000_000_000, until)]);
        let line = timeline(0, 1_000_000_000);
        let window = Window::cut(&party, Some(&line)).unwrap();
        let machine = MachineReading::of(Ok(&window));
        let core = &machine.cores.unwrap()[0];
        assert_eq!((core.core, core.busy_percent.clone()), (3, Ok(80.0)));
        assert_eq!((core.states.user, core.states.guest), (Some(10.0), Some(50.0)));
        assert_eq!((core.states.steal, core.states.idle), (Some(5.0), Some(15.0)));
    }

    #[test]
    fn iowait_running_backwards_costs_the_idle_share_alone() {
        let from = CoreTicks { iowait: 9, ..CoreTicks::default() };
        let until = CoreTicks { user: 10, iowait: 8, ..CoreTicks::default() };
        let party = party_with_samples(vec![sample(0, from), sample(1_000_000_000, until)]);
        let line = timeline(0, 1_000_000_000);
        let window = Window::cut(&party, Some(&line)).unwrap();
        let core = &MachineReading::of(Ok(&window)).cores.unwrap()[0];
        assert_eq!(core.busy_percent, Ok(10.0));
        assert_eq!(core.states.idle, None);
    }
}
