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
