//! Bottlenecks whose evidence is exact are told first, and nothing false of clean paths. All plants:
//! `make bottlenecks`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::path::Path;

use support::VIOPERF;
use support::tries::in_one_of_three;
use vioperf_plants::plants::named;

/// Plants it, makes three short trials, and holds what is told first against what is right.
#[track_caller]
fn is_told(plant: &str) {
    assert!(nix::unistd::geteuid().is_root(), "this test makes namespaces: run it as root");
    let plant = named(plant).unwrap_or_else(|| panic!("no plant is called {plant}"));
    let folder = tempfile::Builder::new().prefix("vioperf-test-").tempdir().unwrap();
    // Whoever else uses the machine is a bottleneck too, and rightly told of.
    in_one_of_three(|| {
        let place = tempfile::tempdir_in(folder.path()).unwrap();
        let told = plant.tried(Path::new(VIOPERF), place.path());
        let told = told.unwrap_or_else(|error| panic!("{}: {error:#}", plant.name));
        if plant.is_right(told.first()) {
            return Ok(());
        }
        let cells = serde_json::to_string_pretty(&told.report["cells"]).unwrap();
        Err(format!(
            "{} ({}): {:?} is right, told was {:?}: {cells}",
            plant.name, plant.about, plant.right, told.rules
        ))
    });
}

#[test]
fn a_token_bucket() {
    is_told("tbf-at-sender-tcp");
}

#[test]
fn a_receive_buffer_that_is_too_small() {
    is_told("small-receive-buffer");
}

#[test]
fn a_firewall_that_drops() {
    is_told("firewall-drops-at-random");
}

#[test]
fn rules_that_every_packet_is_held_against() {
    is_told("firewall-of-4000-rules-udp");
}

#[test]
fn lost_segments() {
    is_told("loss-1-percent-tcp");
}

#[test]
fn a_narrow_hop() {
    is_told("mtu-1280-in-the-middle");
}

#[test]
fn missing_offloads() {
    is_told("offload-of-segments-off");
}

#[test]
fn a_small_window() {
    is_told("window-by-option");
}

#[test]
fn nothing_false_of_what_asks_for_little() {
    is_told("clean-udp-rate");
    is_told("clean-open-loop");
}
