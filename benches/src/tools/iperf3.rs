//! iperf3: TCP streams and UDP datagrams, in any version that is found.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Peer, number, said, word_after};
use crate::arena::SERVER;
use crate::contests::{Class, Load};
use crate::entry::{Entry, Outputs, Reading};
use crate::process::CommandLine;

const PORT: u16 = 5201;

pub struct Iperf3 {
    program: PathBuf,
    version: String,
    /// Its `--help`, which tells what it can do.
    help: String,
}

impl Iperf3 {
    pub fn find(program: PathBuf) -> Option<Self> {
        let version = word_after(&said(&program, "--version"), "iperf ")?;
        let help = said(&program, "--help");
        Some(Self { program, version, help })
    }

    fn has(&self, option: &str) -> bool {
        self.help.contains(option)
    }

    fn entry(&self, mode: &str, class: Class, load: &str, seconds: u16, datagram: u16) -> Entry {
        let read = move |outputs: &Outputs<'_>| read(outputs.client, datagram);
        let client = format!("-c {SERVER} -t {seconds} -J {load} {mode}");
        Entry {
            tool: self.name(),
            mode: mode.to_owned(),
            ours: false,
            class,
            server: CommandLine::new(&self.program, "-s -1"),
            port: PORT,
            server_ends: true,
            client: CommandLine::new(&self.program, &client),
            seconds,
            read: Box::new(read),
        }
    }
}

impl Peer for Iperf3 {
    fn name(&self) -> String {
        format!("iperf3 {}", self.version)
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        match load {
            Load::TcpStreams(streams) => {
                let mut modes = vec!["", "-Z"];
                if self.has("--skip-rx-copy") {
                    modes.push("-Z --skip-rx-copy");
                }
                let load = format!("-P {streams}");
                let entry = |mode| self.entry(mode, Class::Ordinary, &load, seconds, 0);
                modes.into_iter().map(entry).collect()
            }
            Load::Datagrams(bytes) => {
                // As fast as it goes; larger socket buffers and a second stream help it at times.
                let load = format!("-u -b 0 -l {bytes}");
                let entry = |(mode, class)| self.entry(mode, class, &load, seconds, bytes);
                let mut modes = vec![
                    ("", Class::Ordinary),
                    ("-w 4M", Class::Ordinary),
                    ("-P 2", Class::Ordinary),
                ];
                if self.has("--gsro") {
                    modes.push(("--gsro", Class::Joined));
                    modes.push(("--gsro -w 4M", Class::Joined));
                }
                modes.into_iter().map(entry).collect()
            }
            Load::Requests(..) | Load::Latency(..) | Load::Connections => Vec::new(),
        }
    }
}

/// The receiver's numbers: `end.sum_received` of `--json`. With datagrams its bytes are those that
/// arrived.
fn read(json: &str, datagram: u16) -> Result<Reading> {
    let document: Value = serde_json::from_str(json).context("its JSON does not parse")?;
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        anyhow::bail!("{error}");
    }
    let bytes = number(&document, "/end/sum_received/bytes")?;
    let seconds = number(&document, "/end/sum_received/seconds")?;
    let datagrams = (datagram > 0).then(|| bytes / f64::from(datagram) / seconds);
    Ok(Reading {
        bits_per_second: Some(bytes * 8.0 / seconds),
        bytes: Some(bytes),
        datagrams_per_second: datagrams,
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_read_as_the_receiver_counted_them() {
        let reading = read(include_str!("recorded/iperf3-3.12-tcp.json"), 0).unwrap();
        assert_eq!(reading.bytes, Some(2_702_573_568.0));
        assert!((reading.bits_per_second.unwrap() / 1e9 - 21.610_539).abs() < 1e-4, "{reading:?}");
        assert_eq!(reading.datagrams_per_second, None);
        let reading = read(include_str!("recorded/iperf3-3.21-tcp.json"), 0).unwrap();
        assert_eq!(reading.bytes, Some(7_582_908_416.0));
    }

    #[test]
    fn datagrams_are_those_that_arrived() {
        // 109620 sent, 8274 lost.
        let reading = read(include_str!("recorded/iperf3-3.12-udp.json"), 18).unwrap();
        let expected = (109_620.0 - 8274.0) / 1.000_178;
        assert!((reading.datagrams_per_second.unwrap() - expected).abs() < 1.0, "{reading:?}");
        // 13349120 sent, 1666944 lost, joined.
        let reading = read(include_str!("recorded/iperf3-3.21-gsro.json"), 18).unwrap();
        let expected = (13_349_120.0 - 1_666_944.0) / 1.005_223;
        assert!((reading.datagrams_per_second.unwrap() / expected - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_it_could_not_do_is_told() {
        let refused = r#"{"start":{},"end":{},"error":"unable to connect to server"}"#;
        assert!(read(refused, 0).unwrap_err().to_string().contains("unable to connect"));
        assert!(read("iperf3: error", 0).is_err());
    }
}
