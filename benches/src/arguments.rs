//! What can be asked for on the command line.

use std::path::PathBuf;

use clap::Parser;

/// Holds vioperf against its peers and writes what came out.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Contests to hold, by their names or the start of them (`tcp`, `udp-18`, `sampling`); all where
    /// absent.
    #[arg(long, value_delimiter = ',')]
    pub contests: Vec<String>,
    /// Alternating runs of every finalist. Fewer than 7 are for trying the bench out.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub runs: u16,
    /// How long each run sends, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    pub seconds: u16,
    /// Peers, and modes of vioperf, that go from the heat into the final.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=20))]
    pub finalists: u16,
    /// The page to write.
    #[arg(long, default_value = "docs/benchmarks.md")]
    pub out: PathBuf,
    /// vioperf's program; the one beside this program where absent.
    #[arg(long)]
    pub vioperf: Option<PathBuf>,
}

impl Arguments {
    pub fn wants_sampling(&self) -> bool {
        let names = &self.contests;
        names.is_empty() || names.iter().any(|start| crate::sampling::NAME.starts_with(start))
    }
}
