//! What `vioperf export` writes is read by others as it was meant: DuckDB and pandas, both forms.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::readers::{self, READERS, store};
use support::{vioperf, write};
use vioperf_analysis::testing::Synthetic;
use vioperf_model::record::Outcome;
use vioperf_model::workload::WorkloadKind;

/// Two runs of different kinds, the first with void trials.
fn runs() -> [Synthetic; 2] {
    let mut latency = Synthetic::of_kind(WorkloadKind::RequestResponse);
    latency.run.scenario.name = "latency".into();
    latency.run.started_at = "2026-02-03T04:05:06.789Z".into();
    [Synthetic::tcg(), latency]
}

/// The mean of every cell, as `vioperf report` tells it: scenario, cell, mean.
fn reported(directory: &str, metric: &[&str]) -> Vec<(String, String, f64)> {
    let report = vioperf(&["report", directory, "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let of = |cell: &Value| {
        let mean =
            metric.iter().fold(cell, |value, name| &value[name])["summary"]["mean"].as_f64()?;
        let scenario = report["run"]["scenario"]["name"].as_str()?;
        Some((scenario.to_owned(), cell["id"].as_str()?.to_owned(), mean))
    };
    report["cells"].as_array().unwrap().iter().filter_map(of).collect()
}

#[test]
fn duckdb_and_pandas_read_both_forms_as_they_were_meant() {
    let folder = tempfile::tempdir().unwrap();
    let runs = runs();
    let directories = [store(folder.path(), "a", &runs[0]), store(folder.path(), "b", &runs[1])];
    let [parquet, csv] = ["parquet", "csv"].map(|format| {
        let file = folder.path().join(format!("trials.{format}")).to_str().unwrap().to_owned();
        let [a, b] = &directories;
        vioperf(&["export", a, b, "--format", format, "--out", &file]).succeeded();
        file
    });
    let column = "receiver_bits_per_second";
    let script = format!("{READERS}/read.py");
    let done =
        Command::new(readers::python()).args([&script, &parquet, &csv, column]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read: BTreeMap<String, Value> = serde_json::from_slice(&done.stdout).unwrap();

    let trials = runs.iter().flat_map(|run| &run.trials);
    let rows = trials.clone().count();
    let void = trials.filter(|trial| trial.outcome != Outcome::Completed).count();
    assert!(void > 0);
    let mut expected: Vec<(String, String, f64)> =
        directories.iter().flat_map(|directory| reported(directory, &[column])).collect();
    expected.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    for reader in ["duckdb_parquet", "duckdb_csv", "pandas_parquet", "pandas_csv"] {
        let seen = &read[reader];
        assert_eq!((&seen["rows"], &seen["void"]), (&rows.into(), &void.into()), "{reader}");
        assert_eq!(seen["started"].as_array().unwrap().len(), 2, "{reader}");
        let means = seen["means"].as_array().unwrap();
        assert_eq!(means.len(), expected.len(), "{reader}");
        for (mean, (scenario, cell, reported)) in means.iter().zip(&expected) {
            assert_eq!((&mean[0], &mean[1]), (&scenario.as_str().into(), &cell.as_str().into()));
            let mean = mean[2].as_f64().unwrap();
            assert!((mean / reported - 1.0).abs() < 1e-9, "{reader} {cell}: {mean} {reported}");
        }
    }
    for (name, duckdb, pandas) in [
        ("run_id", "VARCHAR", "object"),
        ("run_started_at", "TIMESTAMP", "datetime64[us]"),
        ("started_at", "TIMESTAMP", "datetime64[us]"),
        ("sequence", "BIGINT", "int64"),
        ("mtu_bytes", "BIGINT", "int64"),
        ("is_baseline", "BOOLEAN", "bool"),
        ("nic", "VARCHAR", "object"),
        (column, "DOUBLE", "float64"),
        ("latency_p99_us", "DOUBLE", "float64"),
    ] {
        assert_eq!(read["duckdb_parquet"]["types"][name], duckdb, "{name}");
        assert_eq!(read["pandas_parquet"]["types"][name], pandas, "{name}");
        // What is given in every row, a reader of CSV guesses right.
        if name != "latency_p99_us" {
            let guessed = read["duckdb_csv"]["types"][name].as_str().unwrap();
            assert!(guessed.starts_with(duckdb), "{name}: {guessed}");
        }
    }
    assert_eq!(read["duckdb_parquet"]["started"][1], "2026-02-03 04:05:06.789000");
    assert_eq!(read["metadata"]["unit.receiver_bits_per_second"], "bit/s");
    assert_eq!(read["metadata"]["unit.latency_p99_us"], "µs");
    let columns = read["duckdb_parquet"]["types"].as_object().unwrap();
    assert!(columns.keys().all(|name| !read["metadata"][&format!("about.{name}")].is_null()));
}

/// Every value is read back by both of Prometheus' parsers as the report tells it, and the dashboard asks for
/// nothing else.
#[test]
fn prometheus_reads_metrics_as_they_were_meant_and_the_dashboard_knows_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = runs();
    runs[0].run.scenario.question = "With \"quotes\" and \\?".into();
    let mut known = Vec::new();
    for (run, metric) in runs.iter().zip(["receiver_bits_per_second", "transactions_per_second"]) {
        let directory = store(folder.path(), metric, run);
        let file = folder.path().join(format!("{metric}.prom")).to_str().unwrap().to_owned();
        vioperf(&["report", &directory, "--format=openmetrics", "--output", &file]).succeeded();
        let script = format!("{READERS}/openmetrics.py");
        let done = Command::new(readers::python()).args([&script, &file]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let read: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&done.stdout).unwrap();
        let path = match metric {
            "receiver_bits_per_second" => vec![metric],
            _ => vec!["transactions", "per_second"],
        };
        let expected = reported(&directory, &path);
        assert!(!expected.is_empty(), "{metric}");
        for (reader, samples) in &read {
            let of_metric: Vec<&Value> =
                samples.iter().filter(|one| one["name"] == format!("vioperf_{metric}")).collect();
            assert_eq!(of_metric.len(), expected.len(), "{reader} {metric}");
            for (sample, (scenario, cell, mean)) in of_metric.iter().zip(&expected) {
                let labels = &sample["labels"];
                assert_eq!(
                    (&labels["scenario"], &labels["cell"]),
                    (&scenario.as_str().into(), &cell.as_str().into())
                );
                assert_eq!(sample["value"].as_f64(), Some(*mean), "{reader} {cell}");
            }
            known.extend(samples.iter().map(|one| one["name"].as_str().unwrap().to_owned()));
        }
    }
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/vioperf.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let all: Vec<&str> =
        vioperf_analysis::columns::all().iter().map(|column| column.name).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let name = target["expr"].as_str().unwrap().split('{').next().unwrap();
        let metric = name.trim_start_matches("vioperf_");
        let metric = metric.trim_end_matches("_low_95").trim_end_matches("_high_95");
        assert!(all.contains(&metric) || known.iter().any(|one| one == name), "{name}");
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let run = store(folder.path(), "run", &runs()[0]);
    vioperf(&["export", "/nonexistent"]).failed_with(1, &["holds no run"]);
    vioperf(&["export", &run, "--out=/nonexistent/file"])
        .failed_with(1, &["cannot write /nonexistent/file"]);
    vioperf(&["export", &run, "--format=csv", "--out=/dev/full"])
        .failed_with(1, &["cannot write /dev/full", "No space left"]);
    // A record that was cut off costs its row, and no other.
    let file = Path::new(&run).join("trials.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    write(&file, &whole[..whole.len() - 100]);
    let cut = vioperf(&["export", &run, "--format=csv"]).succeeded();
    assert!(cut.stderr.contains("cut off"), "{}", cut.stderr);
    assert_eq!(cut.stdout.lines().count(), whole.lines().count());
}

/// What iperf3's own wrapper for Python makes of a trial is what the report tells of that trial.
#[test]
fn programs_that_read_iperf3_read_a_trial() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [WorkloadKind::TcpStream, WorkloadKind::UdpStream];
    for (name, kind) in ["tcp", "udp"].into_iter().zip(kinds) {
        let run = Synthetic::of_kind(kind);
        let directory = store(folder.path(), name, &run);
        let trial = run.trials.iter().rfind(|trial| trial.outcome == Outcome::Completed).unwrap();
        let file = folder.path().join(format!("{name}.json"));
        let output = file.to_str().unwrap();
        vioperf(&["report", &directory, "--format=iperf3", "-o", output]).succeeded();
        let script = format!("{READERS}/iperf3_result.py");
        let done = Command::new(readers::python()).args([&script, output]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let seen: Value = serde_json::from_slice(&done.stdout).unwrap();

        let report = vioperf(&["report", &directory, "--format=json"]).succeeded();
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        let cells = report["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["id"] == trial.cell.0.as_str()).unwrap();
        let values = cell["receiver_bits_per_second"]["values"].as_array().unwrap();
        let expected = values.iter().find(|value| value["sequence"] == trial.sequence).unwrap();
        let received =
            ["received_bps", "bps"].iter().find_map(|name| seen[*name].as_f64()).unwrap();
        let ratio = received / expected["value"].as_f64().unwrap();
        assert!((ratio - 1.0).abs() < 1e-9, "{kind:?}: {ratio}");
        assert_eq!(seen["protocol"], name.to_uppercase().as_str());
        assert_eq!(seen["error"], Value::Null);
        if kind == WorkloadKind::TcpStream {
            assert!(seen["sent_bps"].as_f64().unwrap() > 0.0 && seen["retransmits"].is_u64());
        } else {
            assert!(seen["jitter_ms"].is_number() && seen["lost_percent"].is_number(), "{seen}");
        }
    }
    let run = Synthetic::of_kind(WorkloadKind::RequestResponse);
    let directory = store(folder.path(), "latency", &run);
    vioperf(&["report", &directory, "--format=iperf3"]).failed_with(1, &["no load like"]);
    vioperf(&["report", &directory, "--format=iperf3", "--trial=4711"])
        .failed_with(1, &["no trial 4711"]);
    vioperf(&["report", &directory, "--trial=1"]).failed_with(2, &["--format iperf3"]);
}
