//! A lab that stands for a look by hand: what a person does with it, and that nothing is left of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use serde_json::Value;
use support::Finished;
use support::running::Run;
use support::world::World;

/// A name that no other lab here has: root's labs are all in one place.
fn name(word: &str) -> String {
    format!("test-{}-{word}", std::process::id())
}

/// Where root's labs are known by their names.
fn socket(name: &str) -> PathBuf {
    PathBuf::from("/run/vioperf").join(name)
}

/// Starts a lab, and waits until it stands.
fn up(world: &World, scenario: &str, name: &str, further: &[&str]) -> Run {
    let arguments = ["lab", "up", scenario, "--name", name];
    let mut lab = world.start(&[&arguments, further].concat());
    lab.until_some("a lab that stands", |_| described(world, name));
    lab
}

/// What the list says of a lab that stands.
fn described(world: &World, name: &str) -> Option<Value> {
    let listed = world.command(&["lab", "list", "--json"]).output().unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let found = listed.into_iter().find(|lab| lab["name"] == name)?;
    Some(found["lab"].clone()).filter(|lab| !lab.is_null())
}

fn address_of(lab: &Value, place: &str) -> String {
    let parts = lab["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["place"] == place).unwrap();
    part["addresses"][0].as_str().unwrap().to_owned()
}

fn shell(world: &World, name: &str, part: &str, command: &[&str]) -> Finished {
    let words = [&["lab", "shell", part, "--lab", name, "--"], command].concat();
    finished(world.command(&words))
}

fn down(world: &World, name: &str) -> Finished {
    finished(world.command(&["lab", "down", name]))
}

fn finished(mut command: Command) -> Finished {
    Finished::of(command.output().unwrap())
}

#[test]
fn a_person_looks_into_every_part_of_a_lab_and_ends_it() {
    let world = World::new();
    let name = name("parts");
    let further = ["--set=nic=virtio", "--set=mtu=1400"];
    let lab = up(&world, "nic-models", &name, &further);
    let told = described(&world, &name).unwrap();
    assert!(told["cell"].as_str().unwrap().starts_with("virtio/"), "{told}");
    let guest = address_of(&told, "guest");
    let ping = ["busybox", "ping", "-c", "1", "-W", "5", &guest];
    shell(&world, &name, "remote", &ping).succeeded();
    let links = shell(&world, &name, "host", &["ip", "-o", "link"]).succeeded().stdout;
    assert!(links.contains("tap0") && links.contains("mtu 1400"), "{links}");
    // What it says of the parts is what they have.
    let own = shell(&world, &name, "remote", &["ip", "-o", "addr"]).succeeded().stdout;
    assert!(own.contains(&address_of(&told, "peer")), "{own}");
    // The host's tools see the lab alone.
    let first = shell(&world, &name, "host", &["cat", "/proc/1/cmdline"]).succeeded().stdout;
    assert!(first.contains("vioperf") && first.contains("lab"), "{first}");
    assert_eq!(shell(&world, &name, "second", &["sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(shell(&world, &name, "second", &["sh", "-c", "kill -9 $$"]).code, Some(137));
    shell(&world, &name, "nowhere", &["true"])
        .failed_with(1, &["no part `nowhere`", "guest, remote"]);
    down(&world, &name).succeeded();
    assert!(!socket(&name).exists());
    let ended = lab.ends().succeeded();
    assert!(ended.stdout.contains("vioperf lab shell guest"), "{ended:#?}");
    down(&world, &name).failed_with(1, &["no lab of the name"]);
}

#[test]
fn two_labs_stand_and_one_that_is_killed_leaves_nothing() {
    let world = World::with_baselines("");
    let names = [name("one"), name("two")];
    let mut killed = up(&world, "baselines.toml", &names[0], &[]);
    let again = world.vioperf(&["lab", "up", "baselines.toml", "--name", &names[0]]);
    again.failed_with(1, &["stands already", "vioperf lab down"]);
    let other = up(&world, "baselines.toml", &names[1], &[]);
    finished(world.command(&["lab", "shell", "remote"]))
        .failed_with(1, &["several labs stand", "--lab"]);
    // What a visitor runs ends with the lab.
    let words = ["lab", "shell", "remote", "--lab", &names[0], "--", "sleep", "100"];
    let mut visitor = world.command(&words).spawn().unwrap();
    killed.until_some("a visitor in the lab", |_| {
        let inside = shell(&world, &names[0], "host", &["ps", "ax"]).stdout;
        inside.contains("sleep 100").then_some(())
    });
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.ends().signal, Some(Signal::SIGKILL as i32));
    assert_eq!(visitor.wait().unwrap().code(), Some(137));
    assert!(described(&world, &names[0]).is_none() && !socket(&names[0]).exists());
    other.signal(Signal::SIGINT);
    let ended = other.ends().succeeded();
    assert!(ended.stderr.contains("has gone down"), "{ended:#?}");
    assert!(!socket(&names[1]).exists());
}

#[test]
fn a_lab_goes_down_by_itself() {
    let world = World::with_baselines("");
    let name = name("short");
    let arguments = ["lab", "up", "baselines.toml", "--for=1s", "--name", &name];
    let ended = world.vioperf(&arguments).succeeded();
    assert!(ended.stderr.contains("after 1 s, as --for says"), "{ended:#?}");
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_made() {
    let world = World::with_baselines("");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let base = ["lab", "up", "baselines.toml"];
        world.vioperf(&[&base, arguments].concat()).failed_with(code, words);
    };
    refused(&["--cell=virtio"], 2, &["no cell is called `virtio`", "baseline/"]);
    refused(&["--name=../x"], 1, &["is no name for a lab"]);
    refused(
        &["--set=server=ssh://nobody@nowhere"],
        2,
        &["ssh://nobody@nowhere", "no lab to stand"],
    );
}

#[test]
fn a_guest_has_a_shell_with_busybox_and_with_the_programs_asked_for() {
    let world = World::new();
    let name = name("guest");
    let further =
        ["lab", "up", "nic-models", "--detach", "--name", &name, "--set=nic=e1000", "--with=sh"];
    let _down = DownAtLast(&world, &name);
    let begun = world.command(&further).output().map(Finished::of).unwrap().succeeded();
    assert!(begun.stdout.contains("lab shell guest"), "{begun:#?}");
    assert!(begun.stderr.contains("booting the guest's kernel"), "{begun:#?}");
    let told = described(&world, &name).unwrap();
    let address = shell(&world, &name, "guest", &["ip", "addr"]).succeeded().stdout;
    assert!(address.contains(&address_of(&told, "guest")), "{address}");
    let driver = shell(&world, &name, "guest", &["ls", "-l", "/sys/class/net/eth0/device/driver"]);
    assert!(driver.stdout.contains("e1000"), "{driver:#?}");
    // Both streams, and the code.
    let both = shell(&world, &name, "guest", &["sh", "-c", "echo one; echo two >&2; exit 7"]);
    let found = (both.stdout.as_str(), both.stderr.as_str(), both.code);
    assert_eq!(found, ("one\n", "two\n", Some(7)));
    let killed = shell(&world, &name, "guest", &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, Some(137));
    shell(&world, &name, "guest", &["nonsense"]).failed_with(1, &["cannot run nonsense"]);
    // More than a channel holds, both ways.
    let mut echo = world.command(&["lab", "shell", "guest", "--lab", &name, "--", "cat"]);
    let mut echo = echo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = vec![b'x'; 300_000];
    let mut input = echo.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = thread::spawn(move || input.write_all(&sent).unwrap());
    let echoed = echo.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(echoed.stdout == bytes, "{} bytes came back", echoed.stdout.len());
    on_terminals(&world, &name);
    // It is the same shell that was packed.
    let libraries = shell(&world, &name, "guest", &["find", "/", "-name", "libc.so.6"]).succeeded();
    assert!(libraries.stdout.contains("libc.so.6"), "{libraries:#?}");
    down(&world, &name).succeeded();
    assert!(!socket(&name).exists() && described(&world, &name).is_none());
}

/// Ends a lab in the background also where a test fails.
struct DownAtLast<'a>(&'a World, &'a str);

impl Drop for DownAtLast<'_> {
    fn drop(&mut self) {
        if socket(self.1).exists() {
            down(self.0, self.1);
        }
    }
}

/// What a person types into a shell, and sees of it.
fn on_terminals(world: &World, name: &str) {
    let mut guest = Typed::start(world.command(&["lab", "shell", "guest", "--lab", name]));
    let mut host = Typed::start(world.command(&["lab", "shell", "host", "--lab", name]));
    // Both at once, each in its own.
    guest.type_line("stty size; echo guest-$((40 + 2))");
    guest.until("33 77");
    guest.until("guest-42");
    host.type_line("echo in-$VIOPERF_LAB");
    host.until(&format!("in-{name}/host"));
    guest.type_line("sleep 1000");
    guest.until("sleep 1000");
    // The shell is in the kernel's hands for a moment.
    thread::sleep(Duration::from_millis(500));
    guest.type_bytes(b"\x03");
    guest.type_line("echo after-$?");
    guest.until("after-130");
    guest.type_line("exit 5");
    assert_eq!(guest.ends(), Some(5));
    host.type_line("exit 6");
    assert_eq!(host.ends(), Some(6));
    // Where a guest hangs there is a way out.
    let mut left = Typed::start(world.command(&["lab", "shell", "guest", "--lab", name]));
    left.type_line("sleep 1000");
    left.until("sleep 1000");
    left.type_bytes(b"\x1d");
    assert_eq!(left.ends(), Some(0));
}

/// A program on a terminal.
struct Typed {
    terminal: File,
    child: Child,
    seen: Vec<u8>,
}

impl Typed {
    fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let again = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(again()).stdout(again()).stderr(again());
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                match nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().unwrap();
        Self { terminal: master.into(), child, seen: Vec::new() }
    }

    fn type_line(&mut self, line: &str) {
        self.type_bytes(format!("{line}\r").as_bytes());
    }

    fn type_bytes(&mut self, bytes: &[u8]) {
        self.terminal.write_all(bytes).unwrap();
    }

    /// Reads on until it shows `word`.
    fn until(&mut self, word: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !String::from_utf8_lossy(&self.seen).contains(word) {
            let shown = || String::from_utf8_lossy(&self.seen).into_owned();
            assert!(Instant::now() < deadline, "it never showed `{word}`: {}", shown());
            let mut fds = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(200_u8)).unwrap() == 0 {
                continue;
            }
            let mut piece = [0; 4096];
            let length = self.terminal.read(&mut piece);
            let length = length.unwrap_or_else(|error| panic!("{error}; it showed: {}", shown()));
            self.seen.extend_from_slice(&piece[..length]);
        }
    }

    fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}
