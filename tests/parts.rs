//! Scenarios in parts: each is a run of its own, and the whole is told, reported and resumed as one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::world::World;

/// Two parts that want no guest, and between them one that no machine has.
const SCENARIO: &str = r#"
name = "some/parts"
question = "What is in the parts?"
[workload]
kind = "tcp-stream"
duration = "30 s"
warmup = "10 s"
message_size = "64 KiB"
[factors]
streams = [1, 2]
[repeat]
blocks = 2
seed = 5
[[parts]]
name = "streams"
[[parts]]
name = "card"
question = "What of a card that is not there?"
testbed = { switch = "sriov", interface = "no-such-card" }
[[parts]]
name = "requests"
question = "How many requests?"
workload = { kind = "request-response" }
factors = { transport = ["tcp", "udp"] }
repeat = { blocks = 1 }
"#;

fn world() -> World {
    let world = World::new();
    fs::write(world.path("here/parts.toml"), SCENARIO).unwrap();
    world
}

fn json(world: &World, arguments: &[&str]) -> Value {
    serde_json::from_str(&world.vioperf(arguments).succeeded().stdout).unwrap()
}

#[test]
fn what_cannot_be_had_is_left_out_and_the_rest_is_one_report() {
    let world = world();
    let plan = world.vioperf(&["plan", "parts.toml", "--scale=0.01"]).succeeded().stdout;
    for words in ["3 parts", "some/parts/requests", "300 ms + 100 ms warm-up", "times 0.01"] {
        assert!(plan.contains(words), "no `{words}` in {plan}");
    }
    let run = ["run", "parts.toml", "--scale=1/100", "--out=run"];
    let ran = world.vioperf(&run).succeeded();
    assert!(ran.stderr.contains("part card is left out"), "{}", ran.stderr);
    for words in
        ["Left out: ", "== part streams", "== part requests", "the scenario's own times 0.01"]
    {
        assert!(ran.stdout.contains(words), "no `{words}` in {}", ran.stdout);
    }
    assert_eq!(world.vioperf(&["report", "run"]).succeeded().stdout, ran.stdout);
    world.vioperf(&run).failed_with(2, &["already holds a run"]);

    let report = json(&world, &["report", "run", "--format=json"]);
    let parts = report["parts"].as_array().unwrap();
    let cells = |part: usize| parts[part]["report"]["cells"].as_array().map_or(0, Vec::len);
    assert_eq!([cells(0), cells(1), cells(2)], [2, 0, 2]);
    assert!(parts[1]["left_out"].as_str().unwrap().contains("no-such-card"), "{}", parts[1]);
    let of_part = json(&world, &["report", "run/requests", "--format=json"]);
    assert_eq!(of_part, parts[2]["report"]);
    assert_eq!(of_part["run"]["scenario"]["workload"]["message_size"], Value::Null);

    let page = fs::read_to_string(world.path("here/run/report.html")).unwrap();
    assert!(page.contains("href=\"streams/report.html\"") && !page.contains("card/report.html"));
    assert!(world.path("here/run/streams/report.html").exists());
    let csv = world.vioperf(&["report", "run", "--format=csv"]).succeeded().stdout;
    assert!(csv.starts_with("part,cell,"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("streams,")).count(), 2);
    let trials = world.vioperf(&["export", "run", "--format=csv"]).succeeded().stdout;
    assert_eq!(trials.lines().count(), 1 + 2 * 2 + 2);
    world.vioperf(&["explain", "run"]).failed_with(1, &["run in parts", "run/streams"]);
    assert!(
        world
            .vioperf(&["report", "run", "--format=markdown"])
            .succeeded()
            .stdout
            .contains("# Part requests")
    );
}

#[test]
fn a_part_alone_and_nothing_that_can_be_had() {
    let world = world();
    let ran =
        world.vioperf(&["run", "parts.toml/requests", "--scale=0.01", "--out=one"]).succeeded();
    assert!(ran.stdout.contains("How many requests?"), "{}", ran.stdout);
    world.vioperf(&["run", "parts.toml/card"]).failed_with(3, &["no-such-card"]);
    world.vioperf(&["run", "parts.toml/crad"]).failed_with(2, &["did you mean `card`?"]);
    world
        .vioperf(&[
            "run",
            "parts.toml",
            "--set=switch=sriov",
            "--set=testbed.interface=no-such-card",
            "--out=none",
        ])
        .failed_with(3, &["no-such-card"]);
    assert!(!world.path("here/none").exists());
    world.vioperf(&["lab", "up", "parts.toml"]).failed_with(2, &["name one of them"]);
}

#[test]
fn an_interrupt_ends_all_and_what_is_left_goes_on() {
    let world = world();
    let mut run = world.start(&["run", "parts.toml", "--scale=1/60", "--out=cut"]);
    run.until("[  1/4]");
    run.signal(Signal::SIGINT);
    let cut = run.ends();
    assert_eq!(cut.code, Some(130), "{cut:#?}");
    assert!(cut.stderr.contains("vioperf run --resume cut"), "{}", cut.stderr);
    assert!(cut.stdout.contains("Not measured yet."), "{}", cut.stdout);
    assert!(!world.path("here/cut/requests").exists());

    world.vioperf(&["run", "--resume=cut", "--scale=1"]).failed_with(2, &["leave out --scale"]);
    let whole = world.vioperf(&["run", "--resume=cut"]).succeeded();
    assert!(!whole.stdout.contains("Not measured yet."), "{}", whole.stdout);
    let report = json(&world, &["report", "cut", "--format=json"]);
    let completed = report["parts"][0]["report"]["cells"].as_array().unwrap().iter();
    let completed = completed.map(|cell| cell["trials"]["completed"].as_u64().unwrap());
    assert_eq!(completed.sum::<u64>(), 4);
}

#[test]
fn when_the_first_process_is_killed_nothing_goes_on() {
    let world = world();
    let mut run = world.start(&["run", "parts.toml", "--scale=1/60", "--out=killed"]);
    run.until("[  1/4]");
    run.signal(Signal::SIGKILL);
    assert_eq!(run.ends().signal, Some(Signal::SIGKILL as i32));
    assert!(!world.path("here/killed/requests").exists());
}
