//! neper: one program for each load.

use std::path::PathBuf;

use anyhow::Result;

use super::{Peer, on_path, value_of};
use crate::arena::SERVER;
use crate::contests::{Class, Load, Transport};
use crate::entry::{Entry, Outputs, Reader, Reading};
use crate::process::CommandLine;

/// Its server opens the port of data when a client has come.
const CONTROL_PORT: u16 = 12866;

pub struct Neper {
    /// The directory that its programs are in.
    folder: PathBuf,
}

impl Neper {
    pub fn find() -> Option<Self> {
        let program = on_path("tcp_rr").into_iter().next()?;
        Some(Self { folder: program.parent()?.to_path_buf() })
    }

    fn entry(&self, seconds: u16, program: &str, mode: &str, options: &str, read: Reader) -> Entry {
        let path = self.folder.join(program);
        // Both ends are told the sizes of what they exchange; no log goes to the current directory.
        let both = format!("--nolog {options} {mode} -l {seconds}");
        Entry {
            tool: self.name(),
            mode: mode.to_owned(),
            ours: false,
            class: Class::Ordinary,
            server: CommandLine::new(&path, &both),
            port: CONTROL_PORT,
            server_ends: true,
            client: CommandLine::new(&path, &format!("-c -H {SERVER} {both}")),
            seconds,
            read,
        }
    }
}

impl Peer for Neper {
    fn name(&self) -> String {
        // It has no version of its own.
        "neper".to_owned()
    }

    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry> {
        let received = |datagram: u16| -> Reader {
            Box::new(move |outputs: &Outputs<'_>| read_stream(outputs.client, seconds, datagram))
        };
        let transactions = || -> Reader { Box::new(|outputs| read_transactions(outputs.client)) };
        let requests = |bytes: u16| format!("-Q {bytes} -R {bytes}");
        match load {
            Load::TcpStreams(streams) => {
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                let options = format!("-F {streams} -T {}", threads.min(usize::from(streams)));
                ["", "-B 131072", "-B 131072 -Z --skip-rx-copy"]
                    .map(|mode| self.entry(seconds, "tcp_stream", mode, &options, received(0)))
                    .into()
            }
            Load::Datagrams(bytes) => {
                let options = format!("-B {bytes}");
                vec![self.entry(seconds, "udp_stream", "", &options, received(bytes))]
            }
            Load::Requests(transport, bytes) => {
                let program = match transport {
                    Transport::Tcp => "tcp_rr",
                    Transport::Udp => "udp_rr",
                };
                vec![self.entry(seconds, program, "", &requests(bytes), transactions())]
            }
            Load::Connections => {
                vec![self.entry(seconds, "tcp_crr", "", &requests(1), transactions())]
            }
            Load::Latency(..) => Vec::new(),
        }
    }
}

/// What the server received: bit/s, as the client was told.
fn read_stream(text: &str, seconds: u16, datagram: u16) -> Result<Reading> {
    let bits_per_second = value_of(text, "remote_throughput")?;
    Ok(Reading {
        bits_per_second: Some(bits_per_second),
        bytes: Some(bits_per_second / 8.0 * f64::from(seconds)),
        datagrams_per_second: (datagram > 0).then(|| bits_per_second / 8.0 / f64::from(datagram)),
        ..Reading::default()
    })
}

fn read_transactions(text: &str) -> Result<Reading> {
    let rate = value_of(text, "throughput")?;
    Ok(Reading { transactions_per_second: Some(rate), ..Reading::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read() {
        let stream = "total_run_time=1\nlocal_throughput=0\nremote_throughput=18328107\n";
        let reading = read_stream(stream, 1, 18).unwrap();
        assert!((reading.datagrams_per_second.unwrap() - 127_278.5).abs() < 1.0, "{reading:?}");
        let requests = "num_samples=5\ntime_end=12425.268438017\ncorrelation_coefficient=1.00\n\
                        throughput=28386.44\nlocal_throughput=28386\nremote_throughput=28376\n";
        let reading = read_transactions(requests).unwrap();
        assert_eq!(reading.transactions_per_second, Some(28_386.44));
        assert!(read_stream("", 1, 0).is_err());
    }
}
