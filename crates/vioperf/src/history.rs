//! The history: an SQLite database of the runs that were measured here, with what they came to.
//!
//! It is a convenience beside the run directories, which stay the truth: it is never needed, can be
//! deleted, and is filled again by `vioperf history add`.

pub mod entry;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use vioperf_analysis::columns;
use vioperf_analysis::provenance::{self, Facts};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::trend::{Point, Trend, level_changes};

use self::entry::Entry;
use crate::cli::Which;
use crate::output::Output;
use crate::paths;

/// Set to anything, it keeps runs out of the history.
pub const OFF: &str = "VIOPERF_NO_HISTORY";

/// In place of a metric: what a cell is ranked by, which is another metric for another kind of load.
pub const HEADLINE: &str = "headline";

/// How long another vioperf may be writing before this one gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no place for it.
    #[error(transparent)]
    NoPlace(#[from] anyhow::Error),
    /// Its directory cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error("the history {}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// A later vioperf wrote it.
    #[error(
        "the history {} was written by a newer vioperf (version {found}, this one knows up to {}): update vioperf",
        path.display(), schema::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
}

/// The history, opened.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    connection: Connection,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this scenario alone.
    pub scenario: Option<String>,
    /// Of this host alone.
    pub host: Option<String>,
    /// Under this kernel of the host alone.
    pub kernel: Option<String>,
    /// With this QEMU alone.
    pub qemu: Option<String>,
    /// Begun at this time or later (RFC 3339, UTC).
    pub since: Option<String>,
    /// So many at most, the newest.
    pub limit: Option<u32>,
    /// Without so many, the newest.
    pub skip: u32,
}

/// What runs are told apart by, where one of several is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    /// The scenario.
    Scenario,
    /// The host.
    Host,
    /// The host's kernel.
    Kernel,
    /// The version of QEMU.
    Qemu,
}

impl Facet {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Scenario, Self::Host, Self::Kernel, Self::Qemu];

    /// Where the history has it: of a run itself, or among its facts.
    const fn column_or_fact(self) -> Result<&'static str, &'static str> {
        match self {
            Self::Scenario => Ok("scenario"),
            Self::Host => Ok("host"),
            Self::Kernel => Err(provenance::HOST_KERNEL),
            Self::Qemu => Err(provenance::QEMU),
        }
    }
}

impl Which {
    /// These runs, `limit` at most.
    pub fn filter(&self, limit: u32) -> Filter {
        let Self { scenario, since, host, kernel, qemu } = self;
        Filter {
            scenario: scenario.clone(),
            host: host.clone(),
            kernel: kernel.clone(),
            qemu: qemu.clone(),
            since: since.as_ref().map(crate::cli::Since::text),
            limit: Some(limit),
            skip: 0,
        }
    }
}

impl Filter {
    /// What is chosen of a facet.
    pub fn chosen(&self, facet: Facet) -> Option<&String> {
        match facet {
            Facet::Scenario => self.scenario.as_ref(),
            Facet::Host => self.host.as_ref(),
            Facet::Kernel => self.kernel.as_ref(),
            Facet::Qemu => self.qemu.as_ref(),
        }
    }

    /// The condition on `run`, and its parameters.
    fn condition(&self) -> (String, Vec<Value>) {
        let (mut condition, mut values) = (String::new(), Vec::new());
        for facet in Facet::ALL {
            let Some(value) = self.chosen(facet) else { continue };
            match facet.column_or_fact() {
                Ok(column) => condition.push_str(&format!(" AND {column} = ?")),
                Err(fact) => {
                    condition.push_str(
                        " AND EXISTS (SELECT 1 FROM fact WHERE fact.run = run.id AND name = ? AND value = ?)",
                    );
                    values.push(Value::Text(fact.to_owned()));
                }
            }
            values.push(Value::Text(value.clone()));
        }
        if let Some(since) = &self.since {
            condition.push_str(" AND started_at >= ?");
            values.push(Value::Text(since.clone()));
        }
        (condition, values)
    }
}

/// A cell's metric in the runs of one host, the oldest first.
#[derive(Debug)]
pub struct Series {
    /// The scenario.
    pub scenario: String,
    /// The host.
    pub host: String,
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// What each run gave.
    pub points: Vec<Point>,
}

impl Series {
    /// The same with its unit, and where its level changed.
    pub fn trend(self) -> Trend {
        let Self { scenario, host, cell, metric, points } = self;
        let changes = level_changes(&points);
        let unit = columns::named(&metric).map_or("", |column| column.unit).to_owned();
        Trend { scenario, host, cell, metric, unit, points, changes }
    }
}

impl History {
    /// Opens the user's history, and makes it if there is none.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn open() -> Result<Self, HistoryError> {
        Self::open_at(&paths::history()?)
    }

    fn open_at(path: &Path) -> Result<Self, HistoryError> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .map_err(|source| HistoryError::Directory { path: directory.to_owned(), source })?;
        }
        let connection = Connection::open(path);
        Self::over(connection, path)
    }

    /// One that is kept in memory alone, for as long as it is open.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn in_memory() -> Result<Self, HistoryError> {
        Self::over(Connection::open_in_memory(), Path::new("in memory"))
    }

    fn over(connection: rusqlite::Result<Connection>, path: &Path) -> Result<Self, HistoryError> {
        let failed = |source| HistoryError::Database { path: path.to_owned(), source };
        let mut connection = connection.map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let found = schema::bring_up_to_date(&mut connection).map_err(failed)?;
        if found > schema::VERSION {
            return Err(HistoryError::Newer { path: path.to_owned(), found });
        }
        Ok(Self { path: path.to_owned(), connection })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> HistoryError + use<> {
        let path = self.path.clone();
        move |source| HistoryError::Database { path: path.clone(), source }
    }

    /// Enters a run; one that is in it already, since it was resumed or is added again, is replaced.
    ///
    /// # Errors
    /// What SQLite refused; then nothing of the run is in it.
    pub fn enter(&mut self, entry: &Entry) -> Result<(), HistoryError> {
        let failed = self.failed();
        entry.write(&mut self.connection).map_err(failed)
    }

    /// The runs, the newest first.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn runs(&self, filter: &Filter) -> Result<Vec<entry::Run>, HistoryError> {
        let (condition, mut values) = filter.condition();
        values.push(Value::Integer(filter.limit.map_or(-1, i64::from)));
        values.push(Value::Integer(i64::from(filter.skip)));
        let query = format!(
            "SELECT {} FROM run WHERE TRUE{condition} ORDER BY started_at DESC, id LIMIT ? OFFSET ?",
            entry::Run::COLUMNS
        );
        let read = || -> rusqlite::Result<Vec<entry::Run>> {
            let mut statement = self.connection.prepare(&query)?;
            statement.query_map(params_from_iter(values), entry::Run::from_row)?.collect()
        };
        read().map_err(self.failed())
    }

    /// Removes the run whose id begins so. `Ok(None)` when none does, or several.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn forget(&self, id: &str) -> Result<Option<String>, HistoryError> {
        let remove = || {
            let found: Vec<String> = self
                .connection
                .prepare("SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2")?
                .query_map([id], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let [whole] = found.as_slice() else { return Ok(None) };
            self.connection.execute("DELETE FROM run WHERE id = ?", [whole])?;
            Ok(Some(whole.clone()))
        };
        remove().map_err(self.failed())
    }

    /// A metric, or where it is `headline` that by which a cell is ranked, of every cell of which the
    /// history has it. Of each the newest `limit` runs.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn series(&self, metric: &str, filter: &Filter) -> Result<Vec<Series>, HistoryError> {
        let (condition, values) = filter.condition();
        let query = format!(
            "SELECT scenario, host, cell, metric, run.id, started_at, mean, n, low_95, high_95
             FROM measured JOIN run ON run.id = measured.run
             WHERE (metric = ? OR (? = ? AND is_headline)){condition}
             ORDER BY scenario, host, cell, metric, started_at"
        );
        let metric = Value::Text(metric.to_owned());
        let headline = Value::Text(HEADLINE.to_owned());
        let values = [metric.clone(), metric, headline].into_iter().chain(values);
        let read = || {
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query(params_from_iter(values))?;
            let mut found: Vec<Series> = Vec::new();
            while let Some(row) = rows.next()? {
                let of = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                let is_same = |last: &&mut Series| {
                    (&last.scenario, &last.host, &last.cell, &last.metric)
                        == (&of.0, &of.1, &of.2, &of.3)
                };
                let run_id: String = row.get(4)?;
                let point = Point {
                    facts: self.facts(&run_id)?,
                    run_id,
                    started_at: row.get(5)?,
                    mean: row.get(6)?,
                    n: row.get(7)?,
                    low_95: row.get(8)?,
                    high_95: row.get(9)?,
                };
                match found.last_mut().filter(is_same) {
                    Some(last) => last.points.push(point),
                    None => {
                        let (scenario, host, cell, metric) = of;
                        found.push(Series { scenario, host, cell, metric, points: vec![point] });
                    }
                }
            }
            Ok(found)
        };
        let mut found = read().map_err(self.failed())?;
        let most = filter.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        for series in &mut found {
            series.points.drain(..series.points.len().saturating_sub(most));
        }
        Ok(found)
    }

    /// So many runs there are.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn count(&self, filter: &Filter) -> Result<u32, HistoryError> {
        let (condition, values) = filter.condition();
        let query = format!("SELECT count(*) FROM run WHERE TRUE{condition}");
        let found = self.connection.query_row(&query, params_from_iter(values), |row| row.get(0));
        found.map_err(self.failed())
    }

    /// The run with this id.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn run(&self, id: &str) -> Result<Option<entry::Run>, HistoryError> {
        let query = format!("SELECT {} FROM run WHERE id = ?", entry::Run::COLUMNS);
        let found = self.connection.query_row(&query, [id], entry::Run::from_row);
        found.optional().map_err(self.failed())
    }

    /// What a run was measured with.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn facts_of(&self, id: &str) -> Result<Facts, HistoryError> {
        self.facts(id).map_err(self.failed())
    }

    /// The metrics that any run has, by name.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn metrics(&self) -> Result<Vec<String>, HistoryError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let query = "SELECT DISTINCT metric FROM measured ORDER BY 1";
            self.connection.prepare(query)?.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(self.failed())
    }

    /// What there is to choose from of a facet, in order.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn levels(&self, facet: Facet) -> Result<Vec<String>, HistoryError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            match facet.column_or_fact() {
                Ok(column) => self
                    .connection
                    .prepare(&format!("SELECT DISTINCT {column} FROM run ORDER BY 1"))?
                    .query_map([], |row| row.get(0))?
                    .collect(),
                Err(fact) => self
                    .connection
                    .prepare("SELECT DISTINCT value FROM fact WHERE name = ? ORDER BY 1")?
                    .query_map([fact], |row| row.get(0))?
                    .collect(),
            }
        };
        read().map_err(self.failed())
    }

    fn facts(&self, run: &str) -> rusqlite::Result<Facts> {
        self.connection
            .prepare("SELECT name, value FROM fact WHERE run = ?")?
            .query_map(params![run], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }

    /// Whether a run is in it.
    ///
    /// # Errors
    /// What SQLite refused.
    pub fn has(&self, id: &str) -> Result<bool, HistoryError> {
        let found = self.connection.query_row("SELECT 1 FROM run WHERE id = ?", [id], |_| Ok(()));
        found.optional().map(|found| found.is_some()).map_err(self.failed())
    }
}

/// Enters a run that has ended, unless the user does not want it. That it cannot be entered is no
/// reason for a run to fail.
pub fn enter(analysis: &RunAnalysis, directory: Option<&Path>, is_off: bool, output: &Output) {
    if is_off || std::env::var_os(OFF).is_some_and(|off| !off.is_empty()) {
        return;
    }
    let entered =
        History::open().and_then(|mut history| history.enter(&Entry::of(analysis, directory)));
    if let Err(error) = entered {
        output.warning(format_args!(
            "the run is not in the history: {error} (--no-history leaves it out)"
        ));
    }
}

#[cfg(test)]
mod tests;
