//! `vioperf calibrate`: plants what is known into a lab, and looks whether it is read. A kind of truth is
//! one file here; what is right is judged by `analysis::calibration`.

mod bench;
mod counts;
mod delay;
mod loss;
mod noise;
mod processor;
mod rate;
pub mod render;
pub mod stored;

use vioperf_model::calibration::{Check, NoiseFloor};
use vioperf_model::record::LeftOut;

pub use bench::Bench;
use bench::{Path, Trouble};

/// A machine whose cores are busier than this while next to nothing is measured does something else, which
/// takes time from what is measured: percent of a core.
const QUIET_PERCENT_OF_CORE: f64 = 25.0;

/// What came of it.
#[derive(Debug, Default)]
pub struct Findings {
    /// What was known and what was read.
    pub checks: Vec<Check>,
    /// What could not be checked.
    pub left_out: Vec<LeftOut>,
    /// What is read where nothing changes.
    pub noise_floor: NoiseFloor,
}

impl Findings {
    fn add(&mut self, check: Option<Check>) {
        self.checks.extend(check);
    }

    fn leave_out(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), reason: reason.into() });
    }
}

/// A kind of truth: its name, and what plants and reads it on one path.
type Step = (&'static str, fn(&mut Bench<'_>, Path, &mut Findings) -> Result<(), Trouble>);

/// On the host's own path.
const ON_HOST: &[Step] = &[
    ("counts", counts::measure),
    ("loss", loss::measure_on_switch),
    ("noise floor", noise::measure),
    ("CPU time", processor::measure),
    ("delay", delay::measure_on_link),
    ("rate", rate::measure),
];

/// Through a guest.
const IN_GUEST: &[Step] = &[
    ("counts", counts::measure),
    ("loss", loss::measure_in_guest),
    ("added delay", delay::measure_in_guest),
    ("CPU time", processor::measure),
    ("delay", delay::measure_on_link),
    ("rate", rate::measure),
];

/// Plants and reads everything, the guest's part where there is one.
///
/// # Errors
/// When the user interrupts, or no lab can be made any more. What merely does not come off is left out,
/// with its reason.
pub fn measure(bench: &mut Bench<'_>) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let paths = [(Path::Host, ON_HOST), (Path::Guest, IN_GUEST)];
    for (path, steps) in paths {
        for (name, step) in steps {
            if path == Path::Guest && !bench.has_guest() {
                break;
            }
            bench.say(&format!("{name} {path}"));
            match step(bench, path, &mut findings) {
                Ok(()) => {}
                Err(Trouble::NotMeasured(reason)) => {
                    findings.leave_out(format!("{name} {path}"), reason);
                }
                Err(Trouble::End(error)) => return Err(error),
            }
        }
    }
    Ok(findings)
}
