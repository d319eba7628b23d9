//! The rules of the house that a compiler does not hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml::Table;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Which of vioperf's own crates each crate may use: dependencies run one way.
#[test]
fn dependencies_run_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("model", [].as_slice()),
        ("netlink", &[]),
        ("node", &["model", "netlink"]),
        ("agent", &["node", "model"]),
        ("lab", &["model", "netlink"]),
        ("analysis", &["model"]),
        ("plants", &["netlink"]),
        ("vioperf", &["model", "node", "lab", "analysis"]),
    ]);
    let crates = fs::read_dir(root().join("crates")).unwrap();
    for folder in crates.map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest: Table =
            fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let allowed = allowed.get(name.as_str()).unwrap_or_else(|| {
            panic!("crates/{name} is new: say here and in docs/design.md what it may use")
        });
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for own in dependencies.keys().filter_map(|name| name.strip_prefix("vioperf-")) {
            assert!(allowed.contains(&own), "crates/{name} must not depend on crates/{own}");
        }
    }
}

/// The model and the analysis read no file, socket or clock.
#[test]
fn the_pure_crates_are_pure() {
    let impure = [
        "std::fs",
        "std::net::Tcp",
        "std::net::Udp",
        "std::process",
        "std::time::Instant",
        "SystemTime",
    ];
    for name in ["model", "analysis"] {
        for (path, text) in sources(&root().join("crates").join(name).join("src")) {
            for word in impure {
                assert!(!text.contains(word), "{path} uses {word}, but crates/{name} is pure");
            }
        }
    }
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else {
            found.push((entry.display().to_string(), fs::read_to_string(&entry).unwrap()));
        }
    }
    found
}

/// The guest's PID 1 sits in every snapshot.
#[test]
fn the_agent_is_small_and_static() {
    let agent = root().join("target/x86_64-unknown-linux-musl/agent/vioperf-agent");
    let bytes = fs::read(&agent).expect("`make agent` builds the agent");
    assert!(bytes.len() <= 3 << 20, "the agent has {} bytes, 3 MiB is the most", bytes.len());
    // An ELF with a program interpreter (PT_INTERP) needs a dynamic loader, and a guest has none.
    let interpreter =
        bytes.windows(12).any(|window| window == b"/lib64/ld-li" || window == b"/lib/ld-musl");
    assert!(!interpreter, "the agent is not static");
}
