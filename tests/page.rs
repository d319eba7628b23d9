//! The page of a report as readers meet it: in a browser, in light and dark, on a telephone, without scripts.
//! Chromium is driven by Playwright, and looked at by axe-core.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::readers::{self, READERS, store};
use support::vioperf;
use vioperf_analysis::testing::Synthetic;
use vioperf_model::workload::WorkloadKind;

/// What may weigh at most, in bytes.
const LARGEST_PAGE: usize = 2 << 20;

/// The report of a run as a page, and as numbers.
struct Report {
    page: String,
    numbers: Value,
}

impl Report {
    fn of(directory: &str) -> Self {
        let of = |format| vioperf(&["report", directory, "--format", format]).succeeded().stdout;
        Self { page: of("html"), numbers: serde_json::from_str(&of("json")).unwrap() }
    }

    /// What every reader meets, by the reader's name.
    fn looked_at(&self, folder: &Path) -> Value {
        let file = folder.join("report.html");
        support::write(&file, &self.page);
        let script = format!("{READERS}/page.py");
        let looked = Command::new(readers::python())
            .args(["-B", &script, file.to_str().unwrap(), readers::browser()])
            .output();
        let looked = looked.unwrap();
        assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
        serde_json::from_slice(&looked.stdout).unwrap()
    }
}

/// What holds of any page, whoever reads it.
fn assert_readable(seen: &Value, of: &str) {
    for (reader, met) in seen.as_object().unwrap() {
        let who = format!("{of}, {reader}");
        assert_eq!(met["console"], serde_json::json!([]), "{who}: the console is not empty");
        let requests = met["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 1, "{who}: the page is all that is asked for, not {requests:?}");
        assert_eq!(met["too_wide_by"], 0, "{who}: the page is wider than the window");
        assert_eq!(met["links_to_nowhere"], serde_json::json!([]), "{who}");
        let faults = met["faults"].as_array().map_or(&[][..], Vec::as_slice);
        let serious = |fault: &&Value| {
            ["serious", "critical"].contains(&fault["impact"].as_str().unwrap_or(""))
        };
        let serious: Vec<_> = faults.iter().filter(serious).collect();
        assert!(serious.is_empty(), "{who}: {serious:#?}");
    }
}

#[test]
fn every_kind_of_load_is_readable_by_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [WorkloadKind::PacketRate, WorkloadKind::RequestResponse]
        .map(|kind| (kind.name(), Synthetic::of_kind(kind)));
    for (name, run) in runs.into_iter().chain([("under-emulation", Synthetic::tcg())]) {
        let report = Report::of(&store(folder.path(), name, &run));
        assert!(report.page.len() <= LARGEST_PAGE, "{name}: {} bytes", report.page.len());
        let seen = report.looked_at(folder.path());
        assert_readable(&seen, name);
        assert_controls_work(&seen["light"]["controls"], &report.numbers, name);
        assert_values_are_told(&seen["light"]["controls"]["values"], &report.page, name);
        // Question, answer and every path's name are there for each reader.
        for (reader, met) in seen.as_object().unwrap() {
            let text = flat(met["text"].as_str().unwrap());
            let wanted = report.numbers["headline"].as_array().unwrap().iter();
            let wanted = wanted.chain([&report.numbers["question"]]);
            let paths =
                report.numbers["cells"].as_array().unwrap().iter().map(|cell| &cell["path"]);
            for wanted in wanted.chain(paths).map(|text| flat(text.as_str().unwrap())) {
                assert!(text.contains(&wanted), "{name}, {reader} is not told `{wanted}`");
            }
        }
    }
}

/// Reads a metric of a cell of `report --format json`.
type Metric<'a> = &'a dyn Fn(&&Value) -> Value;

/// What is chosen is drawn and said, with the numbers of the report.
fn assert_controls_work(used: &Value, numbers: &Value, of: &str) {
    let told = |what: &str| used[what]["numbers"].as_object().unwrap().clone();
    let cells: Vec<&Value> = numbers["cells"].as_array().unwrap().iter().collect();
    let headline = |cell: &&Value| {
        let path = cell["headline_metric"].as_str().unwrap();
        path.split('.').fold((*cell).clone(), |value, name| value[name].clone())
    };
    let percent = |cell: &&Value| cell["percent_of_baseline"].clone();
    let metrics: [(&str, Metric<'_>); 2] = [("first", &headline), ("percent", &percent)];
    for (what, read) in metrics {
        let (told, mut found) = (told(what), 0);
        for cell in &cells {
            let Some(mean) = read(cell)["summary"]["mean"].as_f64() else { continue };
            let shown = told[cell["id"].as_str().unwrap()].as_array().unwrap();
            assert_near(&shown[0], &mean.into(), of);
            let interval = &read(cell)["summary"]["interval_95"];
            assert_near(&shown[1], &interval["low"], of);
            assert_near(&shown[2], &interval["high"], of);
            found += 1;
        }
        assert!(found > 2 && told.len() == found, "{of}, {what}: {found} of {}", told.len());
        assert_eq!(used[what]["dots"], found, "{of}, {what}: a dot a cell");
        assert!(
            used[what]["said"].as_str().unwrap().starts_with(&found.to_string()),
            "{of}, {what}"
        );
    }
    assert!(
        told("hidden_level").len() < told("percent").len(),
        "{of}: a level that is hidden is drawn"
    );
    assert_eq!(
        told("by_value").len(),
        told("percent").len(),
        "{of}: what is shown again is not there"
    );
    let column = |what: &str| used[what]["column"].as_array().unwrap().clone();
    assert_eq!(
        (&used["sorted"]["as"], &used["turned"]["as"]),
        (&"descending".into(), &"ascending".into()),
        "{of}"
    );
    let (down, mut up) = (column("sorted"), column("turned"));
    up.reverse();
    assert!(down.len() > 1 && down == up, "{of}: {down:?} {up:?}");
    if of == WorkloadKind::RequestResponse.name() {
        assert_eq!(
            (&used["lines_hidden"], &used["lines_hidden_again"]),
            (&1.into(), &0.into()),
            "{of}"
        );
    }
    assert_eq!(used["unfolded"], true, "{of}");
}

/// Pictures tell the words that the page came with, by keyboard and under the pointer.
fn assert_values_are_told(told: &Value, page: &str, of: &str) {
    let titles: Vec<&str> =
        page.split("<title>").skip(1).map(|rest| rest.split_once('<').unwrap().0).collect();
    let is_title = |text: &Value| titles.contains(&text.as_str().unwrap());
    let by_key = told["by_key"].as_array().unwrap();
    // At least: a panel a factor and path, two stacks, and cost against speed.
    assert!(by_key.len() > 10, "{of}: {by_key:?}");
    for told in by_key {
        assert!(is_title(&told["bubble"]) && told["bubble"] == told["spoken"], "{of}: {told}");
    }
    assert_eq!(told["hidden"], true, "{of}");
    assert!(is_title(&told["under_pointer"]), "{of}: {}", told["under_pointer"]);
}

/// The same number, or none; not to the last bit, which is lost where numbers are read.
fn assert_near(shown: &Value, reported: &Value, of: &str) {
    let apart = |(a, b): (f64, f64)| (a - b).abs() > b.abs() * 1e-12;
    let (a, b) = (shown.as_f64(), reported.as_f64());
    assert!(
        a.is_some() == b.is_some() && !a.zip(b).is_some_and(apart),
        "{of}: {shown} is not {reported}"
    );
}

/// Words with one space between them.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
