//! The history's tables, and how older ones are brought up to date.

use rusqlite::{Connection, TransactionBehavior};

/// Version of the tables (`PRAGMA user_version`): the number of steps that were taken.
pub const VERSION: i64 = STEPS.len() as i64;

/// From each version to the next. What was once released is not changed; a new version is a new step.
const STEPS: &[&str] = &["
    CREATE TABLE run (
        id TEXT PRIMARY KEY,
        -- Absolute; absent of a test that was not stored.
        directory TEXT,
        scenario TEXT NOT NULL,
        question TEXT NOT NULL,
        -- RFC 3339, UTC, of one length: text sorts as time.
        started_at TEXT NOT NULL,
        ended_at TEXT,
        ending TEXT,
        host TEXT NOT NULL,
        cells INTEGER NOT NULL,
        trials_completed INTEGER NOT NULL,
        trials_void INTEGER NOT NULL,
        headline TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_by_time ON run (started_at);
    CREATE TABLE fact (
        run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE measured (
        run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
        cell TEXT NOT NULL,
        metric TEXT NOT NULL,
        is_headline INTEGER NOT NULL,
        mean REAL NOT NULL,
        n INTEGER NOT NULL,
        standard_deviation REAL,
        low_95 REAL,
        high_95 REAL,
        PRIMARY KEY (run, cell, metric)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX measured_by_metric ON measured (metric, cell);
"];

/// Takes the steps that are missing; gives the version that was found.
pub fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<i64> {
    // A rollback journal, SQLite's default: it is written to once a run, and leaves no further files
    // beside it, which a write-ahead log does, that must not lie on a network's file system.
    connection.pragma_update(None, "foreign_keys", true)?;
    // Two that find no tables at once must not both make them.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let missing = usize::try_from(found).ok().and_then(|found| STEPS.get(found..)).unwrap_or(&[]);
    for step in missing {
        transaction.execute_batch(step)?;
    }
    if !missing.is_empty() {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(found)
}
