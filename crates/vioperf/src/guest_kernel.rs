//! Which kernel the guests of a plan boot.

use std::path::Path;

use anyhow::Result;
use nix::sys::utsname::uname;
use vioperf_lab::kernel::{self, ALWAYS_NEEDED, GuestKernel, find};
use vioperf_lab::preflight::Check;
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;

use crate::paths;

/// Finds a kernel that drives all of these NICs and disks: `image` (with `modules`) where it is given, else the
/// host's own, else a fetched one.
///
/// # Errors
/// With what each kernel that was looked at lacks.
pub fn find(
    image: Option<&str>,
    modules: Option<&str>,
    nics: &[NicModel],
    disks: &[DiskModel],
) -> Result<GuestKernel> {
    let mut wanted = ALWAYS_NEEDED.to_vec();
    wanted.extend(nics.iter().map(|model| model.row().module));
    wanted.extend(disks.iter().flat_map(|model| model.row().modules));
    let running = uname()?.release().to_string_lossy().into_owned();
    let request = find::Request {
        image: image.map(Path::new),
        modules: modules.map(Path::new),
        root: Path::new("/"),
        running: &running,
        cache: &paths::kernel_cache()?,
        wanted: &wanted,
    };
    Ok(find::find(&request)?)
}

/// What a kernel lacks for a guest that forwards, in words.
pub fn lacks_to_forward(own: &GuestKernel) -> Option<String> {
    let lacking = match own.module_tree().and_then(|tree| kernel::lacks_to_forward(&tree)) {
        Ok(lacking) if lacking.is_empty() => return None,
        Ok(lacking) => lacking.join(", "),
        Err(error) => return Some(error.to_string()),
    };
    let release = &own.release;
    Some(format!(
        "the kernel {release} ({}) has no module {lacking}, which a guest that forwards needs (testbed.chain): \
         `vioperf kernel fetch` gets one that has it",
        own.source
    ))
}

/// The same as a check for `vioperf doctor`.
pub fn check(image: Option<&str>, modules: Option<&str>, models: &[NicModel]) -> Check {
    match find(image, modules, models, &[]) {
        Ok(kernel) => {
            let found =
                format!("{} ({}: {})", kernel.release, kernel.source, kernel.image.display());
            Check::ok("guest kernel", found)
        }
        Err(error) => {
            let advice = "`vioperf kernel fetch` gets one without installing it";
            Check::fail("guest kernel", format!("{error:#}"), advice)
        }
    }
}
