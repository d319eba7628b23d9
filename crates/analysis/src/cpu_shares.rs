//! The host's busy time by who used it: what a stack of CPU cost is drawn from.
//!
//! The shares of a trial add up to the busy time of the host's cores, unless threads are charged for soft
//! interrupts that they were interrupted by: then the rest is told too small, never anything else.

use crate::cell::CellTrials;
use crate::rates::TrialReadings;
use crate::result::{CoreStates, CpuShare, CpuUser};
use crate::threads::Task;
use crate::window::{Absent, Reading};

/// Every share over the trials of a cell; none of a path whose host was not watched.
pub fn gather(trials: &CellTrials, has_guest: bool) -> Vec<CpuShare> {
    if trials.completed.iter().all(|readings| readings.host.cores.is_err()) {
        return Vec::new();
    }
    let has_others = trials.completed.iter().any(|readings| !readings.others.is_empty());
    let is_there = |user: &CpuUser| match user {
        CpuUser::OtherGuests => has_others,
        user => has_guest || !user.is_of_qemu(),
    };
    let share = |user: CpuUser| CpuShare {
        user,
        percent_of_core: trials.metric_of(|readings| percent_of_core(readings, user, has_guest)),
        seconds_per_unit: trials.metric_of(|readings| per_unit(readings, user, has_guest)),
    };
    CpuUser::ALL.into_iter().filter(is_there).map(share).collect()
}

/// The same part of the CPU time per unit of work as of the busy time.
fn per_unit(readings: &TrialReadings, user: CpuUser, has_guest: bool) -> Reading {
    let busy = readings.host.busy_percent_of_core.clone()?;
    if busy == 0.0 {
        return Err("the host's cores were idle".into());
    }
    let share = percent_of_core(readings, user, has_guest)?;
    Ok(share / busy * readings.cpu_seconds_per_unit[0].clone()?)
}

fn percent_of_core(readings: &TrialReadings, user: CpuUser, has_guest: bool) -> Reading {
    let task = |task| readings.qemu.task(task);
    let guest = || sum_of_cores(readings, |states| states.guest);
    let others = || -> Reading { readings.others.iter().map(|other| other.qemu().total()).sum() };
    let interrupts =
        || sum_of_cores(readings, |states| Some(states.irq.unwrap_or(0.0) + states.softirq?));
    match user {
        // No more than the threads that run it were there for: ticks are coarse.
        CpuUser::Guest => Ok(guest()?.min(task(Task::Vcpu)?)),
        CpuUser::Vcpu => Ok((task(Task::Vcpu)? - guest()?).max(0.0)),
        CpuUser::MainLoop => task(Task::MainLoop),
        CpuUser::Io => task(Task::Io),
        CpuUser::Vhost => task(Task::Vhost),
        CpuUser::OtherQemu => task(Task::Other),
        CpuUser::OtherGuests => others(),
        CpuUser::Interrupts => interrupts(),
        CpuUser::Rest => {
            let qemu = if has_guest { readings.qemu.total()? } else { 0.0 };
            let busy = readings.host.busy_percent_of_core.clone()?;
            Ok((busy - qemu - others()? - interrupts()?).max(0.0))
        }
    }
}

fn sum_of_cores(readings: &TrialReadings, state: impl Fn(&CoreStates) -> Option<f64>) -> Reading {
    let cores = readings.host.cores.as_ref().map_err(Clone::clone)?;
    let states: Option<f64> = cores.iter().map(|core| state(&core.states)).sum();
    states.ok_or(Absent::from("cores: a counter ran backwards"))
}

#[cfg(test)]
mod tests {
    use crate::analyse;
    use crate::result::{CellAnalysis, CpuUser};
    use crate::testing::Synthetic;

    fn mean(cell: &CellAnalysis, user: CpuUser) -> Option<f64> {
        cell.cpu_shares.iter().find(|share| share.user == user)?.percent_of_core.mean()
    }

    #[test]
    fn shares_add_up_to_the_busy_time_and_qemus_are_its_threads() {
        let Synthetic { run, trials } = Synthetic::tcg();
        for cell in analyse(&run, &trials).cells.iter().filter(|cell| cell.trials.completed > 0) {
            let busy = cell.host.busy_percent_of_core.mean().unwrap();
            let all = cell.cpu_shares.iter().filter_map(|share| share.percent_of_core.mean());
            let sum: f64 = all.sum();
            assert!(sum >= busy - 1e-6, "{}: {sum} of {busy}", cell.id);
            assert_eq!(mean(cell, CpuUser::Vcpu).is_some(), !cell.is_baseline, "{}", cell.id);
            if let Some(qemu) = &cell.qemu {
                let told = mean(cell, CpuUser::Vcpu).unwrap() + mean(cell, CpuUser::Guest).unwrap();
                let vcpu = qemu.vcpu_percent_of_core.mean().unwrap();
                assert!((told - vcpu).abs() < 1e-6, "{told} {vcpu}");
            }
            // Per unit of work they are the same parts of the whole.
            let per_unit =
                cell.cpu_shares.iter().map(|share| share.seconds_per_unit.mean().unwrap());
            let first = cell.cpu_shares[0].percent_of_core.mean().unwrap() / sum;
            let whole: f64 = per_unit.sum();
            let told = cell.cpu_shares[0].seconds_per_unit.mean().unwrap() / whole;
            assert!((told - first).abs() < 0.05, "{}: {told} {first}", cell.id);
        }
    }

    #[test]
    fn without_the_hosts_cores_there_are_none() {
        let Synthetic { run, mut trials } = Synthetic::calm_kvm();
        for party in trials.iter_mut().flat_map(|trial| &mut trial.parties) {
            party.report.samples.iter_mut().for_each(|sample| sample.cores = None);
        }
        assert!(analyse(&run, &trials).cells.iter().all(|cell| cell.cpu_shares.is_empty()));
    }
}
