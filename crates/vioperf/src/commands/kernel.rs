//! `vioperf kernel`.

use std::fmt::Write as _;
use std::process::ExitCode;

use vioperf_lab::kernel::{Source, cache, fetch};
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;

use crate::exit::Failure;
use crate::output::Output;
use crate::{guest_kernel, paths};

/// Puts the distribution's current kernel into the cache; with `if_needed` only where guests have
/// none that drives every NIC and disk model and forwards.
pub fn fetch(if_needed: bool, output: &Output) -> Result<ExitCode, Failure> {
    let directory = paths::kernel_cache()?;
    let (nics, disks): (Vec<_>, Vec<_>) =
        (NicModel::made_by_qemu().collect(), DiskModel::all().collect());
    if if_needed
        && let Ok(found) = guest_kernel::find(None, None, &nics, &disks)
        && (found.source != Source::Cache || guest_kernel::lacks_to_forward(&found).is_none())
    {
        output.note(format_args!("kernel {} ({}) serves guests", found.release, found.source));
        return Ok(ExitCode::SUCCESS);
    }
    let kernel = fetch::fetch(&directory, &mut |line| output.note(line))?;
    output.note(format_args!("kernel {} is ready for guests", kernel.release));
    Ok(ExitCode::SUCCESS)
}

/// Lists the cached kernels.
pub fn list(output: &Output) -> Result<ExitCode, Failure> {
    let directory = paths::kernel_cache()?;
    let mut text = String::new();
    for cached in cache::list(&directory)? {
        let packages = cached.description.packages.join(", ");
        writeln!(text, "{}  ({packages})", cached.kernel.release)?;
    }
    if text.is_empty() {
        output.note(format_args!(
            "no kernel in {}; `vioperf kernel fetch` puts one there",
            directory.display()
        ));
    }
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a kernel from the cache.
pub fn remove(release: &str, output: &Output) -> Result<ExitCode, Failure> {
    cache::remove(&paths::kernel_cache()?, release)?;
    output.note(format_args!("removed kernel {release}"));
    Ok(ExitCode::SUCCESS)
}
