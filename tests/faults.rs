//! What goes wrong with a guest, its QEMU or the machine: it is named, bounded, and the rest goes on.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::MsFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::mounts::{empty, in_private_mounts, tun_device};
use support::world::{SHORT, World, cached_kernel, kernel_cache};

fn short(more: &[&str]) -> Vec<String> {
    SHORT.iter().chain(more).map(ToString::to_string).collect()
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "the last record is not whole");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One run whose guests die one after the other, each in another way.
#[test]
fn guests_that_die_hang_or_crash_void_their_trial_and_the_run_goes_on() {
    let world = World::new();
    let mut run = world.start(&short(&[
        "--set=duration=3s",
        "--set=ready_timeout=20s",
        "--set=attempts=6",
        "--out=run",
    ]));
    run.until("[  1/2]");

    let killed = run.until_in_trial(None);
    kill(killed, Signal::SIGKILL).unwrap();
    run.until("void: ");

    // The same while it is waited for: it hangs until it is killed.
    let killed_late = run.until_in_trial(Some(killed));
    kill(killed_late, Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_secs(6));
    kill(killed_late, Signal::SIGKILL).unwrap();
    run.until("void: ");

    let hanging = run.until_in_trial(Some(killed_late));
    kill(hanging, Signal::SIGSTOP).unwrap();
    let since = Instant::now();
    run.until("void: ");
    assert!(since.elapsed() < Duration::from_secs(25), "{:?}", since.elapsed());

    let never_ready = run.until_some("another guest", |run| run.restored_qemu(Some(hanging)));
    kill(never_ready, Signal::SIGSTOP).unwrap();
    let since = Instant::now();
    run.until("void: ");
    assert!(since.elapsed() < Duration::from_secs(35), "{:?}", since.elapsed());

    let crashing = run.until_in_trial(Some(never_ready));
    crash(crashing);
    run.until("void: ");

    let finished = run.ends().succeeded();
    let records = records(&world.path("here/run/trials.jsonl"));
    let results: Vec<&str> =
        records.iter().map(|record| record["outcome"]["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["completed", "void", "void", "void", "void", "void", "completed"]);
    let reason = |record: usize| records[record]["outcome"]["reason"].as_str().unwrap();
    for (record, words) in [
        (1, "QEMU has ended (signal: 9"),
        (2, "QEMU has ended (signal: 9"),
        (3, "did not answer within"),
        (4, "within"),
        (5, "the guest's kernel panicked"),
    ] {
        assert!(reason(record).contains(words), "{record}: {}", reason(record));
    }
    let console = &records[5]["outcome"]["console_tail"].to_string();
    assert!(console.contains("Attempted to kill init"), "{console}");
    let report = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("5 void trials"), "{report}");
    for record in 1..=5 {
        let beginning: String = reason(record).chars().take(20).collect();
        assert!(report.contains(&beginning), "`{beginning}` in {report}");
    }
}

/// Overwrites the agent's program in the guest's memory: what it has not executed yet traps, and a
/// kernel whose first process ends panics.
fn crash(qemu: Pid) {
    const PAGE: usize = 4096;
    const TRAP: [u8; PAGE] = [0xcc; PAGE];
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let agent = fs::read(root.join("target/x86_64-unknown-linux-musl/agent/vioperf-agent"))
        .expect("`make agent` builds the agent");
    let pages: HashMap<&[u8], &[u8]> =
        agent.chunks_exact(PAGE).map(|page| (&page[..32], page)).collect();
    let maps = fs::read_to_string(format!("/proc/{qemu}/maps")).unwrap();
    let memory =
        OpenOptions::new().read(true).write(true).open(format!("/proc/{qemu}/mem")).unwrap();
    let mut trapped = 0;
    for (from, to) in maps.lines().filter_map(range_of) {
        // The guest's memory; the larger ones are the emulator's.
        if !(256 << 20..512 << 20).contains(&(to - from)) {
            continue;
        }
        let mut chunk = vec![0; 1 << 20];
        for at in (from..to).step_by(chunk.len()) {
            if memory.read_exact_at(&mut chunk, at).is_err() {
                continue;
            }
            for (number, page) in chunk.chunks_exact(PAGE).enumerate() {
                if pages.get(&page[..32]).is_some_and(|known| *known == page) {
                    let written = memory.write_all_at(&TRAP, at + (number * PAGE) as u64);
                    // It has crashed already, and its memory is gone.
                    trapped += u32::from(written.is_ok());
                }
            }
        }
    }
    assert!(trapped > 0, "the agent was not found in the guest's memory");
}

fn range_of(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("rw").then_some((parse(from)?, parse(to)?))
}

#[test]
fn a_guest_that_panics_at_boot_is_named_with_its_console() {
    let world = World::new();
    let since = Instant::now();
    let failed =
        world.vioperf(&short(&["--set=guest.kernel_arguments=rdinit=/nonexistent", "--out=run"]));
    failed.failed_with(1, &["the guest's kernel panicked", "Kernel panic - not syncing: VFS"]);
    assert!(since.elapsed() < Duration::from_secs(45), "{:?}", since.elapsed());
    assert!(!world.path("here/run").exists());
}

#[test]
fn a_guest_that_never_answers_is_given_up_in_time() {
    let world = World::new();
    let frozen = world.script("qemu-frozen", "#!/bin/sh\nexec qemu-system-x86_64 \"$@\" -S\n");
    let since = Instant::now();
    let failed = world.vioperf(&short(&[
        &format!("--qemu={frozen}"),
        "--set=ready_timeout=5s",
        "--set=guest.reuse=cell",
        "--out=run",
    ]));
    failed.failed_with(1, &["cannot boot the template guest", "did not answer within 5 s"]);
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[test]
fn a_missing_qemu_says_what_to_install() {
    let world = World::new();
    let words = ["apt-get install qemu-system-x86", "Fedora"];
    world.vioperf(&short(&["--qemu=/nonexistent"])).failed_with(3, &words);
    for path in ["", "/nonexistent"] {
        let mut command = world.command(&short(&[]));
        command.env("PATH", path);
        support::running::Run::start(command).ends().failed_with(3, &words);
    }
    assert!(!world.path("here/runs").exists());
}

#[test]
fn a_missing_tun_device_says_what_to_do_and_all_problems_are_told_at_once() {
    let world = World::new();
    let (alone, together) = in_private_mounts(|| {
        tun_device(None);
        let not_a_kernel = world.script("vmlinuz", "not a kernel");
        let kernel = format!("--kernel={not_a_kernel}");
        (
            world.vioperf(&short(&[])),
            world.vioperf(&short(&["--qemu=/nonexistent", "--set=memory=1048576MiB", &kernel])),
        )
    });
    alone.failed_with(3, &["/dev/net/tun", "modprobe tun", "--device /dev/net/tun"]);
    let words = ["/dev/net/tun", "apt-get install qemu-system-x86", "memory: ", "vmlinuz: "];
    together.failed_with(3, &words);
}

#[test]
fn a_kernel_without_the_driver_is_refused_by_the_modules_name() {
    let world = World::new();
    let kernel = cached_kernel(&kernel_cache()).unwrap();
    let modules = world.text("modules");
    // Links to the files, so that none of its 80 MiB is copied.
    let copied = Command::new("cp").arg("-as").arg(kernel.join("modules")).arg(&modules).status();
    assert!(copied.unwrap().success());
    let driver = "kernel/drivers/net/ethernet/intel/e1000/e1000.ko";
    let name = |dir: &Path| {
        let names = fs::read_dir(dir.join(driver).parent().unwrap()).unwrap();
        names.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for file in name(Path::new(&modules)) {
        fs::remove_file(file).unwrap();
    }
    let depends = fs::read_to_string(kernel.join("modules/modules.dep")).unwrap();
    let kept: Vec<&str> = depends.lines().filter(|line| !line.starts_with(driver)).collect();
    assert_eq!(kept.len() + 1, depends.lines().count());
    fs::remove_file(world.path("modules/modules.dep")).unwrap();
    support::write(&world.path("modules/modules.dep"), &(kept.join("\n") + "\n"));
    let image = kernel.join("vmlinuz").display().to_string();
    let failed = world.vioperf(&short(&[
        "--set=nic=virtio,e1000",
        &format!("--kernel={image}"),
        &format!("--set=guest.modules={modules}"),
    ]));
    failed.failed_with(3, &["lacks the module e1000", &modules]);
}

#[test]
fn a_model_that_qemu_lacks_is_left_out_and_the_rest_runs() {
    let world = World::new();
    let old = world.script(
        "qemu-old",
        "#!/bin/sh\n[ \"$*\" = \"-device help\" ] || exec qemu-system-x86_64 \"$@\"\n\
         qemu-system-x86_64 -device help | grep -v '\"igb\"'\n",
    );
    let only = world.vioperf(&short(&[&format!("--qemu={old}"), "--set=nic=igb"]));
    only.failed_with(3, &["no NIC model is left", "no device `igb`"]);
    let qemu = format!("--qemu={old}");
    let finished = world.vioperf(&short(&[&qemu, "--set=nic=igb,virtio", "--out=run"])).succeeded();
    assert!(finished.stderr.contains("warning: nic igb is left out: "), "{finished:#?}");
    assert!(finished.stdout.contains("igb"), "the report does not tell: {}", finished.stdout);
    assert_eq!(records(&world.path("here/run/trials.jsonl")).len(), 2);
}

/// Room for `run.json` and one record.
const DISK: &str = "size=88k";

#[test]
fn a_full_disk_ends_the_run_and_what_was_finished_is_reported() {
    let world = World::new();
    fs::create_dir(world.path("here/disk")).unwrap();
    let (finished, records) = in_private_mounts(|| {
        empty(&world.path("here/disk"), MsFlags::empty(), DISK);
        let finished = world.vioperf(&short(&["--out=disk/run"]));
        let records = records(&world.path("here/disk/run/trials.jsonl"));
        let again = world.vioperf(&["report", "disk/run"]).succeeded();
        assert_eq!(again.stderr, "", "the store is whole");
        assert_eq!(again.stdout, finished.stdout);
        (finished, records)
    });
    assert_eq!(records.len(), 1, "{finished:#?}");
    assert!(finished.stdout.contains("baseline"), "{finished:#?}");
    finished.failed_with(1, &["the run ended early", "trials.jsonl", "make room"]);
}

#[test]
fn a_directory_that_cannot_take_the_run_is_refused_before_a_guest_boots() {
    let world = World::new();
    fs::create_dir(world.path("here/taken")).unwrap();
    support::write(&world.path("here/taken/run.json"), "{}");
    fs::create_dir(world.path("here/half")).unwrap();
    File::create(world.path("here/half/trials.jsonl")).unwrap();
    support::write(&world.path("here/file"), "");
    fs::create_dir(world.path("here/read-only")).unwrap();
    let run = |out: &str| {
        let finished = world.vioperf(&short(&["--out", out]));
        assert!(!finished.stderr.contains("booting"), "{finished:#?}");
        finished
    };
    run("taken").failed_with(2, &["taken already holds a run", "--out"]);
    run("half").failed_with(2, &["half already holds a run"]);
    run("file/run").failed_with(2, &["file/run", "give --out a directory that you may write"]);
    in_private_mounts(|| {
        empty(&world.path("here/read-only"), MsFlags::MS_RDONLY, "size=4k");
        run("read-only/a/b").failed_with(2, &["read-only/a/b", "that you may write"]);
    });
    assert_eq!(fs::read_to_string(world.path("here/taken/run.json")).unwrap(), "{}");
}
