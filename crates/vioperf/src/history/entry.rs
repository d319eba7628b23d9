//! What the history keeps of a run.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, TransactionBehavior, params};
use serde::Serialize;
use vioperf_analysis::columns;
use vioperf_analysis::provenance::{self, Facts};
use vioperf_analysis::result::{CellAnalysis, RunAnalysis};
use vioperf_analysis::trial_table::ending_name;
use vioperf_model::record::RunInfo;

use crate::run_id::run_id;

/// A run in the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What tells it apart.
    pub id: String,
    /// Its directory, absolute; absent of a test that was not stored.
    pub directory: Option<String>,
    /// The scenario.
    pub scenario: String,
    /// The question it answers.
    pub question: String,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// When it ended; absent when it was killed.
    pub ended_at: Option<String>,
    /// How it ended.
    pub ending: Option<String>,
    /// The host's name; empty where it was not recorded.
    pub host: String,
    /// Cells of its plan.
    pub cells: u32,
    /// Trials that count.
    pub trials_completed: u32,
    /// Trials that do not.
    pub trials_void: u32,
    /// The first sentence of its report.
    pub headline: String,
}

impl Run {
    /// The columns that [`Run::from_row`] reads.
    pub const COLUMNS: &str = "id, directory, scenario, question, started_at, ended_at, ending, host, \
                               cells, trials_completed, trials_void, headline";

    /// Reads a row of [`Run::COLUMNS`].
    pub fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            directory: row.get(1)?,
            scenario: row.get(2)?,
            question: row.get(3)?,
            started_at: row.get(4)?,
            ended_at: row.get(5)?,
            ending: row.get(6)?,
            host: row.get(7)?,
            cells: row.get(8)?,
            trials_completed: row.get(9)?,
            trials_void: row.get(10)?,
            headline: row.get(11)?,
        })
    }

    /// Whether its directory is no more there; one that never had any has none to lose.
    pub fn is_gone(&self) -> bool {
        self.directory
            .as_ref()
            .is_some_and(|directory| !Path::new(directory).join("run.json").exists())
    }
}

/// A metric of a cell, over the run's trials.
#[derive(Debug, Clone, PartialEq)]
struct Measured {
    cell: String,
    metric: &'static str,
    is_headline: bool,
    mean: f64,
    n: usize,
    standard_deviation: Option<f64>,
    interval: Option<(f64, f64)>,
}

/// Everything that is kept of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its line in the list.
    pub run: Run,
    facts: Facts,
    measured: Vec<Measured>,
}

impl Entry {
    /// Of an analysed run, stored in `directory` if it is stored.
    pub fn of(analysis: &RunAnalysis, directory: Option<&Path>) -> Self {
        let info = &analysis.run;
        let trials = analysis.cells.iter().map(|cell| cell.trials);
        let completed =
            trials.clone().fold(0_u32, |sum, trials| sum.saturating_add(trials.completed));
        let void = trials.fold(0_u32, |sum, trials| sum.saturating_add(trials.void));
        let absolute =
            |path: &Path| std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        Self {
            run: Run {
                id: run_id(info),
                directory: directory.map(|path| absolute(path).display().to_string()),
                scenario: info.scenario.name.clone(),
                question: info.scenario.question.clone(),
                started_at: info.started_at.clone(),
                ended_at: info.ended.as_ref().map(|end| end.at.clone()),
                ending: info.ended.as_ref().map(|end| ending_name(&end.how).to_owned()),
                host: info.host.name.clone(),
                cells: u32::try_from(analysis.cells.len()).unwrap_or(u32::MAX),
                trials_completed: completed,
                trials_void: void,
                headline: analysis.headline.first().cloned().unwrap_or_default(),
            },
            facts: facts(info),
            measured: analysis.cells.iter().flat_map(measured).collect(),
        }
    }

    /// Writes it in place of what is there of the run.
    pub fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Self { run, facts, measured } = self;
        transaction.execute("DELETE FROM run WHERE id = ?", [&run.id])?;
        transaction.execute(
            &format!(
                "INSERT INTO run ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                Run::COLUMNS
            ),
            params![
                run.id,
                run.directory,
                run.scenario,
                run.question,
                run.started_at,
                run.ended_at,
                run.ending,
                run.host,
                run.cells,
                run.trials_completed,
                run.trials_void,
                run.headline,
            ],
        )?;
        let mut insert = transaction.prepare("INSERT INTO fact VALUES (?, ?, ?)")?;
        for (name, value) in facts {
            insert.execute(params![run.id, name, value])?;
        }
        drop(insert);
        let mut insert =
            transaction.prepare("INSERT INTO measured VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        for one in measured {
            insert.execute(params![
                run.id,
                one.cell,
                one.metric,
                one.is_headline,
                one.mean,
                i64::try_from(one.n).unwrap_or(i64::MAX),
                one.standard_deviation,
                one.interval.map(|(low, _)| low),
                one.interval.map(|(_, high)| high),
            ])?;
        }
        drop(insert);
        transaction.commit()
    }
}

fn measured(cell: &CellAnalysis) -> Vec<Measured> {
    let headline = columns::headline_of(cell);
    let of = |column: &columns::Column| {
        let summary = column.read(cell)?.summary?;
        Some(Measured {
            cell: cell.id.0.clone(),
            metric: column.name,
            is_headline: column.name == headline,
            mean: summary.mean,
            n: summary.n,
            standard_deviation: summary.standard_deviation,
            interval: summary.interval_95.map(|interval| (interval.low, interval.high)),
        })
    };
    columns::all().iter().filter_map(of).collect()
}

/// What it was measured with, and what of the scenario is not in the cells' names.
fn facts(info: &RunInfo) -> Facts {
    let mut facts = provenance::facts(&info.vioperf_version, &info.host, info.hypervisor.as_ref());
    facts.extend(provenance::variant_facts(&info.variant_hypervisors));
    let scenario = serde_json::to_value(&info.scenario).unwrap_or_default();
    for section in ["testbed", "guest", "workload", "variants"] {
        flatten(section, &scenario[section], &mut facts);
    }
    facts
}

fn flatten(name: &str, value: &serde_json::Value, facts: &mut Facts) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, facts));
        }
        serde_json::Value::Null => {}
        serde_json::Value::String(text) => drop(facts.insert(name.to_owned(), text.clone())),
        other => drop(facts.insert(name.to_owned(), other.to_string())),
    }
}
