//! An ordinary user runs vioperf: where the machine allows it, it works; where not, it says who must
//! change what.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_dumpable;
use support::mounts::{in_private_mounts, tun_device};
use support::running::Run;
use support::world::{SHORT, World, cached_kernel, kernel_cache};
use support::{Finished, VIOPERF};

/// Nobody's id, on every distribution.
const NOBODY: u32 = 65_534;

/// A world that is nobody's: all directories are, and what is read lies where it may go.
fn nobodys() -> World {
    let world = World::new();
    let readable = |path: PathBuf, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    readable(world.path(""), 0o755);
    for name in ["home", "cache", "cache/vioperf", "tmp", "here"] {
        chown(world.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let program = world.path("vioperf");
    fs::copy(VIOPERF, &program).unwrap();
    readable(program, 0o755);
    // The cache of the user who tests may lie where nobody may not go.
    let kernels = world.path("cache/vioperf/kernels");
    fs::remove_file(&kernels).unwrap();
    fs::create_dir(&kernels).unwrap();
    let kernel = cached_kernel(&kernel_cache()).unwrap();
    let copied = Command::new("cp").arg("-r").arg(kernel).arg(&kernels).status().unwrap();
    assert!(copied.success());
    world
}

/// The short run as nobody.
fn command(world: &World) -> Command {
    let like = world.command(SHORT);
    let mut command = Command::new(world.path("vioperf"));
    command.args(SHORT).arg("--out=run").stdin(Stdio::null()).current_dir(world.path("here"));
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.uid(NOBODY).gid(NOBODY);
    command
}

fn run(world: &World) -> Finished {
    Run::start(command(world)).ends()
}

#[test]
fn an_ordinary_user_measures_and_leaves_nothing() {
    let world = nobodys();
    let before = world.files_beside("here/run");
    let finished = in_private_mounts(|| {
        tun_device(Some(0o666));
        run(&world)
    });
    let finished = finished.succeeded();
    assert!(finished.stdout.contains("virtio"), "{finished:#?}");
    assert_eq!(world.files_beside("here/run"), before);
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    assert_eq!(records.matches("\"result\":\"completed\"").count(), 2);
}

#[test]
fn a_tun_device_that_is_roots_alone_is_told_with_the_remedy() {
    let world = nobodys();
    let finished = in_private_mounts(|| {
        tun_device(Some(0o600));
        run(&world)
    });
    let words = ["/dev/net/tun is not for this user", "sudo chmod 0666 /dev/net/tun", "as root"];
    finished.failed_with(3, &words);
}

/// In a user namespace of its own, where no other may be made.
#[test]
fn forbidden_user_namespaces_are_told_with_their_sysctl() {
    let world = nobodys();
    let finished = in_private_mounts(|| {
        tun_device(Some(0o666));
        let mut command = command(&world);
        // SAFETY: between fork and exec nothing is locked; the test has no other thread that would.
        unsafe { command.pre_exec(forbid_user_namespaces) };
        Run::start(command).ends()
    });
    finished.failed_with(
        3,
        &["user.max_user_namespaces is 0", "sudo sysctl user.max_user_namespaces="],
    );
}

/// A user namespace whose limit, which its creator may lower, is zero; the user stays what it is.
fn forbid_user_namespaces() -> std::io::Result<()> {
    // A process that changed its user may not write to its own /proc/self else.
    set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{NOBODY} {NOBODY} 1"))?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {NOBODY} 1"))?;
    fs::write("/proc/sys/user/max_user_namespaces", "0")
}
