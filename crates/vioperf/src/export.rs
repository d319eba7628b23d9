//! Tables of trials for other programs.

pub mod csv;
pub mod iometer;
pub mod parquet;

use jiff::Timestamp;
use vioperf_analysis::trial_table::{Heading, Row};

/// Rows under their headings.
#[derive(Debug)]
pub struct Table {
    /// What every row holds, in this order.
    pub headings: Vec<Heading>,
    /// One a trial.
    pub rows: Vec<Row>,
}

/// Microseconds since 1970, UTC; `None` for what is no point in time.
fn microseconds(time: &str) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;
    use vioperf_analysis::trial_table::{Rows, headings};

    use super::*;

    /// The table of a run with void trials.
    pub fn table() -> Table {
        let Synthetic { run, trials } = Synthetic::tcg();
        let mut rows = Rows::new();
        trials.iter().for_each(|trial| rows.add(trial));
        Table { headings: headings(), rows: rows.finish("a run", &analyse(&run, &trials)) }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(microseconds("1970-01-01T01:00:00.000001+01:00"), Some(1));
        assert_eq!(microseconds("yesterday"), None);
    }
}
