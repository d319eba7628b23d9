//! The tests, as they look at a sandbox from outside.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, SFlag};
use nix::unistd::Pid;

use crate::Test;
use crate::leftovers::{self, TOKEN, assert_gone, namespaces_in_use};

pub const TESTS: &[Test] = &[
    ("a_sandbox_is_a_world_of_its_own", || quiet("facts").succeeds()),
    ("the_exit_code_comes_through", the_exit_code_comes_through),
    ("signals_come_through_once", signals_come_through_once),
    ("orphans_are_waited_for", || quiet("orphans").succeeds()),
    ("an_ordinary_user_gets_a_sandbox", an_ordinary_user_gets_a_sandbox),
    ("a_lab_can_be_brought_up_twice", || quiet("twice").succeeds()),
    ("a_killed_guard_leaves_nothing", || {
        killed(|| quiet("lab"), &["sandbox", "lab"], Whom::Guard);
    }),
    ("a_killed_lab_leaves_nothing", || {
        killed(|| quiet("lab"), &["sandbox", "lab"], Whom::Inner);
    }),
    ("an_ordinary_users_killed_guard_leaves_nothing", || {
        killed(|| as_nobody("lab", Tun::ForAll), &["sandbox", "lab"], Whom::Guard);
    }),
    ("a_killed_guard_takes_guests_along", || {
        killed(|| quiet("guest"), &["booting", "booted", "saved", "guest"], Whom::Guard);
    }),
    ("a_killed_lab_takes_guests_along", || {
        killed(|| quiet("guest"), &["booting", "guest"], Whom::Inner);
    }),
    ("an_old_qemu_saves_through_a_descriptor", || talkative("old-qemu").succeeds()),
    ("every_model_hot_plugs_and_its_driver_binds", || talkative("models").succeeds()),
    ("faults_of_guests_are_told_apart", || quiet("faults").succeeds()),
    ("a_fresh_boot_has_its_nic_from_the_start", || quiet("fresh-boot").succeeds()),
];

/// A run of this program inside a sandbox.
struct Run {
    guard: Child,
    lines: BufReader<ChildStdout>,
    token: String,
    links: std::collections::BTreeSet<String>,
    talkative: bool,
}

fn quiet(scene: &str) -> Run {
    start(scene, |_| {})
}

fn talkative(scene: &str) -> Run {
    Run { talkative: true, ..quiet(scene) }
}

fn start(scene: &str, adjust: impl FnOnce(&mut Command)) -> Run {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let token = format!("{}-{number}", std::process::id());
    let mut command = Command::new("/proc/self/exe");
    command.args(["inside", scene]).env(TOKEN, &token);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    adjust(&mut command);
    let mut guard = command.spawn().unwrap();
    let lines = BufReader::new(guard.stdout.take().unwrap());
    Run { guard, lines, token, links: leftovers::links(), talkative: false }
}

impl Run {
    /// Reads on until `at NAME`; what was said before.
    fn until(&mut self, name: &str) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "it ended before `at {name}`; it said {said:?}");
            if line.trim_end() == format!("at {name}") {
                return said;
            }
            said.push(line.trim_end().to_owned());
        }
    }

    /// Waits for the end; nothing is left of it.
    fn ends(mut self) -> Option<i32> {
        for line in (&mut self.lines).lines().map_while(Result::ok) {
            if self.talkative {
                println!("    {line}");
            }
        }
        let status = self.guard.wait().unwrap();
        assert_gone(&self.token);
        assert_eq!(leftovers::links(), self.links);
        status.code()
    }

    fn succeeds(self) {
        assert_eq!(self.ends(), Some(0));
    }

    fn guard(&self) -> Pid {
        Pid::from_raw(self.guard.id().cast_signed())
    }

    /// The guard's only child.
    fn inner(&self) -> Pid {
        let guard = self.guard.id();
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"));
        Pid::from_raw(children.unwrap().trim().parse().unwrap())
    }
}

fn the_exit_code_comes_through() {
    assert_eq!(quiet("exit-7").ends(), Some(7));
}

fn signals_come_through_once() {
    let mut run = start("signals", |command| {
        command.process_group(0);
    });
    run.until("ready");
    let guard = run.guard();
    let mut line = String::new();
    for (signal, to_group) in [
        (Signal::SIGINT, false),
        (Signal::SIGHUP, false),
        (Signal::SIGINT, true),
        (Signal::SIGTERM, true),
    ] {
        let to = if to_group { Pid::from_raw(-guard.as_raw()) } else { guard };
        kill(to, signal).unwrap();
        line.clear();
        run.lines.read_line(&mut line).unwrap();
        assert_eq!(line, format!("got {signal}\n"));
    }
    run.succeeds();
}

/// Nobody's id, on every distribution.
const NOBODY: u32 = 65534;

/// Who may open the tun device.
#[derive(Clone, Copy)]
enum Tun {
    RootOnly,
    ForAll,
}

/// The scene as an ordinary user, who finds a tun device of this mode.
fn as_nobody(scene: &str, tun: Tun) -> Run {
    start(scene, |command| {
        command.stderr(Stdio::piped());
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || become_nobody(tun)) };
    })
}

/// A /dev/net of its own in a mount namespace of its own, then the user.
fn become_nobody(tun: Tun) -> std::io::Result<()> {
    let none = None::<&std::ffi::CStr>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(c"tmpfs"), c"/dev/net", Some(c"tmpfs"), MsFlags::empty(), Some(c"mode=755"))?;
    let device = nix::sys::stat::makedev(10, 200);
    let mode = match tun {
        Tun::RootOnly => 0o600,
        Tun::ForAll => 0o666,
    };
    nix::sys::stat::umask(Mode::empty());
    let mode = Mode::from_bits_truncate(mode);
    nix::sys::stat::mknod(c"/dev/net/tun", SFlag::S_IFCHR, mode, device)?;
    nix::unistd::setgroups(&[])?;
    nix::unistd::setgid(NOBODY.into())?;
    nix::unistd::setuid(NOBODY.into())?;
    Ok(())
}

fn an_ordinary_user_gets_a_sandbox() {
    let outcome = |scene: &str, tun: Tun| {
        let mut run = as_nobody(scene, tun);
        let mut said = String::new();
        let mut stream = run.guard.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stream, &mut said).unwrap();
        (run.ends(), said)
    };
    assert_eq!(outcome("facts", Tun::RootOnly), (Some(0), String::new()));
    assert_eq!(outcome("tap", Tun::ForAll), (Some(0), String::new()));
    let (code, said) = outcome("tap", Tun::RootOnly);
    assert!(code == Some(5) && said.contains("chmod 0666 /dev/net/tun"), "{code:?}: {said}");
}

/// Whom the signal hits.
#[derive(Clone, Copy)]
enum Whom {
    Guard,
    Inner,
}

/// Kills a scene by SIGKILL at each of its moments: processes, namespaces and links are gone.
fn killed(start: impl Fn() -> Run, moments: &[&str], whom: Whom) {
    for moment in moments {
        let mut run = start();
        let said = run.until(moment);
        let own: Vec<&str> =
            said.iter().filter_map(|line| line.strip_prefix("namespace ")).collect();
        assert!(own.iter().all(|one| namespaces_in_use().contains(*one)));
        let (guard, inner) = (run.guard(), run.inner());
        match whom {
            Whom::Guard => kill(guard, Signal::SIGKILL).unwrap(),
            Whom::Inner => kill(inner, Signal::SIGKILL).unwrap(),
        }
        let own: Vec<String> = own.into_iter().map(str::to_owned).collect();
        let code = run.ends();
        match whom {
            Whom::Guard => assert_eq!(code, None),
            Whom::Inner => assert_eq!(code, Some(137), "the guard says how it ended"),
        }
        // Who waits for the guard does not wait for what dies with it, which takes a moment more.
        let deadline = Instant::now() + Duration::from_secs(5);
        let is_left = || own.iter().any(|one| namespaces_in_use().contains(one));
        while is_left() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_left(), "{own:?} of {moment} are left");
    }
    // At a moment that nobody chose.
    let run = start();
    std::thread::sleep(Duration::from_millis(3));
    kill(run.guard(), Signal::SIGKILL).unwrap();
    assert_eq!(run.ends(), None);
}
