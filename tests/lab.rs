//! A lab that stands for a look by hand: what a person does with it, and that nothing is left of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::Finished;
use support::running::Run;
use support::world::World;

/// A name that no other lab here has: root's labs are all in one place.
fn name(word: &str) -> String {
    format!("test-{}-{word}", std::process::id())
}

/// Where root's labs are known by their names.
fn socket(name: &str) -> PathBuf {
    PathBuf::from("/run/vioperf").join(name)
}

/// Starts a lab, and waits until it stands.
fn up(world: &World, scenario: &str, name: &str, further: &[&str]) -> Run {
    let arguments = ["lab", "up", scenario, "--name", name];
    let mut lab = world.start(&[&arguments, further].concat());
    lab.until_some("a lab that stands", |_| described(world, name));
    lab
}

/// What the list says of a lab that stands.
fn described(world: &World, name: &str) -> Option<Value> {
    let listed = world.command(&["lab", "list", "--json"]).output().unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let found = listed.into_iter().find(|lab| lab["name"] == name)?;
    Some(found["lab"].clone()).filter(|lab| !lab.is_null())
}

fn address_of(lab: &Value, place: &str) -> String {
    let parts = lab["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["place"] == place).unwrap();
    part["addresses"][0].as_str().unwrap().to_owned()
}

fn shell(world: &World, name: &str, part: &str, command: &[&str]) -> Finished {
    let words = [&["lab", "shell", part, "--lab", name, "--"], command].concat();
    finished(world.command(&words))
}

fn down(world: &World, name: &str) -> Finished {
    finished(world.command(&["lab", "down", name]))
}

fn finished(mut command: Command) -> Finished {
    Finished::of(command.output().unwrap())
}

#[test]
fn a_person_looks_into_every_part_of_a_lab_and_ends_it() {
    let world = World::new();
    let name = name("parts");
    let further = ["--set=nic=virtio", "--set=mtu=1400"];
    let lab = up(&world, "nic-models", &name, &further);
    let told = described(&world, &name).unwrap();
    assert!(told["cell"].as_str().unwrap().starts_with("virtio/"), "{told}");
    let guest = address_of(&told, "guest");
    let ping = ["busybox", "ping", "-c", "1", "-W", "5", &guest];
    shell(&world, &name, "remote", &ping).succeeded();
    let links = shell(&world, &name, "host", &["ip", "-o", "link"]).succeeded().stdout;
    assert!(links.contains("tap0") && links.contains("mtu 1400"), "{links}");
    // What it says of the parts is what they have.
    let own = shell(&world, &name, "remote", &["ip", "-o", "addr"]).succeeded().stdout;
    assert!(own.contains(&address_of(&told, "peer")), "{own}");
    // The host's tools see the lab alone.
    let first = shell(&world, &name, "host", &["cat", "/proc/1/cmdline"]).succeeded().stdout;
    assert!(first.contains("vioperf") && first.contains("lab"), "{first}");
    assert_eq!(shell(&world, &name, "second", &["sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(shell(&world, &name, "second", &["sh", "-c", "kill -9 $$"]).code, Some(137));
    shell(&world, &name, "nowhere", &["true"])
        .failed_with(1, &["no shell leads into `nowhere`", "remote"]);
    down(&world, &name).succeeded();
    assert!(!socket(&name).exists());
    let ended = lab.ends().succeeded();
    assert!(ended.stdout.contains("vioperf lab shell remote"), "{ended:#?}");
    down(&world, &name).failed_with(1, &["no lab of the name"]);
}

#[test]
fn two_labs_stand_and_one_that_is_killed_leaves_nothing() {
    let world = World::with_baselines("");
    let names = [name("one"), name("two")];
    let mut killed = up(&world, "baselines.toml", &names[0], &[]);
    let again = world.vioperf(&["lab", "up", "baselines.toml", "--name", &names[0]]);
    again.failed_with(1, &["stands already", "vioperf lab down"]);
    let other = up(&world, "baselines.toml", &names[1], &[]);
    finished(world.command(&["lab", "shell", "remote"]))
        .failed_with(1, &["several labs stand", "--lab"]);
    // What a visitor runs ends with the lab.
    let words = ["lab", "shell", "remote", "--lab", &names[0], "--", "sleep", "100"];
    let mut visitor = world.command(&words).spawn().unwrap();
    killed.until_some("a visitor in the lab", |_| {
        let inside = shell(&world, &names[0], "host", &["ps", "ax"]).stdout;
        inside.contains("sleep 100").then_some(())
    });
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.ends().signal, Some(Signal::SIGKILL as i32));
    assert_eq!(visitor.wait().unwrap().code(), Some(137));
    assert!(described(&world, &names[0]).is_none() && !socket(&names[0]).exists());
    other.signal(Signal::SIGINT);
    let ended = other.ends().succeeded();
    assert!(ended.stderr.contains("has gone down"), "{ended:#?}");
    assert!(!socket(&names[1]).exists());
}

#[test]
fn a_lab_goes_down_by_itself() {
    let world = World::with_baselines("");
    let name = name("short");
    let arguments = ["lab", "up", "baselines.toml", "--for=1s", "--name", &name];
    let ended = world.vioperf(&arguments).succeeded();
    assert!(ended.stderr.contains("after 1 s, as --for says"), "{ended:#?}");
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_made() {
    let world = World::with_baselines("");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let base = ["lab", "up", "baselines.toml"];
        world.vioperf(&[&base, arguments].concat()).failed_with(code, words);
    };
    refused(&["--cell=virtio"], 2, &["no cell is called `virtio`", "baseline/"]);
    refused(&["--name=../x"], 1, &["is no name for a lab"]);
    refused(
        &["--set=server=ssh://nobody@nowhere"],
        2,
        &["ssh://nobody@nowhere", "no lab to stand"],
    );
}
