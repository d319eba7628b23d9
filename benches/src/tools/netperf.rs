//! netperf: everything, one stream at a time.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Peer, said, word_after};
use crate::arena::SERVER;
use crate::contests::{Class, Load, Transport};
use crate::entry::{Entry, Outputs, Reader, Reading};
use crate::process::CommandLine;

const PORT: u16 = 12865;

pub struct Netperf {
    program: PathBuf,
    server: PathBuf,
    version: String,
}

impl Netperf {
    /// Its server must be beside it.
    pub fn find(program: PathBuf) -> Option<Self> {
        let version = word_after(&said(&program, "-V"), "Netperf version ")?;
        let server = program.with_file_name("netserver");
        server.is_file().then_some(Self { program, server, version })
    }

    fn entry(&self, seconds: u16, test: &str, mode: &str, options: &str, read: Reader) -> Entry {
        let client = format!("-4 -P 0 -H {SERVER} -l {seconds} -t {test} {options}");
        Entry {
            tool: self.name(),
            mode: mode.to_owned(),
            ours: false,
            class: Class::Ordinary,
            // -f: one process, so that it is known what it cost; -N: no file for debugging.
            server: CommandLine::new(&self.server, "-D -f -N -4"),
            port: PORT,
            server_ends: false,
            client: CommandLine::new(&self.program, &client),
            seconds,
            read,
        }
    }
}

impl Peer for Netperf {
    fn name(&self) -> String {
        format!("netperf {}", self.version)
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        let transactions = || -> Reader { Box::new(|outputs| read_transactions(outputs.client)) };
        match load {
            Load::TcpStreams(1) => {
                let options = "-- -o REMOTE_BYTES_RECVD,ELAPSED_TIME";
                let ordinary = Box::new(|outputs: &Outputs<'_>| read_received(outputs.client, 0));
                let file = Box::new(|outputs: &Outputs<'_>| read_sendfile(outputs.client));
                // What it sends is a file, and this one is there and in the page cache.
                let program = format!("-F {}", self.program.display());
                vec![
                    self.entry(seconds, "TCP_STREAM", "", options, ordinary),
                    self.entry(seconds, "TCP_SENDFILE", "TCP_SENDFILE", &program, file),
                ]
            }
            Load::TcpStreams(_) => Vec::new(),
            Load::Datagrams(bytes) => {
                let entry = |mode: &str| {
                    let options =
                        format!("-- -m {bytes} -R 1 {mode} -o REMOTE_BYTES_RECVD,ELAPSED_TIME");
                    let read = move |outputs: &Outputs<'_>| read_received(outputs.client, bytes);
                    self.entry(seconds, "UDP_STREAM", mode, &options, Box::new(read))
                };
                vec![entry(""), entry("-s 4M -S 4M")]
            }
            Load::Requests(transport, bytes) => {
                let test = match transport {
                    Transport::Tcp => "TCP_RR",
                    Transport::Udp => "UDP_RR",
                };
                let options = format!("-- -r {bytes},{bytes} -o TRANSACTION_RATE");
                vec![self.entry(seconds, test, "", &options, transactions())]
            }
            Load::Connections => {
                let options = "-- -r 1,1 -o TRANSACTION_RATE";
                vec![self.entry(seconds, "TCP_CRR", "", options, transactions())]
            }
            // Its percentiles are of buckets up to 10 % wide.
            Load::Latency(..) => Vec::new(),
        }
    }
}

fn fields(csv: &str) -> Result<Vec<f64>> {
    let line = csv.lines().rev().find(|line| !line.trim().is_empty()).context("it told nothing")?;
    let parse = |field: &str| {
        field.trim().parse::<f64>().with_context(|| format!("`{field}` is not a number"))
    };
    line.split(',').map(parse).collect()
}

fn read_received(csv: &str, datagram: u16) -> Result<Reading> {
    let fields = fields(csv)?;
    let [bytes, seconds] = fields.as_slice() else { anyhow::bail!("not two numbers: {csv}") };
    Ok(Reading {
        bits_per_second: Some(bytes * 8.0 / seconds),
        bytes: Some(*bytes),
        datagrams_per_second: (datagram > 0).then(|| bytes / f64::from(datagram) / seconds),
        ..Reading::default()
    })
}

fn read_transactions(csv: &str) -> Result<Reading> {
    let rate = fields(csv)?.first().copied();
    Ok(Reading { transactions_per_second: rate, ..Reading::default() })
}

/// The line of a test that has no choice of output: sizes, seconds, 10^6 bit/s.
fn read_sendfile(text: &str) -> Result<Reading> {
    let line =
        text.lines().rev().find(|line| !line.trim().is_empty()).context("it told nothing")?;
    let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let (Some(seconds), Some(rate)) = (numbers.get(3), numbers.get(4)) else {
        anyhow::bail!("not five numbers: {line}")
    };
    Ok(Reading {
        bits_per_second: Some(rate * 1e6),
        bytes: Some(rate * 1e6 / 8.0 * seconds),
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_remote_received_is_read() {
        let reading = read_received("916520960,1.00\n", 0).unwrap();
        assert_eq!(reading.bits_per_second, Some(7_332_167_680.0));
        let reading = read_received("3069270,1.00\n", 18).unwrap();
        assert_eq!(reading.datagrams_per_second, Some(170_515.0));
        assert!(read_received("", 18).is_err());
    }

    #[test]
    fn rates_and_classic_lines_are_read() {
        let reading = read_transactions("35010.796\n").unwrap();
        assert_eq!(reading.transactions_per_second, Some(35_010.796));
        let reading = read_sendfile("131072  16384  16384    1.00     13074.28   \n").unwrap();
        assert_eq!(reading.bits_per_second, Some(13_074_280_000.0));
        assert!(read_transactions("no response received\n").is_err());
    }
}
