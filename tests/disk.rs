//! Disks of guests: each model is plugged in, driven by its own driver and read and written; what QEMU and the guest's
//! kernel tell of it is what was asked for; nothing is left of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::world::World;

/// A small load of a disk, with that of the guest, the load and the factors; its bytes are in a directory of the world.
fn scenario(world: &World, guest: &str, workload: &str, factors: &str) {
    let directory = world.text("disks");
    fs::create_dir_all(&directory).unwrap();
    let text = format!(
        "name = \"disks\"\nquestion = \"What does a disk cost?\"\n[testbed.storage]\ndirectory = {directory:?}\n{guest}\n\
         [workload]\nkind = \"disk\"\nduration = \"400ms\"\nwarmup = \"100ms\"\nfile_size = \"8 MiB\"\n{workload}\n\
         [factors]\n{factors}\n[repeat]\nblocks = 1\n"
    );
    support::write(&world.path("here/disks.toml"), &text);
}

/// Runs it; the trials that have completed, by their cells, and what was said.
fn run(world: &World) -> (BTreeMap<String, Value>, String) {
    run_with(world, &[])
}

fn run_with(world: &World, further: &[&str]) -> (BTreeMap<String, Value>, String) {
    let arguments = [&["run", "disks.toml", "--seed=3", "--out=run"], further].concat();
    let finished = world.vioperf(&arguments).succeeded();
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let trials = trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let by_cell = trials.map(|trial| {
        let cell = trial["cell"].as_str().unwrap().to_owned();
        assert_eq!(trial["outcome"]["result"], "completed", "{cell}: {}", trial["outcome"]);
        (cell, trial)
    });
    let by_cell = by_cell.collect();
    assert_eq!(fs::read_dir(world.path("disks")).unwrap().count(), 0, "a file with a name is left");
    (by_cell, finished.stderr)
}

fn party<'a>(trial: &'a Value, place: &str) -> &'a Value {
    let found = trial["parties"].as_array().unwrap().iter().find(|party| party["place"] == place);
    found.unwrap_or_else(|| panic!("no {place} in {}", trial["cell"]))
}

/// What the end at that place had counted of its disk when the trial ended.
fn counted(trial: &Value, place: &str, counter: &str) -> u64 {
    let samples = party(trial, place)["report"]["samples"].as_array().unwrap();
    samples.last().unwrap()["load"]["disk"][counter].as_u64().unwrap()
}

#[test]
fn every_model_binds_its_driver_and_is_read_and_written() {
    // What `model::disk` promises, written down again.
    let drivers = [
        ("virtio-blk", "virtio_blk", "restored"),
        ("virtio-scsi", "virtio_scsi", "restored"),
        ("nvme", "nvme", "restored"),
        ("pvscsi", "vmw_pvscsi", "restored"),
        ("ahci", "ahci", "booted"),
        ("lsi", "sym53c8xx", "restored"),
        ("ide", "ata_piix", "booted"),
    ];
    let world = World::new();
    let models = drivers.map(|(model, ..)| format!("{model:?}")).join(", ");
    scenario(&world, "", "read_share = \"50 %\"", &format!("disk = [{models}]"));
    let (trials, _) = run(&world);
    assert_eq!(trials.len(), 1 + drivers.len(), "{:?}", trials.keys());
    for (model, driver, origin) in drivers {
        let trial = &trials[model];
        let disk = &trial["guest"]["disk"];
        assert_eq!(disk["driver"], driver, "{model}: {disk}");
        assert_eq!(disk["size_bytes"], 8 << 20, "{model}");
        assert_eq!(trial["guest"]["origin"], origin, "{model}");
        assert_eq!(party(trial, "guest")["role"]["role"], "disk", "{model}");
        for counter in ["reads", "writes"] {
            assert!(counted(trial, "guest", counter) > 0, "{model} has no {counter}");
        }
        // No load goes over a NIC: there is none, and no far end.
        assert!(party(trial, "guest").get("interface").is_none_or(Value::is_null), "{model}");
        assert_eq!(trial["parties"].as_array().unwrap().len(), 2, "{model}");
    }
    assert!(counted(&trials["baseline"], "second", "bytes_read") > 0);
}

#[test]
fn what_is_asked_of_a_drive_is_in_force_and_what_cannot_be_is_left_out() {
    let world = World::new();
    let factors = "disk = [\"virtio-blk\", \"nvme\"]\ndrive.cache = [\"none\", \"writethrough\"]\n\
                   drive.format = [\"raw\", \"qcow2\"]";
    scenario(&world, "[guest.drive]\nio_thread = true\naio = \"native\"", "", factors);
    let (trials, said) = run(&world);
    let cells: Vec<&String> = trials.keys().collect();
    // Of NVMe there is no thread of its own, and native I/O is past the page cache alone.
    assert_eq!(cells.len(), 1 + 2, "{cells:?}");
    assert!(said.contains("served by QEMU's main loop"), "{said}");
    assert!(said.contains("drive.io_thread") && said.contains("directsync"), "{said}");
    for format in ["raw", "qcow2"] {
        let of_format = |trial: &&Value| trial["guest"]["disk"]["drive"]["format"] == format;
        let trial = trials.values().find(of_format).unwrap();
        assert_eq!(trial["guest"]["disk"]["write_cache"], "write back", "{format}");
        // QEMU's own threads as the host sees them: one that serves the disk.
        let layers = party(trial, "host")["report"].to_string();
        assert!(layers.contains("IO disk-thread"), "{format}: no thread of its own");
    }

    scenario(&world, "[guest.drive]\ncache = \"writethrough\"", "", "disk = \"virtio-scsi\"");
    fs::remove_dir_all(world.path("here/run")).unwrap();
    let (trials, _) = run(&world);
    assert_eq!(trials["virtio-scsi"]["guest"]["disk"]["write_cache"], "write through");
}

#[test]
fn the_network_is_busy_beside_the_disk() {
    let world = World::new();
    scenario(&world, "", "background = \"tcp-stream\"", "disk = \"virtio-blk\"\nnic = \"virtio\"");
    let (trials, _) = run(&world);
    let trial = &trials["virtio-blk+virtio"];
    assert!(counted(trial, "guest", "reads") > 0);
    assert_eq!(party(trial, "guest")["further_legs"][0]["purpose"], "background");
    assert_eq!(party(trial, "peer")["role"]["role"], "sender");
    let tap = trial["guest"]["port"].as_str().unwrap();
    let samples = party(trial, "host")["report"]["samples"].as_array().unwrap();
    let bytes = |sample: &Value| sample["interfaces"][tap]["tx_bytes"].as_u64().unwrap();
    let moved = bytes(samples.last().unwrap()) - bytes(&samples[0]);
    assert!(moved > 1_000_000, "{moved} bytes beside the disk");
}

#[test]
fn memory_that_answers_is_told_with_its_cause_and_every_cache_mode_is_in_force() {
    let world = World::new();
    // Large reads: what else moves the host's disk meanwhile is little beside them.
    let load = "read_share = \"100 %\"\nblock_size = \"1 MiB\"\nqueue_depth = 2";
    let modes = ["none", "writeback", "directsync", "unsafe"];
    let factors = format!("disk = \"virtio-blk\"\ndrive.cache = {modes:?}");
    scenario(&world, "[guest]\nmachine = \"pc\"\nreuse = \"none\"", load, &factors);
    let (trials, _) = run(&world);
    let id = |mode: &str| format!("virtio-blk/drive-cache-{mode}");
    for mode in modes {
        let trial = &trials[&id(mode)];
        assert_eq!(trial["guest"]["disk"]["drive"]["cache"], mode);
        assert!(trial["storage"].is_object(), "{mode}: {}", trial["storage"]);
    }
    let found = |name: &str| {
        let report = world.vioperf(&["report", "run", "--format=json"]).succeeded().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["rule"] == name).unwrap()
    };
    let finding = found("host-cache-in-path");
    let cells: Vec<&str> =
        finding["cells"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for mode in ["writeback", "unsafe"] {
        assert!(cells.contains(&id(mode).as_str()), "{mode}: {finding}");
        let cause = format!("guest.drive.cache = \"{mode}\"");
        assert!(finding["evidence"].as_str().unwrap().contains(&cause), "{finding}");
    }

    fs::remove_dir_all(world.path("here/run")).unwrap();
    scenario(&world, "", load, "disk = \"virtio-blk\"\nstorage.kind = [\"tmpfs\"]");
    let (trials, _) = run(&world);
    assert!(trials.values().all(|trial| trial["storage"]["in_memory"] == true));
    let finding = found("host-cache-in-path");
    assert_eq!(finding["cells"].as_array().unwrap().len(), trials.len(), "{finding}");
    assert!(finding["evidence"].as_str().unwrap().contains("in memory"), "{finding}");
}

#[test]
fn every_way_of_reading_and_either_thread_is_read_back() {
    let world = World::new();
    let factors = "disk = [\"virtio-blk\", \"virtio-scsi\"]\n\
                   drive.aio = [\"threads\", \"native\", \"io_uring\"]\ndrive.io_thread = [false, true]";
    scenario(&world, "", "", factors);
    // What is not as it was asked for would be void, and `run` refuses that.
    let (trials, said) = run(&world);
    for (aio, is_always_there) in [("threads", true), ("native", true), ("io_uring", false)] {
        let count = trials.keys().filter(|cell| cell.contains(&format!("aio-{aio}/"))).count();
        // A QEMU may be built without io_uring.
        assert!(count == 4 || count == 0 && !is_always_there, "{aio}: {count}: {said}");
    }
}

#[test]
fn a_neighbour_has_a_disk_of_its_own_and_loads_it_when_it_is_busy() {
    let world = World::new();
    scenario(
        &world,
        "",
        "read_share = \"0 %\"",
        "disk = \"virtio-blk\"\nneighbour = [\"none\", \"idle\", \"busy\"]",
    );
    let (trials, _) = run(&world);
    let of = |level: &str| &trials[&format!("virtio-blk/neighbour-{level}")];
    assert!(of("none")["guest"]["others"].is_null());
    for level in ["idle", "busy"] {
        let others = of(level)["guest"]["others"].as_array().unwrap();
        assert_eq!(others.len(), 1, "{level}");
        assert_eq!(others[0]["disk"]["driver"], "virtio_blk", "{level}");
        assert!(counted(of(level), "guest", "writes") > 0, "{level}");
    }
    assert_eq!(party(of("idle"), "neighbour")["role"]["role"], "observer");
    let busy = party(of("busy"), "neighbour");
    assert_eq!((&busy["role"]["role"], &busy["purpose"]), (&"disk".into(), &"neighbour".into()));
    assert!(counted(of("busy"), "neighbour", "writes") > 0);

    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let busy = cells.iter().find(|cell| cell["id"] == "virtio-blk/neighbour-busy").unwrap();
    let beside = &busy["other_guests"][0];
    assert_eq!(beside["place"], "neighbour");
    let mean = beside["disk"]["operations_per_second"]["summary"]["mean"].as_f64().unwrap();
    assert!(mean > 0.0, "{beside}");
}

#[test]
fn a_run_that_is_killed_leaves_no_file() {
    let world = World::new();
    scenario(&world, "", "", "disk = \"virtio-blk\"");
    let before = world.files_beside("here/run");
    let mut run =
        world.start(&["run", "disks.toml", "--set=duration=20s", "--seed=3", "--out=run"]);
    run.until_some("the disk's file, open", |run| {
        let open =
            |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = run.processes().into_iter().flat_map(open);
        let mut paths = links.filter_map(|link| fs::read_link(link.path()).ok());
        paths.find(|path| path.starts_with(world.path("disks")))
    });
    run.until("[  1/2]");
    run.signal(Signal::SIGKILL);
    run.ends();
    assert_eq!(world.files_beside("here/run"), before);
}

/// A block device of this machine for the while that it lives: it is detached already, and open.
struct LoopDevice {
    path: String,
    _open: File,
}

impl LoopDevice {
    fn on(file: &Path) -> Self {
        let losetup = |arguments: &[&str]| {
            let output = Command::new("losetup").args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "this test needs a loop device, as root: {said}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let path = losetup(&["--find", "--show", file.to_str().unwrap()]);
        let open = File::open(&path);
        losetup(&["--detach", &path]);
        Self { path, _open: open.unwrap() }
    }
}

#[test]
fn a_block_device_is_read_and_written_by_host_and_guest() {
    const BYTES: u64 = 16 << 20;
    let world = World::new();
    let file = world.path("device");
    File::create(&file).unwrap().set_len(BYTES).unwrap();
    let device = LoopDevice::on(&file);
    let factors = format!(
        "disk = \"virtio-blk\"\nstorage.kind = [\"device\"]\nstorage.device = [{:?}]",
        device.path
    );
    scenario(&world, "", "read_share = \"50 %\"", &factors);
    let (trials, _) = run_with(&world, &["--allow-overwrite", &device.path]);
    assert_eq!(trials.len(), 2, "{:?}", trials.keys());
    for (cell, trial) in &trials {
        let place = if cell.starts_with("baseline") { "second" } else { "guest" };
        for counter in ["reads", "writes"] {
            assert!(counted(trial, place, counter) > 0, "{cell} has no {counter}");
        }
    }
    // It is the size of the load's file that is used, and the device's own bytes that are overwritten.
    let written = fs::read(&file).unwrap();
    assert_eq!(written.len() as u64, BYTES);
    let (used, beyond) = written.split_at(8 << 20);
    assert!(used.iter().any(|byte| *byte != 0) && beyond.iter().all(|byte| *byte == 0));
}

#[test]
fn a_device_is_overwritten_by_nobody_who_was_not_told() {
    let world = World::new();
    scenario(
        &world,
        "",
        "",
        "disk = \"virtio-blk\"\nstorage.kind = [\"device\"]\nstorage.device = [\"/dev/null\"]",
    );
    let run = |further: &[&str]| {
        let arguments = [&["run", "disks.toml", "--out=run"], further].concat();
        world.vioperf(&arguments)
    };
    let refused = run(&[]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("--allow-overwrite /dev/null"), "{refused:#?}");
    let no_device = run(&["--allow-overwrite=/dev/null"]);
    assert!(no_device.stderr.contains("no block device"), "{no_device:#?}");
}
