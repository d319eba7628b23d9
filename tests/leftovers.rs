//! A lab leaves nothing behind, however it ends. Every end is looked at from outside: processes,
//! namespaces, links, mounts and files are as they were ([`support::running::Run::ends`]).
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::setsid;
use serde_json::Value;
use support::Finished;
use support::running::Run;
use support::world::{SHORT, World};

/// A run of two baselines and two cells of a guest, long enough to be interrupted in between.
fn started(world: &World) -> Run {
    started_with(world, "2s")
}

fn started_with(world: &World, duration: &str) -> Run {
    world.start(&arguments(duration))
}

fn arguments(duration: &str) -> Vec<String> {
    let mut arguments: Vec<String> = SHORT.iter().map(ToString::to_string).collect();
    arguments.push("--set=direction=to-guest,from-guest".to_owned());
    arguments.push(format!("--set=duration={duration}"));
    arguments.push("--out=run".to_owned());
    arguments
}

/// The stored run's end and its records.
fn stored(world: &World) -> (Value, Vec<Value>) {
    let info: Value =
        serde_json::from_slice(&fs::read(world.path("here/run/run.json")).unwrap()).unwrap();
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (info["ended"].clone(), records)
}

/// It ended by this signal, in order: it says what was finished, and the same is told again later.
#[track_caller]
fn ended_in_order(world: &World, finished: &Finished, signal: &str, code: i32) -> usize {
    assert_eq!(finished.code, Some(code), "{finished:#?}");
    let (ended, records) = stored(world);
    assert_eq!((&ended["how"], &ended["signal"]), (&"interrupted".into(), &signal.into()));
    assert!(finished.stdout.contains("baseline"), "{finished:#?}");
    let again = world.vioperf(&["report", "run"]).succeeded();
    assert_eq!(again.stdout, finished.stdout);
    records.len()
}

#[test]
fn a_run_that_ends_by_itself_leaves_its_directory_and_nothing_else() {
    let world = World::new();
    let before = world.files_beside("here/run");
    let mut arguments = SHORT.to_vec();
    arguments.push("--out=run");
    world.vioperf(&arguments).succeeded();
    assert_eq!(world.files_beside("here/run"), before);
    let mut left: Vec<String> = fs::read_dir(world.path("here/run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["report.html", "run.json", "trials.jsonl"]);
}

/// A terminal sends Ctrl-C to every process of its foreground group.
#[test]
fn ctrl_c_on_a_terminal_ends_the_run_after_the_trial() {
    let world = World::new();
    let before = world.files_beside("here/run");
    let terminal = openpty(None, None).unwrap();
    let mut command = world.command(&arguments("2s"));
    command.stdin(File::from(terminal.slave));
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(own_the_terminal) };
    let mut run = Run::start_as_it_is(command);
    run.until("[  2/4]");
    run.until_in_trial(None);
    let mut keyboard = File::from(terminal.master);
    keyboard.write_all(b"\x03").unwrap();
    let finished = run.ends();
    assert_eq!(ended_in_order(&world, &finished, "SIGINT", 130), 3, "the trial under way counts");
    assert_eq!(world.files_beside("here/run"), before);
}

/// The terminal that is the standard input becomes the controlling one of a new session.
fn own_the_terminal() -> std::io::Result<()> {
    setsid()?;
    // SAFETY: the request takes an integer; the descriptor is the standard input.
    nix::errno::Errno::result(unsafe {
        libc::ioctl(std::io::stdin().as_raw_fd(), libc::TIOCSCTTY, 0)
    })?;
    Ok(())
}

#[test]
fn ctrl_c_twice_ends_the_run_now() {
    let world = World::new();
    let mut run = started_with(&world, "5s");
    run.until("[  2/4]");
    run.until_in_trial(None);
    run.signal_group(Signal::SIGINT);
    thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    run.signal_group(Signal::SIGINT);
    let finished = run.ends();
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    assert_eq!(ended_in_order(&world, &finished, "SIGINT", 130), 2);
}

#[test]
fn sigint_to_the_outer_process_alone_ends_the_run() {
    let world = World::new();
    let mut run = started(&world);
    run.until("[  1/4]");
    run.signal(Signal::SIGINT);
    let finished = run.ends();
    assert!(ended_in_order(&world, &finished, "SIGINT", 130) <= 2);
}

#[test]
fn sigint_before_the_first_trial_says_that_there_is_nothing() {
    let world = World::new();
    let before = world.files_beside("here/run");
    let mut run = started(&world);
    run.until_some("a guest that boots", Run::booting_qemu);
    run.signal_group(Signal::SIGINT);
    run.ends().failed_with(130, &["nothing to report"]);
    assert_eq!(world.files_beside("here/run"), before);
}

#[test]
fn sigterm_ends_the_run_now() {
    let world = World::new();
    let mut run = started(&world);
    run.until("[  2/4]");
    run.until_in_trial(None);
    run.signal(Signal::SIGTERM);
    assert_eq!(ended_in_order(&world, &run.ends(), "SIGTERM", 143), 2);
}

/// Between the split and the first handler there is a moment in which a signal could be lost.
#[test]
fn no_sigterm_is_lost_while_the_lab_is_made() {
    let world = World::new();
    for half_milliseconds in 0..24 {
        let mut run = started(&world);
        run.until("trials, about");
        thread::sleep(Duration::from_micros(half_milliseconds * 500));
        run.signal(Signal::SIGTERM);
        let since = Instant::now();
        let finished = run.ends();
        assert!(since.elapsed() < Duration::from_secs(4), "{finished:#?}");
        // Before the split it is the plain process that ends.
        assert!(finished.code == Some(143) || finished.signal == Some(15), "{finished:#?}");
    }
}

/// The processes of a run that are killed.
#[derive(Clone, Copy)]
enum Victim {
    Outer,
    Inner,
}

/// Where in a run it is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Boot,
    HotPlug,
    Trial,
    After(Duration),
}

#[test]
fn a_killed_run_leaves_nothing_but_what_was_finished() {
    for moment in [Moment::Boot, Moment::HotPlug, Moment::Trial].into_iter().chain(random_moments())
    {
        killed(Victim::Outer, moment);
    }
}

#[test]
fn a_killed_lab_leaves_nothing_and_the_outer_process_says_so() {
    for moment in [Moment::Boot, Moment::HotPlug, Moment::Trial] {
        killed(Victim::Inner, moment);
    }
}

/// Moments that nobody chose, but the same each time.
fn random_moments() -> impl Iterator<Item = Moment> {
    let mut state: u64 = 20_261_121;
    (0..4).map(move |_| {
        // Knuth's MMIX constants; the high bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Moment::After(Duration::from_millis((state >> 33) % 4000))
    })
}

fn killed(victim: Victim, moment: Moment) {
    println!("killed at {moment:?}");
    let world = World::new();
    let before = world.files_beside("here/run");
    let mut run = started_with(&world, "1s");
    match moment {
        Moment::Boot => drop(run.until_some("a guest that boots", Run::booting_qemu)),
        Moment::HotPlug => {
            run.until("[  2/4]");
            run.until_some("a restored guest", |run| run.restored_qemu(None));
        }
        Moment::Trial => {
            run.until("[  2/4]");
            run.until_in_trial(None);
        }
        Moment::After(time) => thread::sleep(time),
    }
    let finished = match victim {
        Victim::Outer => {
            run.signal(Signal::SIGKILL);
            let finished = run.ends();
            assert_eq!((finished.code, finished.signal), (None, Some(9)), "{finished:#?}");
            finished
        }
        Victim::Inner => {
            let inner = run.until_some("the lab's first process", Run::inner);
            kill(inner, Signal::SIGKILL).unwrap();
            run.ends().failed_with(137, &["ended by SIGKILL"])
        }
    };
    assert_eq!(finished.stdout, "");
    assert_eq!(world.files_beside("here/run"), before);
    let stored_at_all = world.path("here/run/run.json").exists();
    if matches!(victim, Victim::Inner) {
        let hint = finished.stderr.contains("vioperf report run");
        assert_eq!(hint, stored_at_all, "{}", finished.stderr);
    }
    if stored_at_all {
        let (ended, records) = stored(&world);
        assert_eq!(ended, Value::Null);
        let report = world.vioperf(&["report", "run"]).succeeded();
        assert_eq!(report.stdout.contains("n=1"), !records.is_empty(), "{report:#?}");
    }
    if matches!(moment, Moment::Trial | Moment::HotPlug) {
        assert!(stored(&world).1.len() == 2, "the two baselines were finished");
    }
}

/// In the preflight there is no lab yet, but a QEMU that is asked what it can.
#[test]
fn a_run_killed_in_the_preflight_leaves_nothing() {
    let world = World::new();
    let slow = world.script("qemu-that-thinks", "#!/bin/sh\nexec sleep 60\n");
    let before = world.files_beside("here/run");
    let mut arguments = arguments("1s");
    arguments.push(format!("--qemu={slow}"));
    let mut run = world.start(&arguments);
    run.until_some("a QEMU that is asked", |run| run.running("sleep"));
    run.signal(Signal::SIGKILL);
    assert_eq!(run.ends().signal, Some(9));
    for milliseconds in [1, 5, 20, 60] {
        let run = started(&world);
        thread::sleep(Duration::from_millis(milliseconds));
        run.signal(Signal::SIGKILL);
        assert_eq!(run.ends().signal, Some(9));
    }
    assert_eq!(world.files_beside("here/run"), before);
}
