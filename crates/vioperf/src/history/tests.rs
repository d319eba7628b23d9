use vioperf_analysis::analyse;
use vioperf_analysis::testing::Synthetic;

use super::*;

fn history(folder: &tempfile::TempDir) -> History {
    History::open_at(&folder.path().join("data/vioperf/history.sqlite")).unwrap()
}

/// A run that began at this minute.
fn analysis(minute: u32) -> RunAnalysis {
    let Synthetic { mut run, trials } = Synthetic::calm_kvm();
    run.started_at = format!("2026-01-02T03:{minute:02}:00.000Z");
    run.host.name = "here".into();
    analyse(&run, &trials)
}

#[test]
fn what_is_entered_is_listed_newest_first_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = history(&folder);
    for minute in [1, 3, 2, 3] {
        history.enter(&Entry::of(&analysis(minute), Some(Path::new("/runs/x")))).unwrap();
    }
    let runs = history.runs(&Filter::default()).unwrap();
    let times: Vec<&str> = runs.iter().map(|run| &run.started_at[14..16]).collect();
    assert_eq!(times, ["03", "02", "01"]);
    let entry = Entry::of(&analysis(3), Some(Path::new("/runs/x")));
    assert_eq!(runs[0], entry.run);
    assert!(runs[0].is_gone());

    let only = |filter: Filter| history.runs(&filter).unwrap().len();
    assert_eq!(only(Filter { limit: Some(2), ..Filter::default() }), 2);
    assert_eq!(only(Filter { since: Some("2026-01-02T03:02".into()), ..Filter::default() }), 2);
    assert_eq!(only(Filter { host: Some("there".into()), ..Filter::default() }), 0);
    assert_eq!(only(Filter { scenario: Some("' OR 1".into()), ..Filter::default() }), 0);
}

#[test]
fn a_series_is_what_the_reports_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = history(&folder);
    for minute in [5, 1] {
        history.enter(&Entry::of(&analysis(minute), None)).unwrap();
    }
    let analysis = analysis(1);
    for metric in ["receiver_bits_per_second", "headline", "percent_of_baseline"] {
        let series = history.series(metric, &Filter::default()).unwrap();
        let cell = analysis.cells.last().unwrap();
        let found = series.iter().find(|series| series.cell == cell.id.0).unwrap();
        assert_eq!(found.points.len(), 2);
        assert!(found.points[0].started_at < found.points[1].started_at);
        let expected = match metric {
            "percent_of_baseline" => &cell.percent_of_baseline,
            _ => cell.headline(),
        };
        assert_eq!(Some(found.points[0].mean), expected.mean());
        assert_eq!(found.points[0].facts["workload.kind"], "tcp-stream");
    }
    assert!(history.series("no_such_metric", &Filter::default()).unwrap().is_empty());
}

#[test]
fn a_run_is_forgotten_with_all_of_it_by_a_part_of_its_id_that_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = history(&folder);
    for minute in [1, 2] {
        history.enter(&Entry::of(&analysis(minute), None)).unwrap();
    }
    assert_eq!(history.forget("").unwrap(), None);
    let id = history.runs(&Filter::default()).unwrap()[0].id.clone();
    assert_eq!(history.forget(&id[..10]).unwrap(), Some(id.clone()));
    assert!(!history.has(&id).unwrap());
    let left: i64 = history
        .connection
        .query_row("SELECT count(*) FROM fact WHERE run = ?", [&id], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
    assert_eq!(history.runs(&Filter::default()).unwrap().len(), 1);
}

#[test]
fn several_write_at_once_and_a_newer_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut history = History::open_at(path).unwrap();
                for nth in 0..5 {
                    history.enter(&Entry::of(&analysis(10 * writer + nth), None)).unwrap();
                }
            });
        }
    });
    let history = History::open_at(&path).unwrap();
    assert_eq!(history.runs(&Filter::default()).unwrap().len(), 20);
    history.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(history);
    let error = History::open_at(&path).unwrap_err().to_string();
    assert!(error.contains("newer vioperf (version 99"), "{error}");
    fs::write(&path, "something else, and long enough to be no database").unwrap();
    assert!(matches!(History::open_at(&path), Err(HistoryError::Database { .. })));
}
