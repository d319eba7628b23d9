//! vioperf, run as a user runs it: `vioperf serve` at one end, `vioperf test` at the other.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{number, said, word_after};
use crate::arena::SERVER;
use crate::contests::{Class, Load, Transport};
use crate::entry::{Entry, Reading};
use crate::process::CommandLine;

const PORT: u16 = 5210;
/// Beyond loopback both ends have to know one: here it guards nothing.
const TOKEN: (&str, &str) = ("VIOPERF_TOKEN", "the-token-of-the-bench");

/// Ways to send and to receive that others have under the names `-Z` and `--skip-rx-copy`, too.
const STREAM_MODES: &[&str] = &[
    "",
    "--send zerocopy",
    "--send sendfile",
    "--send splice",
    "--receive discard",
    "--send zerocopy --receive discard",
    "--send sendfile --receive discard",
    "--send splice --receive discard",
];

pub struct Vioperf {
    pub program: PathBuf,
    version: String,
}

impl Vioperf {
    /// `given`, or the one beside this program.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let program = match given {
            Some(path) => path.to_path_buf(),
            None => env::current_exe().context("where is this program?")?.with_file_name("vioperf"),
        };
        ensure!(program.is_file(), "no vioperf at {}: `make build` makes it", program.display());
        let program = program.canonicalize().context("cannot resolve vioperf's path")?;
        let version = word_after(&said(&program, "--version"), "vioperf ")
            .with_context(|| format!("{} does not tell its version", program.display()))?;
        Ok(Self { program, version })
    }

    pub fn name(&self) -> String {
        format!("vioperf {}", self.version)
    }

    pub fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        let each = |load: String, modes: &[&str]| -> Vec<Entry> {
            modes.iter().map(|mode| self.entry(&load, mode, seconds)).collect()
        };
        match load {
            Load::TcpStreams(streams) => each(format!("-w tcp-stream -P {streams}"), STREAM_MODES),
            Load::Datagrams(bytes) => {
                let modes = ["", "-P 2", "-P 2 --receivers reuseport", "--segmentation"];
                each(format!("-w packet-rate --payload {bytes}B"), &modes)
            }
            Load::Requests(transport, bytes) | Load::Latency(transport, bytes) => {
                let transport = match transport {
                    Transport::Tcp => "tcp",
                    Transport::Udp => "udp",
                };
                let sizes = format!("--request-size {bytes}B --response-size {bytes}B");
                each(format!("-w request-response --transport {transport} {sizes}"), &[""])
            }
            Load::Connections => each("-w connect-rate".to_owned(), &[""]),
        }
    }

    /// Without a warm-up: the peers measure from the start, too.
    fn entry(&self, load: &str, mode: &str, seconds: u16) -> Entry {
        let client =
            format!("test {SERVER} {load} {mode} --duration {seconds}s --warmup 0s --json");
        let server = format!("serve --listen {SERVER} --one-off");
        let class = if mode.contains("--segmentation") { Class::Joined } else { Class::Ordinary };
        let line = |arguments: &str| CommandLine {
            environment: vec![TOKEN],
            ..CommandLine::new(&self.program, arguments)
        };
        Entry {
            tool: self.name(),
            mode: mode.to_owned(),
            ours: true,
            class,
            server: line(&server),
            port: PORT,
            server_ends: true,
            client: line(&client),
            seconds,
            read: Box::new(move |outputs| read(outputs.client, seconds)),
        }
    }
}

/// The report of a test of one trial. That it ran a little longer than it measured is not counted in
/// its favour: the bytes are those of the time that was asked for.
fn read(json: &str, seconds: u16) -> Result<Reading> {
    let document: Value = serde_json::from_str(json).context("its JSON does not parse")?;
    let cell = document.pointer("/cells/0").context("no cell is in its report")?;
    let mean = |metric: &str| number(cell, &format!("{metric}/summary/mean")).ok();
    let bits_per_second = mean("/receiver_bits_per_second");
    Ok(Reading {
        bits_per_second,
        bytes: bits_per_second.map(|rate| rate / 8.0 * f64::from(seconds)),
        datagrams_per_second: mean("/datagrams/received_per_second"),
        transactions_per_second: mean("/transactions/per_second"),
        median_us: percentile(cell, "p50"),
        p99_us: percentile(cell, "p99"),
    })
}

fn percentile(cell: &Value, name: &str) -> Option<f64> {
    let percentiles = cell.pointer("/transactions/latency/percentiles")?.as_array()?;
    let found = percentiles
        .iter()
        .find(|percentile| percentile.get("name").and_then(Value::as_str) == Some(name))?;
    number(found, "/us/summary/mean").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_reports_is_read() {
        let json = include_str!("recorded/vioperf-request-response.json");
        let reading = read(json, 1).unwrap();
        assert_eq!(reading.datagrams_per_second, None);
        let transactions = reading.transactions_per_second.unwrap();
        let median = reading.median_us.unwrap();
        assert!(median < reading.p99_us.unwrap());
        // One request was under way at a time.
        assert!((0.5..1.2).contains(&(transactions * median / 1e6)), "{reading:?}");
        assert!(read("{}", 1).is_err());
    }
}
