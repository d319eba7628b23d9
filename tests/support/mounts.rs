//! A thread whose mounts nobody else sees, and what is mounted there.

use std::path::Path;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod, umask};

/// Runs `scene` on a thread with mounts of its own, which end with it; programs that it starts have
/// them too.
pub fn in_private_mounts<T: Send>(scene: impl FnOnce() -> T + Send) -> T {
    let outcome = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none = None::<&Path>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            scene()
        });
        thread.join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Mounts an empty file system over a directory.
pub fn empty(directory: &Path, flags: MsFlags, options: &str) {
    let kind = Some("tmpfs");
    mount(kind, directory, kind, flags, Some(options)).unwrap();
}

/// Gives the thread a `/dev/net` of its own: without the tun device, or with one of this mode.
pub fn tun_device(mode: Option<u32>) {
    empty(Path::new("/dev/net"), MsFlags::empty(), "mode=755");
    if let Some(mode) = mode {
        let before = umask(Mode::empty());
        let made =
            mknod("/dev/net/tun", SFlag::S_IFCHR, Mode::from_bits_truncate(mode), makedev(10, 200));
        umask(before);
        made.unwrap();
    }
}
