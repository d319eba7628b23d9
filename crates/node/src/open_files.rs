//! Room for a load's sockets, and for the files of a great many cores, among this process's open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What else a node has open at the same time: channel, counters, event descriptors.
const OTHER_FILES: u64 = 64;

/// Raises the limit of open files as far as we may, when so many sockets or files need it. If that is
/// not enough, opening one fails and says so.
pub(crate) fn allow_open_files(count: usize) {
    let wanted = u64::try_from(count).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}
