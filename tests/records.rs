//! What a run stores and reports: the same each time it is read, valid, plausible, and readable
//! where it is damaged.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use serde_json::Value;
use support::schema::violations;
use support::world::{SHORT, World};
use support::{Finished, vioperf};
use vioperf_analysis::wording::{rate, three_digits};

/// Two models, both directions: six cells, the baselines first.
const CELLS: usize = 6;

/// A run that the tests share; its directory is gone, its files are in memory.
struct Shared {
    finished: Finished,
    files: BTreeMap<String, Vec<u8>>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let world = World::new();
        let finished = world
            .vioperf(&short(&[
                "--set=nic=virtio,e1000",
                "--set=direction=to-guest,from-guest",
                "--set=duration=800ms",
                "--out=run",
            ]))
            .succeeded();
        Shared { finished, files: files_of(&world) }
    })
}

fn short(more: &[&str]) -> Vec<String> {
    SHORT.iter().chain(more).map(ToString::to_string).collect()
}

fn files_of(world: &World) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(world.path("here/run")).unwrap().flatten();
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// The shared run as if it had just been stored.
fn stored() -> World {
    let world = World::new();
    fs::create_dir(world.path("here/run")).unwrap();
    for (name, content) in &shared().files {
        fs::write(world.path("here/run").join(name), content).unwrap();
    }
    world
}

fn report(world: &World, options: &[&str]) -> Finished {
    let arguments: Vec<&str> =
        ["report", "run"].into_iter().chain(options.iter().copied()).collect();
    world.vioperf(&arguments).succeeded()
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

fn records() -> Vec<Value> {
    shared().files["trials.jsonl"].split_inclusive(|&byte| byte == b'\n').map(json).collect()
}

fn party<'a>(record: &'a Value, role: &str) -> &'a Value {
    let mut parties = record["parties"].as_array().unwrap().iter();
    parties.find(|party| party["role"]["role"] == role).unwrap()
}

#[test]
fn a_report_is_what_the_run_printed_byte_for_byte() {
    let world = stored();
    let first = report(&world, &[]);
    assert_eq!(first.stdout, shared().finished.stdout);
    assert_eq!((report(&world, &[]).stdout, first.stderr), (first.stdout, String::new()));
    let page = report(&world, &["--format=html"]).stdout;
    assert_eq!(page.as_bytes(), shared().files["report.html"]);
    report(&world, &["--format=html", "--output=page.html"]);
    assert_eq!(fs::read_to_string(world.path("here/page.html")).unwrap(), page);
    assert_eq!(files_of(&world), shared().files, "a report changes nothing");
}

#[test]
fn a_record_that_is_cut_off_is_named_and_the_rest_is_reported() {
    let world = stored();
    let whole = &shared().files["trials.jsonl"];
    let last =
        whole.len() - whole.split_inclusive(|&byte| byte == b'\n').next_back().unwrap().len();
    let file = world.path("here/run/trials.jsonl");
    for length in [last + 1, last + 5000, whole.len() - 2] {
        fs::write(&file, &whole[..length]).unwrap();
        let cut = report(&world, &[]);
        assert!(cut.stderr.contains("trials.jsonl:6: record cut off, left out"), "{}", cut.stderr);
        let cells = json(report(&world, &["--format=json"]).stdout.as_bytes());
        let completed = |cell: &Value| cell["trials"]["completed"].as_u64().unwrap();
        let completed: u64 = cells["cells"].as_array().unwrap().iter().map(completed).sum();
        assert_eq!(completed, CELLS as u64 - 1);
    }
    // Only the end of the line is missing: the record is whole.
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(report(&world, &[]).stdout, shared().finished.stdout);
}

#[test]
fn garbage_between_records_is_named_and_the_rest_is_reported() {
    let world = stored();
    let lines: Vec<&[u8]> =
        shared().files["trials.jsonl"].split_inclusive(|&byte| byte == b'\n').collect();
    for garbage in [b"garbage\n".as_slice(), b"\0\xff\xfe{}\n", b"\n", b"{\"schema_version\":1}\n"]
    {
        let damaged = [&lines[..2].concat(), garbage, &lines[2..].concat()].concat();
        fs::write(world.path("here/run/trials.jsonl"), damaged).unwrap();
        let read = report(&world, &[]);
        assert!(read.stderr.contains("trials.jsonl:3: record damaged, left out"), "{read:#?}");
        assert_eq!(read.stdout, shared().finished.stdout);
    }
}

#[test]
fn what_is_stored_and_reported_obeys_the_schemas() {
    let schema = |of: &str| json(vioperf(&["schema", of]).succeeded().stdout.as_bytes());
    let none: Vec<String> = Vec::new();
    assert_eq!(violations(&schema("run"), &json(&shared().files["run.json"])), none);
    let trial = schema("trial");
    for record in records() {
        assert_eq!(violations(&trial, &record), none);
    }
    let analysis = json(report(&stored(), &["--format=json"]).stdout.as_bytes());
    assert_eq!(violations(&schema("report"), &analysis), none);
    // And the check can tell.
    let mut wrong = records().remove(0);
    wrong["block"] = "first".into();
    wrong["outcome"]["result"] = "perhaps".into();
    wrong["parties"][0]["clock"] = json(b"{\"offset_ns\": 0}");
    assert_eq!(violations(&trial, &wrong).len(), 3, "{:?}", violations(&trial, &wrong));
}

#[test]
fn payload_agrees_with_the_interfaces_counters() {
    for record in records() {
        let cell = &record["cell"];
        let receiver = party(&record, "receiver");
        let samples = receiver["report"]["samples"].as_array().unwrap();
        let name = receiver["interface"]["name"].as_str().unwrap();
        let read = |sample: &Value| {
            let interface = sample["interfaces"][name]["rx_bytes"].as_u64().unwrap();
            (sample["load"]["bytes"].as_u64().unwrap(), interface)
        };
        let ((payload_from, wire_from), (payload_to, wire_to)) =
            (read(&samples[0]), read(samples.last().unwrap()));
        let (payload, wire) = (payload_to - payload_from, wire_to - wire_from);
        assert!(payload > 1_000_000, "{cell}: {payload} bytes");
        assert!(payload <= wire, "{cell}: {payload} bytes of payload in {wire} on the wire");
        assert!(wire * 5 <= payload * 6, "{cell}: {payload} bytes of payload in {wire}");
        let streams = receiver["report"]["load"]["streams"].as_array().unwrap();
        let all: u64 = streams.iter().map(|stream| stream["bytes"].as_u64().unwrap()).sum();
        assert!(all >= payload_to, "{cell}: {all} bytes in all, {payload_to} in the last sample");
        let sent = party(&record, "sender")["report"]["load"]["streams"][0]["bytes"].as_u64();
        assert!(sent.unwrap() >= all, "{cell}: {sent:?} bytes sent, {all} received");
    }
}

#[test]
fn the_guests_facts_are_those_that_were_asked_for() {
    for record in records() {
        let parties = record["parties"].as_array().unwrap();
        let guest = parties.iter().find(|party| party["place"] == "guest");
        let driver = match record["cell"].as_str().unwrap().split('/').next().unwrap() {
            "baseline" => {
                assert!(guest.is_none() && record["guest"].is_null());
                continue;
            }
            "virtio" => "virtio_net",
            model => model,
        };
        let facts = &guest.unwrap()["interface"];
        assert_eq!(facts["driver"], driver);
        assert_eq!((&facts["mtu"], &facts["carrier"]), (&1500.into(), &true.into()));
        assert!(facts["driver_version"].is_string(), "{facts}");
        assert!(facts["queues"]["rx"].as_u64() >= Some(1), "{facts}");
        assert!(facts["queues"]["tx"].as_u64() >= Some(1), "{facts}");
        assert!(facts["offloads"].as_object().unwrap().len() > 20, "{facts}");
        assert!(facts["offloads"]["rx-gro"].is_boolean(), "{facts}");
        assert!(facts["mac"].as_str().unwrap().starts_with("52:54:"), "{facts}");
    }
}

#[test]
fn load_goes_in_both_directions() {
    for record in records() {
        let cell = record["cell"].as_str().unwrap();
        let near = if cell.starts_with("baseline/") { "second" } else { "guest" };
        let (sender, receiver) = match cell.ends_with("/to-guest") {
            true => ("peer", near),
            false => (near, "peer"),
        };
        assert_eq!(party(&record, "sender")["place"], sender, "{cell}");
        assert_eq!(party(&record, "receiver")["place"], receiver, "{cell}");
        assert_eq!(party(&record, "observer")["place"], "host", "{cell}");
    }
}

#[test]
fn csv_has_a_row_a_cell() {
    let table = report(&stored(), &["--format=csv"]).stdout;
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(heading[0], "cell");
    let column = heading.iter().position(|name| *name == "receiver_bits_per_second_mean").unwrap();
    let mut cells = BTreeSet::new();
    for line in lines {
        // Nothing of this run needs quotes.
        let row: Vec<&str> = line.split(',').collect();
        assert_eq!(row.len(), heading.len(), "{line}");
        assert!(row[column].parse::<f64>().unwrap() > 0.0, "{line}");
        cells.insert(row[0].to_owned());
    }
    let wanted: BTreeSet<String> =
        records().iter().map(|record| record["cell"].as_str().unwrap().to_owned()).collect();
    assert_eq!(cells, wanted);
    assert_eq!(cells.len(), CELLS);
}

#[test]
fn the_page_has_every_number_that_json_has() {
    let world = stored();
    let analysis = json(report(&world, &["--format=json"]).stdout.as_bytes());
    let page = report(&world, &["--format=html"]).stdout;
    let mut looked_at = 0;
    let mut is_on_page = |cell: &Value, metric: &Value, written: fn(f64) -> String| {
        if let Some(mean) = metric["summary"]["mean"].as_f64() {
            let text = written(mean);
            assert!(page.contains(&format!(">{text}<")), "{}: no {text}", cell["id"]);
            looked_at += 1;
        }
    };
    let whole: fn(f64) -> String = |mean| format!("{mean:.0}");
    let single: fn(f64) -> String = |mean| format!("{}, n=1", rate(mean));
    for cell in analysis["cells"].as_array().unwrap() {
        is_on_page(cell, &cell["receiver_bits_per_second"], single);
        is_on_page(cell, &cell["sender_bits_per_second"], single);
        is_on_page(cell, &cell["percent_of_baseline"], three_digits);
        for name in ["host_us_per_kib", "qemu_us_per_kib", "guest_us_per_kib"] {
            is_on_page(cell, &cell["service_demand"][name], three_digits);
        }
        is_on_page(cell, &cell["guest_ready_ms"], whole);
        is_on_page(cell, &cell["qemu"]["vcpu_percent_of_core"], whole);
        is_on_page(cell, &cell["bytes_per_packet"]["receiver"], whole);
        for machine in ["host", "guest"] {
            for core in cell[machine]["cores"].as_array().into_iter().flatten() {
                is_on_page(cell, &core["busy_percent"], whole);
            }
        }
    }
    assert!(looked_at > CELLS * 6, "{looked_at}");
}

#[test]
fn wide_shows_more_and_a_run_can_print_it_too() {
    let world = stored();
    let wide = report(&world, &["--wide"]).stdout;
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest(&wide) > longest(&shared().finished.stdout));
    assert!(longest(&shared().finished.stdout) <= 80);
}

/// Every guest's origin, in the order of the records; the baselines' are absent.
fn origins(world: &World) -> Vec<Option<String>> {
    let text = fs::read(world.path("here/run/trials.jsonl")).unwrap();
    text.split_inclusive(|&byte| byte == b'\n')
        .map(|line| {
            let guest = &json(line)["guest"];
            assert!(guest.is_null() || guest["origin"] == "reused" || guest["ready_ms"].is_u64());
            guest["origin"].as_str().map(str::to_owned)
        })
        .collect()
}

#[test]
fn one_guest_serves_the_cells_that_differ_in_the_load_alone() {
    let origin = |record: &Value| record["guest"]["origin"].as_str().map(str::to_owned);
    let origins: Vec<Option<String>> = records().iter().map(origin).collect();
    let of_guests: Vec<&str> = origins.iter().flatten().map(String::as_str).collect();
    assert_eq!(of_guests, ["restored", "reused", "restored", "reused"]);
}

#[test]
fn every_cell_can_have_a_restored_guest_and_a_seed_gives_the_order() {
    let world = World::new();
    let arguments = short(&[
        "--set=guest.reuse=cell",
        "--set=direction=to-guest,from-guest",
        "--seed=11",
        "--out=run",
        "--wide",
    ]);
    // The later --seed would be a second one.
    let arguments: Vec<String> =
        arguments.into_iter().filter(|argument| argument != "--seed=3").collect();
    let finished = world.vioperf(&arguments).succeeded();
    let of_guests: Vec<String> = origins(&world).into_iter().flatten().collect();
    assert_eq!(of_guests, ["restored", "restored"]);
    assert_eq!(report(&world, &["--wide"]).stdout, finished.stdout);

    let is_for_plan = |argument: &&String| !argument.starts_with("--out") && *argument != "--wide";
    let mut planned: Vec<String> = arguments.iter().filter(is_for_plan).cloned().collect();
    planned[0] = "plan".to_owned();
    planned.push("--json".to_owned());
    let plan = json(world.vioperf(&planned).succeeded().stdout.as_bytes());
    let info = json(&fs::read(world.path("here/run/run.json")).unwrap());
    assert_eq!(info["plan"]["blocks"], plan["blocks"]);
    assert_eq!(info["plan"]["seed"], 11);
    let ids = info["plan"]["blocks"][0].as_array().unwrap().iter().map(|index| {
        &info["plan"]["cells"][usize::try_from(index.as_u64().unwrap()).unwrap()]["id"]
    });
    let text = fs::read(world.path("here/run/trials.jsonl")).unwrap();
    let run: Vec<Value> = text
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| json(line)["cell"].clone())
        .collect();
    assert!(run.iter().eq(ids), "{run:?}");
}

#[test]
fn guests_rest_from_block_to_block_and_carry_nothing_meanwhile() {
    let world = World::new();
    let mut arguments =
        short(&["--set=guest.reuse=run", "--set=nic=virtio,rtl8139", "--out=run", "--blocks=3"]);
    arguments.retain(|argument| argument != "--blocks=1");
    let finished = world.vioperf(&arguments).succeeded();
    let text = fs::read(world.path("here/run/trials.jsonl")).unwrap();
    let records: Vec<Value> = text.split_inclusive(|&byte| byte == b'\n').map(json).collect();
    let mut ports: BTreeMap<&str, &str> = BTreeMap::new();
    for record in records.iter().filter(|record| !record["guest"].is_null()) {
        let cell = record["cell"].as_str().unwrap();
        let (guest, is_first) = (&record["guest"], record["block"] == 0);
        assert_eq!(guest["origin"], if is_first { "restored" } else { "reused" }, "{cell}");
        let port = guest["port"].as_str().unwrap();
        assert_eq!(*ports.entry(cell).or_insert(port), port, "the same guest");
        let parties = record["parties"].as_array().unwrap();
        let host = parties.iter().find(|party| party["place"] == "host").unwrap();
        let samples = host["report"]["samples"].as_array().unwrap();
        let bytes = |tap: &str, at: &Value| at["interfaces"][tap]["tx_bytes"].as_u64().unwrap();
        for tap in ports.values() {
            let moved = bytes(tap, samples.last().unwrap()) - bytes(tap, &samples[0]);
            assert_eq!(moved > 0, *tap == port, "{cell}: {moved} bytes to {tap}");
        }
    }
    assert_eq!(ports.len(), 2, "{ports:?}");
    assert_eq!(records.len(), 9);
    let analysis = json(report(&world, &["--format=json"]).stdout.as_bytes());
    for cell in analysis["cells"].as_array().unwrap() {
        let at_port = &cell["bytes_per_packet"]["tap"];
        assert_eq!(at_port["summary"].is_object(), cell["is_baseline"] == false, "{at_port}");
    }
    assert!(finished.stdout.contains("rtl8139"));
}

#[test]
fn every_cell_can_have_a_freshly_booted_guest() {
    let world = World::new();
    let finished =
        world.vioperf(&short(&["--set=guest.reuse=none", "--json", "--out=run"])).succeeded();
    assert_eq!(origins(&world), [None, Some("booted".to_owned())]);
    let info = json(&fs::read(world.path("here/run/run.json")).unwrap());
    assert!(info["hypervisor"]["template"].is_null(), "{}", info["hypervisor"]);
    assert_eq!(report(&world, &["--format=json"]).stdout, finished.stdout);
    json(finished.stdout.as_bytes());
}
