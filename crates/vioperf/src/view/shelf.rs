//! The runs that are shown: those of the history, or those that were named.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use vioperf_analysis::result::RunAnalysis;

use crate::commands::report::analysis_of;
use crate::history::entry::{Entry, Run};
use crate::history::{History, HistoryError};
use crate::output::Output;
use crate::store::{RUN_FILE, StoreError, TRIALS_FILE};

/// Where runs come from.
#[derive(Debug)]
enum Source {
    /// The user's history, looked at anew for every page.
    History,
    /// Runs that were named; a history of their own.
    Named(Mutex<History>),
}

/// The runs.
#[derive(Debug)]
pub struct Shelf {
    source: Source,
    output: Output,
}

/// When a run's files were last written, and how long they are: another stamp is another report.
pub type Stamp = [Option<(SystemTime, u64)>; 2];

/// Why a run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// There is no such run.
    #[error("no run here has the id {0}: it was forgotten, or never entered")]
    Unknown(String),
    /// It was never stored.
    #[error(
        "of the run {0} no records were stored (--out was not given), only what is in the history"
    )]
    NotStored(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// Its directory.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Shelf {
    /// The user's history.
    pub fn of_history(output: Output) -> Self {
        Self { source: Source::History, output }
    }

    /// These runs alone, whether or not they are in the history.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn of_runs(paths: &[PathBuf], output: Output) -> anyhow::Result<Self> {
        let mut history = History::in_memory()?;
        for (path, number) in paths.iter().zip(1..) {
            output.status(&format!("reading run {number} of {}", paths.len()));
            history.enter(&Entry::of(&analysis_of(path, &output)?, Some(path)))?;
        }
        output.status("");
        Ok(Self { source: Source::Named(Mutex::new(history)), output })
    }

    /// Whether it is the history that is shown.
    pub fn is_history(&self) -> bool {
        matches!(self.source, Source::History)
    }

    /// Asks the history.
    ///
    /// # Errors
    /// What `question` gives, and when the history cannot be opened.
    pub fn ask<T>(
        &self,
        question: impl FnOnce(&History) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        match &self.source {
            Source::History => question(&History::open()?),
            Source::Named(history) => {
                question(&history.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Where the run with this id is stored.
    ///
    /// # Errors
    /// When there is none, or it is not stored.
    pub fn directory(&self, id: &str) -> Result<PathBuf, ShelfError> {
        let run = self.ask(|history| history.run(id))?;
        let Run { directory, .. } = run.ok_or_else(|| ShelfError::Unknown(id.to_owned()))?;
        directory.map(PathBuf::from).ok_or_else(|| ShelfError::NotStored(id.to_owned()))
    }

    /// What is stored of a run, analysed.
    ///
    /// # Errors
    /// As [`crate::store::read`].
    pub fn analysis(&self, directory: &Path) -> Result<RunAnalysis, ShelfError> {
        Ok(analysis_of(directory, &self.output)?)
    }
}

/// The stamp of a run.
pub fn stamp(directory: &Path) -> Stamp {
    [RUN_FILE, TRIALS_FILE].map(|name| {
        let facts = std::fs::metadata(directory.join(name)).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    })
}
