//! Arguments of `history`, `trend` and `view`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use jiff::{Span, Timestamp, civil, tz::TimeZone};

/// Arguments of `history`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    /// What to do; without it the runs are listed, the newest first
    #[command(subcommand)]
    pub action: Option<HistoryAction>,
    /// Which runs
    #[command(flatten)]
    pub which: Which,
    /// So many runs at most, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
    /// The form
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: ListFormat,
}

/// What `history` can do beside listing.
#[derive(Debug, Subcommand)]
pub enum HistoryAction {
    /// Enter runs that are not in the history, or again
    Add {
        /// The runs' directories
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<PathBuf>,
    },
    /// Take runs out of the history; their directories stay
    Forget {
        /// Ids, or as much of the beginning of one as is its own
        #[arg(value_name = "ID", required_unless_present = "gone")]
        ids: Vec<String>,
        /// All whose directories are no more there
        #[arg(long)]
        gone: bool,
    },
}

/// Which runs of the history.
#[derive(Debug, Args)]
pub struct Which {
    /// Of this scenario alone
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Begun since then: a date (2026-01-31), a time (RFC 3339) or a span until now (12h, 30d, 6 weeks)
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Of this host alone
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Measured under this kernel of the host alone
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// Measured with this version of QEMU alone
    #[arg(long, value_name = "VERSION")]
    pub qemu: Option<String>,
}

/// The forms of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For a terminal
    Terminal,
    /// An array of objects
    Json,
    /// RFC 4180, with a header row
    Csv,
}

/// Arguments of `trend`.
#[derive(Debug, Args)]
pub struct TrendArgs {
    /// The metric, as `vioperf export` names its columns (percent_of_baseline, host_us_per_kib, …), or
    /// `headline`: what each cell is ranked by
    pub metric: String,
    /// Only cells whose name has this in it; * stands for anything (`virtio/*/to-guest`)
    #[arg(long, value_name = "PATTERN")]
    pub cell: Option<String>,
    /// Which runs
    #[command(flatten)]
    pub which: Which,
    /// So many runs at most, the newest
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub limit: u32,
    /// The form
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: TrendFormat,
}

/// The forms of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrendFormat {
    /// For a terminal
    Terminal,
    /// Everything
    Json,
    /// RFC 4180, one row a run and cell
    Csv,
    /// For a pull request
    Markdown,
}

/// Arguments of `view`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Directories of runs: these are shown, whether or not they are in the history [default: the history]
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Open the user's browser, with xdg-open
    #[arg(long)]
    pub open: bool,
}

/// A point in time, written as one or as a span until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since(Timestamp);

impl Since {
    /// As records write it (RFC 3339 with milliseconds, UTC).
    pub fn text(&self) -> String {
        format!("{:.3}", self.0)
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::before(text, Timestamp::now())
    }
}

impl Since {
    fn before(text: &str, now: Timestamp) -> Result<Self, String> {
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Self(time));
        }
        if let Ok(date) = text.parse::<civil::Date>() {
            // A date is meant as the one who types it lives by it.
            let begins = date.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
            return Ok(Self(begins.timestamp()));
        }
        let span = text.parse::<Span>().map_err(|_| {
            "give a date (2026-01-31), a time (2026-01-31T12:00:00Z) or a span (12h, 30d, 6 weeks)"
        })?;
        let then = now.to_zoned(TimeZone::UTC).checked_sub(span.abs());
        Ok(Self(then.map_err(|error| error.to_string())?.timestamp()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_dates_and_spans() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().unwrap();
        let of = |text: &str| Since::before(text, now).map(|since| since.text());
        assert_eq!(of("2026-01-02T03:04:05+01:00").unwrap(), "2026-01-02T02:04:05.000Z");
        assert_eq!(of("12h").unwrap(), "2026-03-31T00:00:00.000Z");
        assert_eq!(of("30d").unwrap(), "2026-03-01T12:00:00.000Z");
        assert_eq!(of("2 weeks").unwrap(), "2026-03-17T12:00:00.000Z");
        assert!(of("2026-03-01").is_ok());
        assert!(of("lately").unwrap_err().contains("30d"));
        assert!(of("99999999 years").is_err());
    }
}
