//! A virtual machine that a real libvirtd looks after: listed, measured as it is, measured with another NIC, and
//! put back, also after vioperf was killed in the middle.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::Finished;
use support::libvirtd::{GUEST, Hypervisor, MAC, NAME, UUID};

const SHORT: &[&str] = &["--duration=700ms", "--warmup=200ms", "--json"];

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

fn test(hypervisor: &Hypervisor, further: &[&str]) -> Finished {
    let domain = ["test", GUEST, "--libvirt=qemu:///system", "--domain", NAME];
    hypervisor.vioperf(&[&domain, SHORT, further].concat())
}

fn journals(hypervisor: &Hypervisor) -> usize {
    fs::read_dir(hypervisor.path("state/vioperf/libvirt")).map_or(0, Iterator::count)
}

#[test]
fn a_running_domain_is_listed_and_measured_as_it_is() {
    let hypervisor = Hypervisor::start();
    hypervisor.boot();
    let before = hypervisor.kept();
    let listed = json(&hypervisor.vioperf(&["libvirt", "list", "--json"]).succeeded());
    let domain = &listed[0];
    assert_eq!((&domain["name"], &domain["state"]), (&NAME.into(), &"running".into()));
    assert_eq!((&domain["vcpus"], &domain["memory_mib"]), (&1.into(), &256.into()));
    let interface = &domain["interfaces"][0];
    assert_eq!((&interface["model"], &interface["mac"]), (&"e1000".into(), &MAC.into()));
    assert_eq!((&interface["source"], &interface["target"]), (&"br0".into(), &"vnet0".into()));

    let out = hypervisor.path("run");
    let out = ["--out", out.to_str().unwrap()];
    let report = json(&test(&hypervisor, &out).succeeded());
    let cell = &report["cells"][0];
    assert!(cell["receiver_bits_per_second"]["summary"]["mean"].as_f64().unwrap() > 1e6);
    // Three parties, each with its cores; the guest's one virtual CPU is a thread of QEMU's.
    let between = &cell["between"];
    for party in ["client", "server", "hypervisor"] {
        let busy = &between[party]["machine"]["busy_percent_of_core"]["summary"]["mean"];
        assert!(busy.as_f64().unwrap() > 0.0, "{party}: {between:#}");
    }
    let qemu = &between["hypervisor"]["qemu"];
    let mean = |task: &str| qemu[task]["summary"]["mean"].as_f64().unwrap();
    assert!(mean("vcpu_percent_of_core") > 10.0, "{qemu:#}");
    assert!(mean("vcpu_percent_of_core") < 110.0, "one virtual CPU: {qemu:#}");
    let measured = &report["run"]["domain"];
    assert_eq!((&measured["interface"], &measured["uri"]), (&MAC.into(), &"qemu:///system".into()));
    assert_eq!(measured["unreadable"], Value::Null);
    // The tap that libvirt made saw what the guest received.
    let records = fs::read_to_string(hypervisor.path("run/trials.jsonl")).unwrap();
    let record: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    let parties = record["parties"].as_array().unwrap();
    let host = parties.iter().find(|party| party["place"] == "host").unwrap();
    let samples = host["report"]["samples"].as_array().unwrap();
    let sent = |sample: &Value| sample["interfaces"]["vnet0"]["tx_bytes"].as_u64().unwrap();
    let through_tap = sent(samples.last().unwrap()) - sent(&samples[0]);
    let guest = parties.iter().find(|party| party["place"] == "server").unwrap();
    let payload = guest["report"]["load"]["streams"][0]["bytes"].as_u64().unwrap();
    assert!(through_tap > payload / 2, "{through_tap} of {payload} bytes");

    // By its UUID it is the same one, and called by its name.
    let by_uuid = ["test", GUEST, "--libvirt=qemu:///system", "--domain", UUID];
    let report = json(&hypervisor.vioperf(&[&by_uuid, SHORT].concat()).succeeded());
    let domain = &report["run"]["domain"]["domain"];
    assert_eq!((&domain["name"], &domain["uuid"]), (&NAME.into(), &UUID.into()));

    assert_eq!(hypervisor.kept(), before);
    assert_eq!(journals(&hypervisor), 0);
    what_is_wrong_is_said_at_once(&hypervisor);
    a_function_of_a_card_is_told_and_not_changed(&hypervisor);
}

fn what_is_wrong_is_said_at_once(hypervisor: &Hypervisor) {
    let test = |further: &[&str]| hypervisor.vioperf(&[&["test", GUEST], further].concat());
    test(&["--domain=wep"]).failed_with(3, &["no domain `wep`", "did you mean `web`"]);
    let nowhere = ["--domain=web", "--libvirt=qemu+unix:///system?socket=/nowhere"];
    test(&nowhere).failed_with(3, &["cannot connect to libvirt", "group libvirt"]);
    let not_allowed = ["--domain=web", "--nic=virtio", "--interface=52:54:00:00:00:00"];
    test(&not_allowed).failed_with(3, &["--allow-change", "no interface 52:54:00:00:00:00", MAC]);
    test(&["--domain=6f1c7a52-0000-4222-8333-444455556666"])
        .failed_with(3, &["no domain `6f1c7a52"]);
    let nothing =
        ["--domain=web", "--source=bridge:nowhere,network:none,bridge:b0", "--allow-change"];
    let said = ["no interface nowhere", "network:none", "virsh net-list", "b0 is no bridge"];
    test(&nothing).failed_with(3, &said);
    let elsewhere = ["--domain=web", "--libvirt=qemu:///system", "--nic=virtio", "--allow-change"];
    let save = hypervisor.path("state/vioperf");
    fs::create_dir_all(save.parent().unwrap()).unwrap();
    fs::write(&save, "in the way").unwrap();
    test(&elsewhere).failed_with(3, &["journal"]);
    fs::remove_file(save).unwrap();
    assert_eq!(hypervisor.running_model(), "e1000");
}

fn a_function_of_a_card_is_told_and_not_changed(hypervisor: &Hypervisor) {
    hypervisor.define(
        "<domain type='qemu'><name>card</name><memory unit='MiB'>64</memory><os><type>hvm</type></os><devices>\
         <interface type='hostdev' managed='yes'><mac address='52:54:00:11:22:77'/><source><address type='pci' \
         domain='0' bus='1' slot='0x10' function='2'/></source></interface></devices></domain>",
    );
    let listed = hypervisor.vioperf(&["libvirt", "list"]).succeeded().stdout;
    let line = listed.lines().find(|line| line.trim_start().starts_with("card ")).unwrap();
    assert!(line.contains("passed through") && line.contains("hostdev 0000:01:10.2"), "{listed}");
    for change in ["--nic=virtio", "--source=bridge:br1"] {
        let change = ["test", GUEST, "--domain=card", "--allow-change", change];
        let said = ["52:54:00:11:22:77 is of type hostdev", "measured as it is"];
        hypervisor.vioperf(&change).failed_with(3, &said);
    }
}

#[test]
fn of_several_interfaces_the_one_with_the_address_is_meant() {
    const OTHER: &str = "52:54:00:11:22:44";
    let hypervisor = Hypervisor::start();
    let second = format!(
        "<interface type='bridge'><mac address='{OTHER}'/><source bridge='br0'/><model type='e1000'/></interface><channel"
    );
    hypervisor.redefine(|xml| xml.replace("<channel", &second));
    let before = hypervisor.kept();
    // Of one that does not run nobody knows the addresses.
    let change = ["--source=bridge:br1", "--allow-change"];
    test(&hypervisor, &change).failed_with(3, &["2 interfaces", "--interface", MAC, OTHER]);
    hypervisor.boot();
    let report = json(&test(&hypervisor, &[]).succeeded());
    let measured = report["run"]["domain"]["interface"].as_str().unwrap().to_owned();
    let idle = if measured == MAC { OTHER } else { MAC };
    let ends = report["cells"][0]["ends"].as_array().unwrap();
    let guest = ends.iter().find(|end| end["place"] == "server").unwrap();
    assert_eq!(guest["interface"]["mac"], measured.as_str());
    // By the host's name for it, which is no MAC address; the wrong one is told.
    let taps = hypervisor.virsh(&["domiflist", NAME]);
    let tap = taps.lines().find(|line| line.contains(idle)).unwrap().split_whitespace().next();
    let wrong = test(&hypervisor, &["--interface", tap.unwrap()]).succeeded();
    assert!(wrong.stderr.contains(&format!("is on {measured}, and not on {idle}")), "{wrong:#?}");

    let out = hypervisor.path("run");
    let report = json(
        &test(&hypervisor, &[&change[..], &["--out", out.to_str().unwrap()]].concat()).succeeded(),
    );
    assert_eq!(report["run"]["domain"]["interface"], measured.as_str());
    let records = fs::read_to_string(out.join("trials.jsonl")).unwrap();
    assert!(records.contains("bridge br1"), "{records}");
    assert_eq!(hypervisor.kept(), before);
    assert_eq!(hypervisor.state(), "running");
}

#[test]
fn a_guest_that_goes_on_is_left_alone_unless_its_plug_may_be_pulled() {
    let hypervisor = Hypervisor::start();
    hypervisor.redefine(|xml| xml.replace("quiet", "quiet stubborn"));
    hypervisor.boot();
    let before = hypervisor.kept();
    let as_it_was = || {
        assert_eq!(hypervisor.kept(), before);
        assert_eq!(hypervisor.state(), "running");
        assert_eq!((hypervisor.running_model().as_str(), journals(&hypervisor)), ("e1000", 0));
    };
    let change = ["--nic=virtio", "--allow-change", "--shut-down-within=2s"];
    let said = ["did not shut down within 2 s", "--allow-destroy", "--shut-down-within"];
    test(&hypervisor, &change).failed_with(1, &said);
    as_it_was();
    let report =
        json(&test(&hypervisor, &[&change[..], &["--allow-destroy"]].concat()).succeeded());
    assert_eq!(report["cells"][0]["trials"]["completed"], 1, "{report:#}");
    as_it_was();
}

#[test]
fn nics_are_measured_in_turn_and_the_domain_is_put_back_to_the_byte() {
    let hypervisor = Hypervisor::start();
    let before = hypervisor.kept();
    assert_eq!(hypervisor.state(), "shut off");
    let out = hypervisor.path("run");
    // As the page on articles says it; only shorter, and once.
    let (server, name) = (format!("testbed.server={GUEST}"), format!("libvirt.domain={NAME}"));
    let arguments = [
        &["run", "article/kvm-nic-models/libvirt", "--allow-change", "--set", &server, "--set"],
        &[name.as_str(), "--scale=0.07", "--blocks=1", "--json", "--out", out.to_str().unwrap()][..],
    ];
    let report = json(&hypervisor.vioperf(&arguments.concat()).succeeded());
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    for (cell, driver) in cells.iter().zip(["pcnet32", "8139cp", "virtio_net"]) {
        assert_eq!(cell["trials"]["completed"], 1, "{report:#}");
        let ends = cell["ends"].as_array().unwrap();
        let guest = ends.iter().find(|end| end["place"] == "server").unwrap();
        assert_eq!(guest["interface"]["driver"], driver);
        assert_eq!(guest["interface"]["mac"], MAC);
    }
    assert_eq!(hypervisor.kept(), before);
    assert_eq!(hypervisor.state(), "shut off", "as before");
    assert_eq!(journals(&hypervisor), 0);
    let resumed = hypervisor.vioperf(&["run", "--resume", out.to_str().unwrap()]);
    resumed.failed_with(2, &["cannot be resumed", "vioperf report", "begins a new one"]);
}

#[test]
fn options_of_the_driver_are_in_the_guest() {
    let hypervisor = Hypervisor::start();
    // Linux takes no more queues than it has cores.
    hypervisor.redefine(|xml| xml.replace("<vcpu>1", "<vcpu>2"));
    let before = hypervisor.kept();
    let scenario = format!(
        "name = \"options\"\nquestion = \"What do options give?\"\n[testbed]\nserver = \"{GUEST}\"\n\
         libvirt = {{ domain = \"{NAME}\" }}\n[guest.device_options]\nqueues = 2\npacked = true\nvhost = false\n\
         rx_queue_size = 512\n[workload]\nkind = \"tcp-stream\"\nduration = \"700ms\"\nwarmup = \"200ms\"\n\
         [factors]\nnic = \"virtio\"\ndevice_options.host_tso4 = [true, false]\n[repeat]\nblocks = 1\n"
    );
    let file = hypervisor.path("options.toml");
    fs::write(&file, scenario).unwrap();
    let out = hypervisor.path("run");
    let arguments = ["run", file.to_str().unwrap(), "--allow-change", "--json", "--out"];
    let arguments = [&arguments[..], &[out.to_str().unwrap()]].concat();
    let report = json(&hypervisor.vioperf(&arguments).succeeded());
    for (cell, segments) in report["cells"].as_array().unwrap().iter().zip([true, false]) {
        let ends = cell["ends"].as_array().unwrap();
        let guest = ends.iter().find(|end| end["place"] == "server").unwrap();
        let interface = &guest["interface"];
        assert_eq!(interface["offloads"]["tx-tcp-segmentation"], segments, "{interface:#}");
        assert_eq!(interface["queues"]["rx"], 2, "{interface:#}");
        assert_eq!(interface["rings"]["rx"], 512, "{interface:#}");
    }
    let records = fs::read_to_string(out.join("trials.jsonl")).unwrap();
    assert_eq!(records.matches("virtio by qemu, vnet").count(), 2, "{records}");
    assert_eq!(hypervisor.kept(), before);
}

#[test]
fn what_a_killed_run_left_is_put_back() {
    let hypervisor = Hypervisor::start();
    hypervisor.boot();
    let before = hypervisor.kept();
    let changing = ["test", GUEST, "--domain", NAME, "--nic=virtio", "--allow-change", "-t", "60s"];
    let mut run = hypervisor.start_vioperf(&changing);
    run.until("received");
    assert_eq!(hypervisor.running_model(), "virtio");
    hypervisor.kill_vioperf();
    drop(run);
    assert_ne!(hypervisor.kept(), before, "it was killed in the middle");
    assert_eq!(journals(&hypervisor), 1);
    // Nobody measures what its owner did not make, and nobody changes it again.
    test(&hypervisor, &[]).failed_with(3, &["vioperf libvirt restore"]);
    let restored = hypervisor.vioperf(&["libvirt", "restore"]).succeeded();
    assert!(restored.stdout.contains("web is as it was"), "{restored:#?}");
    assert_eq!(hypervisor.kept(), before);
    let deadline = Instant::now() + Duration::from_secs(10);
    while hypervisor.state() != "running" {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(hypervisor.running_model(), "e1000");
    assert_eq!(journals(&hypervisor), 0);
    let again = hypervisor.vioperf(&["libvirt", "restore"]).succeeded();
    assert!(again.stdout.contains("nothing to put back"), "{again:#?}");
}

#[test]
fn an_interface_is_connected_elsewhere_in_turn_and_put_back_to_the_byte() {
    let hypervisor = Hypervisor::start();
    let before = hypervisor.kept();
    let sources = "default,bridge:br1,network:wire,direct:port:bridge";
    let out = hypervisor.path("run");
    let arguments = ["--allow-change", "--source", sources, "--out", out.to_str().unwrap()];
    let report = json(&test(&hypervisor, &arguments).succeeded());
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "{report:#}");
    for cell in cells {
        assert_eq!(cell["trials"]["completed"], 1, "{cell:#}");
        let ends = cell["ends"].as_array().unwrap();
        let guest = ends.iter().find(|end| end["place"] == "server").unwrap();
        assert_eq!(
            (&guest["interface"]["mac"], &guest["interface"]["driver"]),
            (&MAC.into(), &"e1000".into())
        );
    }
    // Each trial tells what its guest really was on.
    let records = fs::read_to_string(out.join("trials.jsonl")).unwrap();
    let path = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let path = record["guest"]["path"].as_str().unwrap().to_owned();
        path.rsplit(", ").next().unwrap().to_owned()
    };
    let mut paths: Vec<String> = records.lines().map(path).collect();
    paths.sort();
    assert_eq!(paths, ["bridge br0", "bridge br1", "direct port (bridge)", "network wire"]);
    assert_eq!(hypervisor.kept(), before);
    assert_eq!(hypervisor.state(), "shut off", "as before");
    assert_eq!(journals(&hypervisor), 0);
}

#[test]
fn what_a_killed_run_connected_elsewhere_is_put_back() {
    let hypervisor = Hypervisor::start();
    hypervisor.boot();
    let before = hypervisor.kept();
    let elsewhere =
        ["test", GUEST, "--domain", NAME, "--source=bridge:br1", "--allow-change", "-t", "60s"];
    let mut run = hypervisor.start_vioperf(&elsewhere);
    run.until("received");
    assert_eq!(hypervisor.running_source(), "br1");
    hypervisor.kill_vioperf();
    drop(run);
    assert_ne!(hypervisor.kept(), before, "it was killed in the middle");
    hypervisor.vioperf(&["libvirt", "restore"]).succeeded();
    assert_eq!(hypervisor.kept(), before);
    assert_eq!(
        (hypervisor.state().as_str(), hypervisor.running_source().as_str()),
        ("running", "br0")
    );
    assert_eq!(journals(&hypervisor), 0);
}
