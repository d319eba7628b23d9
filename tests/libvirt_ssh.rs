//! A libvirt on another machine, reached by ssh: what it has is listed, a guest is measured with all three machines in the
//! report, changed, and put back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use serde_json::Value;
use support::Finished;
use support::libvirt_client::Client;
use support::libvirtd::{GUEST, Hypervisor, MAC, NAME};

const SHORT: &[&str] = &["--duration=700ms", "--warmup=200ms", "--json"];

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// Three machines, each with its cores, and QEMU's threads on the one between.
fn has_three_parties(report: &Value) {
    let between = &report["cells"][0]["between"];
    for party in ["client", "server", "hypervisor"] {
        let busy = &between[party]["machine"]["busy_percent_of_core"]["summary"]["mean"];
        assert!(busy.as_f64().unwrap() > 0.0, "{party}: {report:#}");
    }
    let vcpus = &between["hypervisor"]["qemu"]["vcpu_percent_of_core"]["summary"]["mean"];
    assert!(vcpus.as_f64().unwrap() > 10.0, "{between:#}");
    assert_eq!(report["run"]["domain"]["unreadable"], Value::Null);
}

#[test]
fn a_guest_of_another_machine_is_listed_measured_changed_and_put_back() {
    let hypervisor = Hypervisor::start();
    let client = Client::start(&hypervisor);
    hypervisor.boot();
    let before = hypervisor.kept();
    let uri = client.uri();

    let listed =
        json(&client.vioperf(&["libvirt", "list", "--libvirt", &uri, "--json"]).succeeded());
    assert_eq!(
        (&listed[0]["name"], &listed[0]["interfaces"][0]["mac"]),
        (&NAME.into(), &MAC.into())
    );

    let domain = ["test", GUEST, "--domain", NAME, "--libvirt", &uri];
    let test = |further: &[&str]| client.vioperf(&[&domain, SHORT, further].concat());
    // The way to the hypervisor's cores is that of the URI, key included.
    has_three_parties(&json(&test(&[]).succeeded()));
    has_three_parties(&json(&test(&["--hypervisor=ssh://root@hypervisor"]).succeeded()));
    assert_eq!(hypervisor.kept(), before);

    let report =
        json(&test(&["--nic=virtio", "--source=bridge:br1", "--allow-change"]).succeeded());
    has_three_parties(&report);
    let ends = report["cells"][0]["ends"].as_array().unwrap();
    let guest = ends.iter().find(|end| end["place"] == "server").unwrap();
    assert_eq!(guest["interface"]["driver"], "virtio_net");
    assert_eq!(hypervisor.kept(), before);
    assert_eq!(
        (hypervisor.state().as_str(), hypervisor.running_model().as_str()),
        ("running", "e1000")
    );

    let stranger = uri.replace("keyfile=", "keyfile=/nowhere");
    let stranger = ["libvirt", "list", "--libvirt", &stranger];
    client
        .vioperf(&stranger)
        .failed_with(3, &["cannot connect to libvirt", "qemu+ssh://root@192.0.2.1"]);
}
