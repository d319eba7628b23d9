//! iperf (version 2): TCP streams and UDP datagrams.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{Peer, said, word_after};
use crate::arena::SERVER;
use crate::contests::{Class, Load};
use crate::entry::{Entry, Outputs, Reading};
use crate::process::CommandLine;

const PORT: u16 = 5001;
/// Its datagrams carry its own header: none is smaller.
const SMALLEST_DATAGRAM: u16 = 36;

pub struct Iperf2 {
    program: PathBuf,
    version: String,
}

impl Iperf2 {
    pub fn find(program: PathBuf) -> Option<Self> {
        let version = word_after(&said(&program, "-v"), "iperf version ")?;
        Some(Self { program, version })
    }

    fn entry(
        &self,
        seconds: u16,
        mode: String,
        server: &str,
        client: &str,
        datagram: u16,
    ) -> Entry {
        let client = &format!("{client} -t {seconds}");
        let read = move |outputs: &Outputs<'_>| read(outputs.server, datagram);
        Entry {
            tool: self.name(),
            mode,
            ours: false,
            class: Class::Ordinary,
            server: CommandLine::new(&self.program, server),
            port: PORT,
            server_ends: false,
            client: CommandLine::new(&self.program, client),
            seconds,
            read: Box::new(read),
        }
    }
}

impl Peer for Iperf2 {
    fn name(&self) -> String {
        format!("iperf {}", self.version)
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        match load {
            Load::TcpStreams(streams) => {
                let client = format!("-c {SERVER} -P {streams}");
                vec![self.entry(seconds, String::new(), "-s -y C", &client, 0)]
            }
            Load::Datagrams(bytes) => {
                let size = bytes.max(SMALLEST_DATAGRAM);
                let client = format!("-c {SERVER} -u -b 100g -l {size}");
                let mode = if size == bytes { String::new() } else { format!("({size} bytes)") };
                vec![self.entry(seconds, mode, "-s -u -y C", &client, size)]
            }
            Load::Requests(..) | Load::Latency(..) | Load::Connections => Vec::new(),
        }
    }
}

/// The receiver's lines of `-y C`: time, its address and port, the client's, id, interval, bytes,
/// bit/s; of datagrams also jitter, lost, sent and more. One for each stream; a sum has id -1.
fn read(csv: &str, datagram: u16) -> Result<Reading> {
    let (mut bytes, mut bits_per_second, mut datagrams) = (0.0, 0.0, 0.0);
    let mut streams = 0;
    for line in csv.lines().filter(|line| line.split(',').nth(5).is_some_and(|id| id != "-1")) {
        let field = |index: usize| -> Result<f64> {
            let field = line.split(',').nth(index).context("a line of its CSV is too short")?;
            field.parse().with_context(|| format!("`{field}` is not a number"))
        };
        streams += 1;
        bytes += field(7)?;
        bits_per_second += field(8)?;
        if datagram > 0 {
            let seconds = field(7)? * 8.0 / field(8)?;
            datagrams += (field(11)? - field(10)?) / seconds;
        }
    }
    ensure!(streams > 0, "its server told nothing");
    Ok(Reading {
        bits_per_second: Some(bits_per_second),
        bytes: Some(bytes),
        datagrams_per_second: (datagram > 0).then_some(datagrams),
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_added_up() {
        let csv = "\
19700101000000,10.9.0.1,39072,10.9.0.2,5001,1,0.0-1.0,985268284,7873768582
19700101000000,10.9.0.1,39074,10.9.0.2,5001,2,0.0-1.0,772669500,6182938832
19700101000000,10.9.0.1,0,10.9.0.2,5001,-1,0.0-1.0,1757937784,14056707414
";
        let reading = read(csv, 0).unwrap();
        assert_eq!(reading.bytes, Some(1_757_937_784.0));
        assert_eq!(reading.bits_per_second, Some(14_056_707_414.0));
    }

    #[test]
    fn datagrams_are_those_that_were_not_lost() {
        let csv = "19700101000000,10.9.0.1,51891,10.9.0.2,5001,1,0.0-1.0,2945308,23731455,\
                   0.001,45134,126947,35.553,0\n";
        let reading = read(csv, 36).unwrap();
        let seconds = 2_945_308.0 * 8.0 / 23_731_455.0;
        let expected = (126_947.0 - 45_134.0) / seconds;
        assert!((reading.datagrams_per_second.unwrap() - expected).abs() < 1.0, "{reading:?}");
        assert!(read("", 36).is_err());
    }
}
