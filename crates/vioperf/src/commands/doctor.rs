//! `vioperf doctor`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use vioperf_analysis::machine_look::{Aspect, aspects};
use vioperf_lab::preflight::{self, Check, Status};
use vioperf_lab::qemu::Qemu;
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;
use vioperf_model::scenario::Guest;

use crate::cli::DoctorArgs;
use crate::exit::Failure;
use crate::guest_kernel;
use crate::machine_look;
use crate::output::Output;
use crate::store::to_json;

/// Checks the machine; fails when a lab cannot work on it.
pub fn execute(args: &DoctorArgs, output: &Output) -> Result<ExitCode, Failure> {
    // First: what else is asked here is work too.
    let look = noise(Path::new("/"));
    let models: Vec<NicModel> = NicModel::made_by_qemu().collect();
    let disks: Vec<DiskModel> = DiskModel::all().collect();
    let qemu = Qemu::find(args.qemu.as_deref().map(Path::new));
    let memory_mib = Guest::default().memory.as_bytes() >> 20;
    let mut checks = preflight::all(Path::new("/"), &qemu, (&models, &disks), memory_mib);
    checks.push(preflight::tun(Path::new("/")));
    checks.push(preflight::switches(Path::new("/"), &qemu));
    checks.push(guest_kernel::check(args.kernel.as_deref(), None, &models));
    checks.extend(look);
    let text = if args.json { to_json(&checks)? } else { describe(&checks, output)? };
    output.result(&text)?;
    let failed = checks.iter().filter(|check| check.status == Status::Fail).count();
    if failed > 0 {
        return Err(Failure::Machine(anyhow::anyhow!(
            "{failed} of {} checks failed: no lab can work here until that is mended",
            checks.len()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// The same look at the machine as before a run.
fn noise(root: &Path) -> Vec<Check> {
    let Some(look) = machine_look::look(root) else {
        return vec![Check::ok("idle noise", "not visible: /proc/stat cannot be read")];
    };
    let check = |aspect: Aspect| match aspect.advice {
        Some(advice) => Check::warn(aspect.name, aspect.seen, advice),
        None => Check::ok(aspect.name, aspect.seen),
    };
    aspects(&look).into_iter().map(check).collect()
}

fn describe(checks: &[Check], output: &Output) -> Result<String, std::fmt::Error> {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let colors = output.colors_results();
    let mut text = String::new();
    for Check { name, status, found, advice } in checks {
        let (word, color) = match status {
            Status::Ok => ("ok  ", "32"),
            Status::Warn => ("warn", "33"),
            Status::Fail => ("FAIL", "31"),
        };
        if colors {
            write!(text, "\x1b[{color}m{word}\x1b[0m")?;
        } else {
            text.push_str(word);
        }
        writeln!(text, "  {name:<width$}  {found}")?;
        if let Some(advice) = advice {
            writeln!(text, "      {:width$}  -> {advice}", "")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_look_that_a_run_takes() {
        let names = |root: &str| -> Vec<String> {
            noise(Path::new(root)).into_iter().map(|check| check.name).collect()
        };
        assert_eq!(names("/"), ["idle noise", "wake-ups", "frequency"]);
        assert_eq!(names("/nonexistent"), ["idle noise"]);
    }
}
