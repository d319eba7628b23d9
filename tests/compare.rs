//! `vioperf compare`: what two stored runs are told to differ in, in every format, and its exit codes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;
use support::schema::violations;
use support::{Finished, vioperf};
use tempfile::TempDir;
use vioperf_analysis::testing::Synthetic;
use vioperf_model::plan::Cell;

/// So many blocks that two runs can be told apart.
const BLOCKS: u32 = 6;
/// What a cell is slower by in B.
const SLOWER: f64 = 0.94;

/// Two runs, one after the other: in B virtio is slower by 6 %, and nothing else differs.
struct Runs {
    folder: TempDir,
}

impl Runs {
    fn new() -> Self {
        let runs = Self { folder: tempfile::tempdir().unwrap() };
        runs.store("a", BLOCKS, |_, _| 1.0);
        runs.store("b", BLOCKS, |cell, _| if cell.path_name() == "virtio" { SLOWER } else { 1.0 });
        runs
    }

    /// Stores a run as `vioperf run` does, scattering by half a percent.
    fn store(&self, name: &str, blocks: u32, factor: impl Fn(&Cell, u32) -> f64) {
        let mut synthetic = Synthetic::of_blocks(blocks, |cell, block| {
            let length = u32::try_from(cell.id.0.len()).unwrap();
            let scatter = f64::from((block * 5 + length * 3) % 7) / 7.0 - 0.5;
            1e9 * (1.0 + 0.005 * scatter) * factor(cell, block)
        });
        synthetic.run.started_at = format!("2026-01-02T03:04:05Z {name}");
        write_run(&self.folder.path().join(name), &synthetic);
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn compare(&self, a: &str, b: &str, options: &[&str]) -> Finished {
        let (a, b) = (self.path(a), self.path(b));
        vioperf(&[&["compare", &a, &b], options].concat())
    }

    fn json(&self, options: &[&str]) -> Value {
        let options = [&["--format=json"], options].concat();
        serde_json::from_str(&self.compare("a", "b", &options).succeeded().stdout).unwrap()
    }
}

fn write_run(directory: &Path, synthetic: &Synthetic) {
    fs::create_dir(directory).unwrap();
    let info = serde_json::to_string(&synthetic.run).unwrap();
    fs::write(directory.join("run.json"), info).unwrap();
    let lines: String =
        synthetic.trials.iter().map(|trial| serde_json::to_string(trial).unwrap() + "\n").collect();
    fs::write(directory.join("trials.jsonl"), lines).unwrap();
}

fn rows<'a>(comparison: &'a Value, verdict: &str) -> Vec<&'a Value> {
    let rows = comparison["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["verdict"] == verdict).collect()
}

#[test]
fn what_is_slower_is_worse_and_the_rest_is_not() {
    let runs = Runs::new();
    let comparison = runs.json(&["--metric=headline"]);
    let worse = rows(&comparison, "worse");
    // Two numbers of streams in two directions.
    assert_eq!(worse.len(), 4, "{:#}", comparison["summary"]);
    for row in worse {
        assert!(row["cell"].as_str().unwrap().starts_with("virtio/"));
        let difference = &row["difference"];
        let value = difference["value"].as_f64().unwrap();
        assert!((value + 6.0).abs() < 0.1, "{value}");
        let (low, high) = (&difference["interval_95"]["low"], &difference["interval_95"]["high"]);
        assert!((low.as_f64().unwrap()..high.as_f64().unwrap()).contains(&value));
        assert!(difference["p_value"].as_f64().unwrap() < 0.01);
    }
    assert_eq!(rows(&comparison, "no-difference").len(), 8, "{:#}", comparison["summary"]);
    assert_eq!(comparison["changed"].as_array().unwrap().len(), 0);
}

#[test]
fn the_other_way_round_everything_is_mirrored() {
    let runs = Runs::new();
    let forth = runs.compare("a", "b", &["--fail-if=worse"]).failed_with(5, &[]);
    assert!(forth.stdout.starts_with("B is worse in "), "{}", forth.stdout);
    let back = runs.compare("b", "a", &["--fail-if=worse", "--metric=headline"]).succeeded();
    assert!(back.stdout.starts_with("B is better in 4 of 12 "), "{}", back.stdout);
    runs.compare("b", "a", &["--fail-if=different"]).failed_with(5, &[]);
}

#[test]
fn a_run_beside_itself_does_not_differ() {
    let runs = Runs::new();
    let alike = runs.compare("a", "a", &["--fail-if=different,unclear"]).succeeded();
    assert!(
        alike.stdout.starts_with("No difference that counts in 24 comparisons."),
        "{}",
        alike.stdout
    );
}

#[test]
fn what_matters_is_the_users_to_say() {
    let runs = Runs::new();
    let large = runs.json(&["--metric=headline", "--smallest-difference=10%"]);
    assert_eq!(rows(&large, "negligible").len(), 4);
    let of_one = ["--metric=headline", "--metric=cpu", "--smallest-difference=headline=10%"];
    let of_one = runs.json(&of_one);
    assert_eq!((rows(&of_one, "negligible").len(), rows(&of_one, "worse").len()), (4, 4));
}

#[test]
fn variants_of_one_run_are_compared_alone_and_in_every_report() {
    let runs = Runs::new();
    let variants = Synthetic::of_variants(8, &["before", "after"], |cell, block| {
        let is_slower = cell.path_name() == "virtio" && cell.variant_name() == Some("after");
        1e9 * (1.0 + 0.03 * f64::from(block)) * if is_slower { SLOWER } else { 1.0 }
    });
    write_run(&runs.folder.path().join("variants"), &variants);
    let path = runs.path("variants");
    let text = vioperf(&["compare", &path, "--fail-if=worse"]).failed_with(5, &[]).stdout;
    assert!(text.starts_with("B is worse in "), "{text}");
    let json = vioperf(&["compare", &path, "--format=json", "--metric=headline"]).succeeded();
    let comparison: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(comparison["design"], "paired");
    assert_eq!(
        (rows(&comparison, "worse").len(), rows(&comparison, "no-difference").len()),
        (4, 4)
    );
    for format in ["terminal", "markdown", "html"] {
        let report = vioperf(&["report", &path, "--format", format]).succeeded().stdout;
        assert!(report.contains("Variants: after (B) beside before (A)"), "{format}");
    }
    let report = vioperf(&["report", &path, "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(!rows(&report["variants"], "worse").is_empty());
    let schema = vioperf(&["schema", "report"]).succeeded().stdout;
    let found = violations(&serde_json::from_str(&schema).unwrap(), &report);
    assert!(found.is_empty(), "{found:#?}");
    vioperf(&["compare", &runs.path("a")]).failed_with(2, &["has no variants", "second run"]);
}

#[test]
fn too_few_blocks_are_told_as_such() {
    let runs = Runs::new();
    runs.store("short", 3, |_, _| 0.5);
    let comparison = runs.compare("a", "short", &[]).succeeded();
    let said = comparison.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("nothing can be said at a level of 1 %"), "{said}");
    assert!(said.contains("--blocks 5"), "{said}");
    runs.compare("a", "short", &["--fail-if=worse"]).succeeded();
    runs.compare("a", "short", &["--fail-if=worse,unclear"]).failed_with(5, &[]);
}

#[test]
fn what_else_changed_is_shown() {
    let runs = Runs::new();
    let mut other = Synthetic::of_blocks(BLOCKS, |_, _| 1e9);
    other.run.vioperf_version = "9.8.7".into();
    other.run.host.kernel_release = "6.99".into();
    other.run.scenario.testbed.mtu = 9000;
    write_run(&runs.folder.path().join("other"), &other);
    for format in ["terminal", "markdown", "json"] {
        let options = [&format!("--format={format}")[..]];
        let text = runs.compare("a", "other", &options).succeeded().stdout;
        for needed in ["9.8.7", "6.99", "testbed.mtu"] {
            assert!(text.replace('\\', "").contains(needed), "{format}: {needed}");
        }
    }
}

#[test]
fn every_format_says_the_same_each_time_and_into_a_file() {
    let runs = Runs::new();
    for format in FORMATS {
        let option = format!("--format={format}");
        let text = runs.compare("a", "b", &[&option]).succeeded().stdout;
        assert_eq!(text, runs.compare("a", "b", &[&option]).succeeded().stdout, "{format}");
        let file = runs.path("out");
        let silent = runs.compare("a", "b", &[&option, "--output", &file]).succeeded();
        assert_eq!((silent.stdout.as_str(), fs::read_to_string(&file).unwrap()), ("", text));
    }
}

const FORMATS: [&str; 6] = [
    "terminal",
    "markdown",
    "json",
    "junit",
    "github-action-benchmark",
    "github-action-benchmark-smaller",
];

#[test]
fn json_holds_to_its_schema() {
    let schema = vioperf(&["schema", "compare"]).succeeded().stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let found = violations(&schema, &Runs::new().json(&[]));
    assert!(found.is_empty(), "{found:#?}");
}

/// Names and attributes of all elements, in their order.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(xml);
    let mut found = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Eof => return found,
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.expect("a whole attribute");
                    (attribute.key.as_ref().to_owned(), attribute.value.into_owned())
                });
                found.push((element.name().as_ref().to_owned(), attributes.collect()));
            }
            _ => {}
        }
    }
}

#[test]
fn junit_is_well_formed_and_fails_what_was_asked_to_fail() {
    let runs = Runs::new();
    let options = ["--format=junit", "--metric=headline"];
    let calm = elements(&runs.compare("a", "b", &options).succeeded().stdout);
    let count =
        |all: &[(String, Vec<_>)], name: &str| all.iter().filter(|(n, _)| n == name).count();
    assert_eq!((count(&calm, "testcase"), count(&calm, "failure")), (12, 0));
    let options = [&options[..], &["--fail-if=worse"]].concat();
    let failed = elements(&runs.compare("a", "b", &options).failed_with(5, &[]).stdout);
    assert_eq!((count(&failed, "testcase"), count(&failed, "failure")), (12, 4));
    let suite = failed.iter().find(|(name, _)| name == "testsuite").unwrap();
    assert!(suite.1.contains(&("failures".into(), "4".into())), "{suite:?}");
}

#[test]
fn benchmark_entries_are_of_one_direction_each() {
    let runs = Runs::new();
    let entries = |format: &str| -> Vec<Value> {
        let text = runs.compare("a", "b", &[&format!("--format={format}")]).succeeded().stdout;
        serde_json::from_str(&text).unwrap()
    };
    let (bigger, smaller) =
        (entries("github-action-benchmark"), entries("github-action-benchmark-smaller"));
    assert_eq!((bigger.len(), smaller.len()), (12, 12));
    for entry in bigger.iter().chain(&smaller) {
        assert!(entry["name"].is_string() && entry["unit"].is_string(), "{entry}");
        assert!(entry["value"].as_f64().unwrap() > 0.0, "{entry}");
    }
    assert!(bigger.iter().all(|entry| entry["unit"] == "bit/s"));
    assert!(smaller.iter().all(|entry| entry["unit"] == "µs/KiB"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let runs = Runs::new();
    for (option, words) in [
        ("--metric=headlin", "did you mean `headline`?"),
        ("--metric=percent-of-baselin", "did you mean `percent_of_baseline`?"),
        ("--smallest-difference=3", "is not a part of a whole"),
        ("--smallest-difference=datagrams.lost_percent=x%", "is no number"),
        ("--alpha=2", "give one from 0.001 to 0.2"),
    ] {
        runs.compare("a", "b", &[option]).failed_with(2, &[words]);
    }
    runs.compare("a", "nowhere", &[]).failed_with(1, &["holds no run"]);
}

/// A cell's name comes from a file: whatever it holds, no format is broken by it.
#[test]
fn hostile_names_break_no_format() {
    let runs = Runs::new();
    let mut hostile = Synthetic::of_blocks(BLOCKS, |_, _| 1e9);
    let name = "<b>&\"]]>\u{1b}[31m\u{0}|`x`/to";
    let id = hostile.run.plan.cells[4].id.clone();
    hostile.run.plan.cells[4].id.0 = name.into();
    for trial in hostile.trials.iter_mut().filter(|trial| trial.cell == id) {
        trial.cell.0 = name.into();
    }
    write_run(&runs.folder.path().join("hostile"), &hostile);
    for format in FORMATS {
        let text = runs.compare("hostile", "hostile", &[&format!("--format={format}")]).succeeded();
        assert!(!text.stdout.contains(['\u{1b}', '\u{0}']), "{format}");
        if format == "junit" {
            assert!(elements(&text.stdout).len() > 12);
        }
        if format == "markdown" {
            assert!(!text.stdout.contains("<b>"), "{}", text.stdout);
        }
    }
}
