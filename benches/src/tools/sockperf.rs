//! sockperf: the time that a round trip takes.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Peer, said, word_after};
use crate::arena::SERVER;
use crate::contests::{Class, Load, Transport};
use crate::entry::{Entry, Reading};
use crate::process::CommandLine;

const PORT: u16 = 11111;

pub struct Sockperf {
    program: PathBuf,
    version: String,
}

impl Sockperf {
    pub fn find(program: PathBuf) -> Option<Self> {
        let version = word_after(&said(&program, "--version"), "version ")?;
        Some(Self { program, version })
    }
}

impl Peer for Sockperf {
    fn name(&self) -> String {
        format!("sockperf {}", self.version.trim_end_matches("-no.git"))
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        let Load::Latency(transport, bytes) = load else { return Vec::new() };
        let over = match transport {
            Transport::Tcp => "--tcp",
            Transport::Udp => "",
        };
        // Without --full-rtt it tells half of the round trip.
        let client =
            format!("ping-pong -i {SERVER} -p {PORT} -t {seconds} -m {bytes} --full-rtt {over}");
        vec![Entry {
            tool: self.name(),
            mode: String::new(),
            ours: false,
            class: Class::Ordinary,
            server: CommandLine::new(
                &self.program,
                &format!("server -i {SERVER} -p {PORT} {over}"),
            ),
            port: PORT,
            server_ends: false,
            client: CommandLine::new(&self.program, &client),
            seconds,
            read: Box::new(|outputs| read(outputs.client)),
        }]
    }
}

fn read(text: &str) -> Result<Reading> {
    anyhow::ensure!(text.contains("Round trip is"), "it does not tell the whole round trip");
    let after = |key: &str| -> Result<f64> {
        let (_, rest) = text.split_once(key).with_context(|| format!("no `{key}`"))?;
        let word = rest.split(['=', ' ', ';', '\n']).find(|word| !word.is_empty());
        word.unwrap_or_default().parse().with_context(|| format!("no number after `{key}`"))
    };
    let messages = {
        let (_, valid) = text.split_once("[Valid Duration]").context("no valid duration")?;
        let number = |key: &str| -> Result<f64> {
            let (_, rest) = valid.split_once(key).with_context(|| format!("no `{key}`"))?;
            let word = rest.split([' ', ';', '\n']).next().unwrap_or_default();
            word.parse().with_context(|| format!("`{word}` is not a number"))
        };
        number("ReceivedMessages=")? / number("RunTime=")?
    };
    Ok(Reading {
        transactions_per_second: Some(messages),
        median_us: Some(after("percentile 50.000")?),
        p99_us: Some(after("percentile 99.000")?),
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_the_whole_round_trip_are_read() {
        let reading = read(include_str!("recorded/sockperf-3.7-udp.txt")).unwrap();
        assert_eq!((reading.median_us, reading.p99_us), (Some(26.545), Some(42.045)));
        assert!((reading.transactions_per_second.unwrap() - 35_320.0).abs() < 1.0, "{reading:?}");
    }

    #[test]
    fn half_a_round_trip_is_refused() {
        let text = include_str!("recorded/sockperf-3.7-udp.txt").replace("Round trip", "Latency");
        assert!(read(&text).is_err());
    }
}
