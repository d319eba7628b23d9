//! CPU time that a thread burns by its own clock.

use vioperf_analysis::calibration::{
    Allowed, burned_percent_of_core, check, median, process_percent_of_core,
};
use vioperf_model::calibration::{Area, CheckUnit};
use vioperf_model::record::Place;
use vioperf_model::units::Ratio;
use vioperf_model::workload::{Transport, WorkloadKind};

use super::bench::{Bench, Path, Trial, Trouble, Wanted, given, reading};
use super::{Findings, QUIET_PERCENT_OF_CORE};

/// How far a reading may be from the truth, in percent of a core.
const ALLOWED_PERCENT_OF_CORE: f64 = 2.0;

/// Requests a second beside which it is burned: next to nothing.
const REQUESTS_PER_SECOND: u32 = 20;

/// What a machine's cores, and on the host a process, read of a burn beside what they read without.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    path: Path,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    // The kernel charges CPU time by the clock tick: the longer, the finer.
    let milliseconds = if bench.quick { 2_000 } else { 5_000 };
    let mut wanted = Wanted::new(path, WorkloadKind::RequestResponse, milliseconds);
    wanted.workload.transport = Some(Transport::Udp);
    wanted.workload.requests_per_second = Some(REQUESTS_PER_SECOND);
    let mut idle = vec![read(&bench.measure(&wanted)?, path)?];
    let mut burned = Vec::new();
    let percents: &[u64] = if bench.quick { &[40] } else { &[25, 60] };
    for percent in percents {
        wanted.burn = Some(Ratio::from_ppm(percent * 10_000));
        let trial = bench.measure(&wanted)?;
        let near = if path == Path::Guest { Place::Guest } else { Place::Second };
        let truth = given(burned_percent_of_core(&trial.record, near))?;
        burned.push((percent, truth, read(&trial, path)?));
    }
    wanted.burn = None;
    idle.push(read(&bench.measure(&wanted)?, path)?);
    judge(path, &idle, &burned, findings);
    Ok(())
}

/// What was read of a trial, in percent of a core.
struct Read {
    cores: f64,
    /// Of the process that burns; absent in a guest.
    process: Option<f64>,
}

fn read(trial: &Trial, path: Path) -> Result<Read, Trouble> {
    if path == Path::Guest {
        let none = || Trouble::NotMeasured("the guest's cores were not read".into());
        let guest = trial.cell.guest.as_ref().ok_or_else(none)?;
        let cores = reading(&guest.busy_percent_of_core, "the guest's cores")?;
        return Ok(Read { cores, process: None });
    }
    let cores = reading(&trial.cell.host.busy_percent_of_core, "the host's cores")?;
    let process = given(process_percent_of_core(&trial.record, "second"))?;
    Ok(Read { cores, process: Some(process) })
}

fn judge(path: Path, idle: &[Read], burned: &[(&u64, f64, Read)], findings: &mut Findings) {
    let middle = |of: fn(&Read) -> Option<f64>| {
        median(&idle.iter().filter_map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let (idle_cores, idle_process) = (middle(|read| Some(read.cores)), middle(|read| read.process));
    let moved = idle.iter().map(|read| (read.cores - idle_cores).abs()).fold(0.0, f64::max);
    let busiest = idle.iter().map(|read| read.cores).fold(0.0, f64::max);
    let is_quiet = moved <= ALLOWED_PERCENT_OF_CORE && busiest <= QUIET_PERCENT_OF_CORE;
    for (percent, truth, read) in burned {
        let mut add = |what: String, reading: f64| {
            let allowed = Allowed::within(*truth, ALLOWED_PERCENT_OF_CORE);
            findings.add(check(
                Area::Cpu,
                what,
                CheckUnit::PercentOfCore,
                *truth,
                &[reading],
                allowed,
            ));
        };
        let on = if path == Path::Guest { "a guest's" } else { "the host's" };
        if let Some(process) = read.process {
            add(format!("{percent} % of a core, by its process"), process - idle_process);
        }
        if is_quiet {
            add(format!("{percent} % of a core, by {on} cores"), read.cores - idle_cores);
        } else {
            let reason = format!(
                "{on} cores were {:.0} % and {:.0} % busy with other things before and after: repeat it \
                 when the machine is quiet",
                idle.first().map_or(0.0, |read| read.cores),
                idle.last().map_or(0.0, |read| read.cores),
            );
            findings.leave_out(format!("{percent} % of a core, by {on} cores"), reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(idle: [f64; 2], cores: f64, process: f64) -> Findings {
        let idle = idle.map(|cores| Read { cores, process: Some(0.5) });
        let burned = [(&25_u64, 25.0, Read { cores, process: Some(process) })];
        let mut findings = Findings::default();
        judge(Path::Host, &idle, &burned, &mut findings);
        findings
    }

    #[test]
    fn what_was_busy_anyway_is_taken_off_and_a_wrong_reading_is_caught() {
        let right = of([3.0, 4.0], 29.0, 25.4);
        assert!(right.checks.iter().all(|check| check.passed), "{right:?}");
        let wrong = of([3.0, 4.0], 32.0, 23.0);
        let passed: Vec<bool> = wrong.checks.iter().map(|check| check.passed).collect();
        assert_eq!(passed, [false, false], "{wrong:?}");
    }

    #[test]
    fn a_machine_that_is_busy_with_other_things_is_no_witness() {
        let busy = of([3.0, 40.0], 60.0, 25.4);
        assert_eq!((busy.checks.len(), busy.left_out.len()), (1, 1), "{busy:?}");
        let full = of([199.0, 199.0], 199.0, 25.4);
        assert_eq!((full.checks.len(), full.left_out.len()), (1, 1), "{full:?}");
        assert!(busy.left_out[0].reason.contains("other things"), "{busy:?}");
    }
}
