//! What happens inside a sandbox. Each scene says `at NAME` on its standard output when it is that
//! far, and panics when something is not as it should be.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use vioperf_lab::namespace::ProcessCommand;
use vioperf_lab::qemu::{Fault, GuestSource, Hypervisor, NicSpec, QemuVersion, Shape, Snapshot};
use vioperf_lab::sandbox::{Entered, Sandbox, enter};
use vioperf_lab::switch::{NearEnd, Purpose, lacks};
use vioperf_lab::tap::Tap;
use vioperf_lab::{GuestSpec, Lab, LabError, LabSpec};
use vioperf_model::nic::NicModel;
use vioperf_model::scenario::{IpVersion, SwitchKind, Topology};

use crate::guests::{self, BOUND};

/// Enters a sandbox and runs the scene there.
pub fn run(scene: &str) -> ExitCode {
    let sandbox = match enter(&std::env::temp_dir()) {
        Ok(Entered::Guard(ended)) => {
            if let Some(message) = ended.message() {
                eprintln!("{message}");
            }
            std::process::exit(ended.exit_code());
        }
        Ok(Entered::Inside(sandbox)) => sandbox,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(4);
        }
    };
    match scene {
        "facts" => facts(&sandbox),
        "exit-7" => return ExitCode::from(7),
        "signals" => signals(),
        "lab" => lab_and_wait(&sandbox),
        "orphans" => orphans(&sandbox),
        "tap" => return tap(),
        "guest" => guest_and_wait(&sandbox),
        "models" => models(&sandbox),
        "faults" => faults(&sandbox),
        "fresh-boot" => fresh_boot(&sandbox),
        "twice" => twice(&sandbox),
        "old-qemu" => old_qemu(&sandbox),
        other => panic!("no scene {other}"),
    }
    ExitCode::SUCCESS
}

/// Tells the test outside how far it is, and in which namespace.
fn at(name: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "at {name}").unwrap();
    out.flush().unwrap();
}

fn wait_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn bring_up(sandbox: &Sandbox) -> Lab {
    bring_up_with(sandbox, SwitchKind::default(), NearEnd::Second)
}

fn bring_up_with(sandbox: &Sandbox, switch: SwitchKind, near: NearEnd) -> Lab {
    let endpoint =
        ProcessCommand { program: "/proc/self/exe".into(), arguments: vec!["endpoint".into()] };
    let spec = LabSpec {
        switch,
        interface: None,
        near,
        mtu: 1500,
        topology: Topology::default(),
        ip: IpVersion::Ipv4,
        rate: None,
        placement: None,
        peer: endpoint.clone(),
        second: endpoint.clone(),
        host_end: endpoint.clone(),
        observer: endpoint,
    };
    Lab::bring_up(sandbox, &spec).unwrap()
}

/// The sandbox is what it should be.
fn facts(sandbox: &Sandbox) {
    assert_eq!(std::process::id(), 1);
    assert!(nix::unistd::geteuid().is_root());
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .count();
    assert_eq!(processes, 1, "/proc shows this namespace alone");
    let links = vioperf_netlink::Socket::open().unwrap().links().unwrap();
    let [loopback] = links.as_slice() else { panic!("{links:?}") };
    assert!(loopback.up && loopback.name == "lo");
    if sandbox.sysfs_is_own() {
        assert_eq!(fs::read_dir("/sys/class/net").unwrap().count(), 1);
    }
    println!("namespace {}", fs::read_link("/proc/self/ns/net").unwrap().display());
}

/// What comes through the guard, one line a signal.
fn signals() {
    let mut waited = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        waited.add(signal);
    }
    waited.thread_block().unwrap();
    at("ready");
    for _ in 0..4 {
        println!("got {}", waited.wait().unwrap());
        std::io::stdout().flush().unwrap();
    }
}

/// A switch with its endpoints: everybody sees what he should, then it waits to be killed.
fn lab_and_wait(sandbox: &Sandbox) {
    at("sandbox");
    let mut lab = bring_up(sandbox);
    for channel in [&mut lab.peer.channel, &mut lab.second.channel] {
        assert_eq!(links_seen(channel), "lo eth0");
    }
    assert_eq!(links_seen(&mut lab.observer.channel), "lo vioperf0 peer second");
    println!("namespace {}", fs::read_link("/proc/self/ns/net").unwrap().display());
    for (_, pid) in lab.processes() {
        println!("namespace {}", fs::read_link(format!("/proc/{pid}/ns/net")).unwrap().display());
    }
    let _tap = Tap::create("tap9", 1).unwrap();
    at("lab");
    wait_for_ever();
}

fn links_seen(channel: &mut UnixStream) -> String {
    channel.write_all(b"?").unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while channel.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// What an endpoint leaves behind is waited for; what this program started is not touched.
fn orphans(sandbox: &Sandbox) {
    let mut own = std::process::Command::new("/bin/true").spawn().unwrap();
    let script = ProcessCommand {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "(sleep 0.1; exit 3) & exit 0".into()],
    };
    let place = vioperf_lab::namespace::Place::OwnNamespace;
    let (mut process, _channel) =
        vioperf_lab::namespace::spawn(sandbox, "parent", &script, place).unwrap();
    assert!(process.wait(Duration::from_secs(5)).unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(5);
    while fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.parse::<u32>().is_ok_and(|pid| pid != 1 && pid != own.id())
    }) {
        sandbox.reap_orphans();
        assert!(Instant::now() < deadline, "the orphan is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(own.wait().unwrap().success());
}

/// Exit code 0 with a tap, 5 without permission, and the advice on standard error.
fn tap() -> ExitCode {
    match Tap::create("tap0", 2) {
        Ok(tap) => {
            assert_eq!(tap.queues.len(), 2);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(5)
        }
    }
}

/// A lab that is dropped takes its links and processes along, and another can be brought up: with every
/// switch that can be had here, for either near end.
fn twice(sandbox: &Sandbox) {
    let root = Path::new("/");
    let had =
        SwitchKind::all().filter(|&kind| lacks(kind, root, None, Purpose::Baselines).is_none());
    for (kind, near) in had.flat_map(|kind| NEAR_ENDS.map(|near| (kind, near))) {
        println!("{kind} with {near:?}");
        for _ in 0..2 {
            let mut lab = bring_up_with(sandbox, kind, near);
            for channel in [&mut lab.peer.channel, &mut lab.second.channel] {
                assert_eq!(links_seen(channel), "lo eth0");
            }
            let mut pids = lab.processes().map(|(_, pid)| pid).to_vec();
            pids.extend(lab.switch_processes().into_iter().map(|(_, pid)| pid));
            drop(lab);
            let links = vioperf_netlink::Socket::open().unwrap().links().unwrap();
            assert_eq!(links.len(), 1, "{links:?}");
            for pid in pids {
                assert!(!Path::new(&format!("/proc/{pid}")).exists());
            }
        }
    }
}

const NEAR_ENDS: [NearEnd; 2] = [NearEnd::Second, NearEnd::Guest { queues: 1 }];

/// A snapshot with every model's driver loaded.
fn snapshot(lab: &Lab) -> Snapshot {
    snapshot_by(lab, &guests::hypervisor())
}

fn snapshot_by(lab: &Lab, hypervisor: &Hypervisor) -> Snapshot {
    let image = guests::image();
    let mut booted = lab.boot_template(hypervisor, &image, Shape::default()).unwrap();
    at("booting");
    booted.answer_within(BOUND, |mut channel| guests::hello(&mut channel)).unwrap();
    println!("boot to agent: {:.2} s", booted.age().as_secs_f64());
    let models: Vec<NicModel> = NicModel::made_by_qemu().collect();
    booted.answer_within(BOUND, |mut channel| guests::load(&mut channel, &models)).unwrap();
    println!("boot to all drivers loaded: {:.2} s", booted.age().as_secs_f64());
    at("booted");
    let snapshot = booted.into_snapshot().unwrap();
    println!(
        "snapshot: {} MiB in {:.2} s",
        snapshot.size_bytes().unwrap() >> 20,
        snapshot.saving_took().as_secs_f64()
    );
    at("saved");
    snapshot
}

fn nic(model: NicModel) -> NicSpec {
    let vhost = vioperf_model::scenario::Vhost::Auto;
    NicSpec { model, addresses: vec![], prefix_length: 15, queues: 1, vhost, options: [].into() }
}

/// A guest with a NIC, that waits to be killed.
fn guest_and_wait(sandbox: &Sandbox) {
    let mut lab = bring_up(sandbox);
    let snapshot = snapshot(&lab);
    let source = GuestSource::Snapshot(&snapshot);
    let guest = lab
        .start_guest(sandbox, source, GuestSpec::under_test(&nic("virtio".parse().unwrap())))
        .unwrap();
    println!("qemu {}", guest.qemu_pid());
    at("guest");
    wait_for_ever();
}

/// Every model is plugged into a guest of its own, and the driver that the table names binds.
fn models(sandbox: &Sandbox) {
    let mut lab = bring_up(sandbox);
    let snapshot = snapshot(&lab);
    for model in NicModel::made_by_qemu() {
        let started = Instant::now();
        let mut guest = lab
            .start_guest(
                sandbox,
                GuestSource::Snapshot(&snapshot),
                GuestSpec::under_test(&nic(model)),
            )
            .unwrap();
        let mac = guest.macs().next().unwrap().to_string();
        let answered = started.elapsed();
        let facts = guest
            .answer_within("configure the NIC", BOUND, |mut channel| {
                guests::configure(&mut channel, &mac)
            })
            .unwrap();
        let timings = guest.timings();
        println!(
            "{model}: restored {:.2} s, plugged {:.2} s, carrier {:.2} s ({:?})",
            timings.restored.as_secs_f64(),
            timings.plugged.as_secs_f64(),
            started.elapsed().as_secs_f64(),
            answered,
        );
        assert_eq!(facts.driver.as_deref(), Some(model.row().driver));
        assert!(facts.carrier && guest.is_alive(), "{facts:?}");
        let tap = guest.wires().next().unwrap().to_owned();
        let mut socket = vioperf_netlink::Socket::open().unwrap();
        assert!(socket.link_by_name(&tap).unwrap().carrier);
        guest.stop();
        assert!(socket.link_by_name(&tap).is_err(), "the tap goes with its guest");
    }
}

/// Before 8.2 snapshots go through a descriptor; and two guests at once, with two queues each.
fn old_qemu(sandbox: &Sandbox) {
    let mut lab = bring_up(sandbox);
    let mut hypervisor = guests::hypervisor();
    hypervisor.qemu.version = QemuVersion { major: 7, minor: 2, micro: 0 };
    let snapshot = snapshot_by(&lab, &hypervisor);
    let spec = NicSpec { queues: 2, ..nic("virtio".parse().unwrap()) };
    let mut start = || {
        lab.start_guest(sandbox, GuestSource::Snapshot(&snapshot), GuestSpec::under_test(&spec))
            .unwrap()
    };
    for mut guest in [start(), start()] {
        let mac = guest.macs().next().unwrap().to_string();
        let facts = guest
            .answer_within("configure the NIC", BOUND, |mut channel| {
                guests::configure(&mut channel, &mac)
            })
            .unwrap();
        assert!(facts.carrier, "{facts:?}");
    }
}

/// A guest that is killed, panics or is silent is told apart, with its console.
fn faults(sandbox: &Sandbox) {
    let mut lab = bring_up(sandbox);
    let (hypervisor, image) = (guests::hypervisor(), guests::image());
    let mut silent = lab.boot_template(&hypervisor, &image, Shape::default()).unwrap();
    let soon = Duration::from_millis(300);
    let error = silent.answer_within(soon, |mut channel| guests::hello(&mut channel)).unwrap_err();
    assert!(matches!(error.fault, Fault::Silent { .. }), "{error}");

    let mut killed = lab.boot_template(&hypervisor, &image, Shape::default()).unwrap();
    nix::sys::signal::kill(killed.qemu_pid(), Signal::SIGKILL).unwrap();
    let error = killed.answer_within(BOUND, |mut channel| guests::hello(&mut channel)).unwrap_err();
    assert!(matches!(error.fault, Fault::QemuEnded(_)), "{error}");

    let headless = guests::image_without_agent();
    let shape = Shape::default();
    let source = GuestSource::FreshBoot { hypervisor: &hypervisor, image: &headless, shape };
    let mut guest = lab
        .start_guest(sandbox, source, GuestSpec::under_test(&nic("virtio".parse().unwrap())))
        .unwrap();
    let error = guest
        .answer_within("reach the agent", BOUND, |mut channel| guests::hello(&mut channel))
        .unwrap_err();
    assert!(matches!(error.fault, Fault::Panicked), "{error}");
    assert!(error.to_string().contains("Kernel panic"), "{error}");
    assert!(!guest.is_alive());
    println!("{error}");

    let mut missing = hypervisor.clone();
    missing.qemu.path = Path::new("/bin/false").to_owned();
    let Err(LabError::Guest(error)) = lab.boot_template(&missing, &headless, shape) else {
        panic!("/bin/false is no QEMU")
    };
    assert!(matches!(error.fault, Fault::QemuEnded(_)), "{error}");
}

/// A guest whose NIC is there from the start.
fn fresh_boot(sandbox: &Sandbox) {
    let mut lab = bring_up(sandbox);
    let (hypervisor, image) = (guests::hypervisor(), guests::image());
    let source =
        GuestSource::FreshBoot { hypervisor: &hypervisor, image: &image, shape: Shape::default() };
    for name in ["virtio", "e1000"] {
        let model: NicModel = name.parse().unwrap();
        let mut guest =
            lab.start_guest(sandbox, source, GuestSpec::under_test(&nic(model))).unwrap();
        let mac = guest.macs().next().unwrap().to_string();
        let facts = guest
            .answer_within("configure the NIC", BOUND, |mut channel| {
                guests::hello(&mut channel)?;
                guests::load(&mut channel, &[model])?;
                guests::configure(&mut channel, &mac)
            })
            .unwrap();
        assert_eq!(facts.driver.as_deref(), Some(model.row().driver));
    }
}
