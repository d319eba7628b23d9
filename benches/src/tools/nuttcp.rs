//! nuttcp: TCP streams and UDP datagrams.

use std::path::PathBuf;

use anyhow::Result;

use super::{Peer, said, value_of};
use crate::arena::SERVER;
use crate::contests::{Class, Load};
use crate::entry::{Entry, Outputs, Reading};
use crate::process::CommandLine;

const PORT: u16 = 5000;

pub struct Nuttcp {
    program: PathBuf,
    version: String,
}

impl Nuttcp {
    pub fn find(program: PathBuf) -> Option<Self> {
        let said = said(&program, "-V");
        let version = said.split_whitespace().find_map(|word| word.strip_prefix("nuttcp-"))?;
        Some(Self { version: version.to_owned(), program })
    }

    fn entry(&self, seconds: u16, mode: &str, client: &str, datagram: u16) -> Entry {
        let client = &format!("-t -T {seconds} {client} {mode} -fparse {SERVER}");
        let read = move |outputs: &Outputs<'_>| read(outputs.client, datagram);
        Entry {
            tool: self.name(),
            mode: mode.to_owned(),
            ours: false,
            class: Class::Ordinary,
            server: CommandLine::new(&self.program, "-S --nofork"),
            port: PORT,
            server_ends: false,
            client: CommandLine::new(&self.program, client),
            seconds,
            read: Box::new(read),
        }
    }
}

impl Peer for Nuttcp {
    fn name(&self) -> String {
        format!("nuttcp {}", self.version)
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        match load {
            Load::TcpStreams(streams) => {
                let client = format!("-N{streams}");
                vec![self.entry(seconds, "", &client, 0)]
            }
            Load::Datagrams(bytes) => {
                let entry =
                    |mode: &str| self.entry(seconds, mode, &format!("-u -l{bytes} -R0"), bytes);
                vec![entry(""), entry("-w4m")]
            }
            Load::Requests(..) | Load::Latency(..) | Load::Connections => Vec::new(),
        }
    }
}

/// The line of `-fparse`. Its megabytes are of 2^20 bytes, its megabits of 10^6 bits, both as received.
fn read(line: &str, datagram: u16) -> Result<Reading> {
    let bytes = value_of(line, "megabytes")? * 1_048_576.0;
    let bits_per_second = value_of(line, "rate_Mbps")? * 1e6;
    let datagrams = (datagram > 0).then(|| bits_per_second / 8.0 / f64::from(datagram));
    Ok(Reading {
        bits_per_second: Some(bits_per_second),
        bytes: Some(bytes),
        datagrams_per_second: datagrams,
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_line_is_read() {
        let line = "megabytes=2631.6472 real_seconds=1.00 rate_Mbps=22064.7806 tx_cpu=91 rx_cpu=57 \
                    retrans=0 rtt_ms=0.12";
        let reading = read(line, 0).unwrap();
        assert_eq!(reading.bits_per_second, Some(22_064_780_600.0));
        assert_eq!(reading.datagrams_per_second, None);
    }

    #[test]
    fn datagrams_are_those_received() {
        let line = "megabytes=3.2164 real_seconds=1.00 rate_Mbps=27.0031 tx_cpu=94 rx_cpu=33 \
                    drop=6956 pkt=194324 data_loss=3.57935";
        let reading = read(line, 18).unwrap();
        // 194324 less 6956 in about a second.
        assert!((reading.datagrams_per_second.unwrap() / 187_368.0 - 1.0).abs() < 0.01);
        assert!(read("nuttcp-t: Error: server not ACKing data", 18).is_err());
    }
}
