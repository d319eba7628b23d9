//! The built-in scenarios that do what articles did by hand.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use serde_json::Value;
use support::vioperf;
use support::world::World;

#[test]
fn each_has_a_plan_at_any_scale() {
    let listed = vioperf(&["scenarios", "--json"]).succeeded().stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> = listed.iter().filter_map(|scenario| scenario["name"].as_str()).collect();
    let articles: Vec<&&str> = names.iter().filter(|name| name.starts_with("article/")).collect();
    assert!(!articles.is_empty());
    for name in articles {
        for scale in ["1", "1/60", "0.001"] {
            let plan = vioperf(&["plan", name, "--scale", scale]).succeeded().stdout;
            assert!(plan.contains(" parts: about "), "{name}: {plan}");
        }
    }
}

#[test]
fn the_one_about_nic_models_runs_from_end_to_end() {
    let world = World::new();
    let run = ["run", "article/kvm-nic-models", "--scale=0.02", "--blocks=1", "--out=run"];
    let ran = world.vioperf(&run).succeeded();
    assert!(ran.stderr.contains("part libvirt is left out"), "{}", ran.stderr);
    let report = world.vioperf(&["report", "run/lab", "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let drivers: Vec<&str> = report["cells"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|cell| cell["ends"].as_array().unwrap())
        .filter(|end| end["place"] == "guest")
        .filter_map(|end| end["interface"]["driver"].as_str())
        .collect();
    for driver in ["pcnet32", "8139cp", "virtio_net"] {
        assert!(drivers.contains(&driver), "no {driver} in {drivers:?}");
    }
    let page = fs::read_to_string(world.path("here/run/report.html")).unwrap();
    assert!(page.contains("lab/report.html"));
}

#[test]
fn the_one_about_vmxnet3_tells_peak_from_sustained_and_both_sides_of_the_switch() {
    let world = World::new();
    let head = ["run", "article/vmxnet3-guests/tcp", "--scale=1/60", "--blocks=1", "--out=run"];
    let one = ["--set=mtu=1500", "--set=streams=2", "--set=direction=to-guest"];
    let ran = world.vioperf(&[&head[..], &one[..]].concat()).succeeded();
    let flat = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["sustained", "peak", "dips", "out of the switch", "intervals of 0."] {
        assert!(flat.contains(said), "{said}: {}", ran.stdout);
    }
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let mean = |metric: &Value| metric["summary"]["mean"].as_f64();
        let rate = |name: &str| mean(&cell["rate_over_time"][name]).unwrap();
        let (peak, sustained) = (rate("peak_bits_per_second"), rate("sustained_bits_per_second"));
        let all = mean(&cell["receiver_bits_per_second"]).unwrap();
        assert!(sustained <= all * 1.1 && all <= peak * 1.1, "{sustained} {all} {peak}");
        assert!(rate("interval_seconds") < 0.2);
        let hops = cell["hops"][0]["hops"].as_array().unwrap();
        for place in ["switch-in", "switch-out"] {
            let hop = hops.iter().find(|hop| hop["place"] == place).unwrap();
            assert!(mean(&hop["packets_per_second"]).unwrap() > 0.0, "{place}");
            assert!(mean(&hop["bytes_per_packet"]).unwrap() > 60.0, "{place}");
        }
    }
    // What the article's receiver got for every packet that its sender passed on.
    let beside = report["references"][0]["figures"].as_array().unwrap();
    let packets = beside.iter().find(|one| one["figure"] == "vmxnet3-chr-2017-004").unwrap();
    assert_eq!(packets["divided_by"], "its sender_packets_per_second");
    assert!(packets["own_percent"]["mean"].as_f64().unwrap() > 1.0, "{packets}");
}
