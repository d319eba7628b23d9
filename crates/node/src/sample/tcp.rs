//! TCP counters of the network namespace: `/proc/net/snmp` (RFC 4022; proc_pid_net(5)).

use std::path::Path;

use vioperf_model::sample::TcpCounters;

use super::ReadError;
use super::kept_file::KeptFile;

pub(super) struct Reader {
    file: KeptFile,
}

impl Reader {
    /// Of the calling thread's namespace: `/proc/net` would be that of the process's first thread.
    pub(super) fn open(proc: &Path) -> Result<Self, ReadError> {
        let mut reader = Self { file: KeptFile::open(&proc.join("thread-self/net/snmp"))? };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<TcpCounters, ReadError> {
        self.file.parse(parse)
    }
}

/// Reads the two `Tcp:` lines: first the names of the columns, then their values.
fn parse(text: &str) -> Result<TcpCounters, String> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let names = lines.next().ok_or("no line `Tcp:`")?;
    let values = lines.next().ok_or("no second line `Tcp:`")?;
    let counter = |wanted: &str| {
        names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace())
            .find(|(name, _)| *name == wanted)
            .and_then(|(_, value)| value.parse().ok())
            .ok_or_else(|| format!("Tcp: {wanted}"))
    };
    Ok(TcpCounters {
        segments_received: counter("InSegs")?,
        segments_sent: counter("OutSegs")?,
        segments_retransmitted: counter("RetransSegs")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_columns_by_name() {
        let text = "Ip: InSegs\nIp: 99\nTcp: RtoMin MaxConn InSegs OutSegs RetransSegs InErrs\n\
                    Tcp: 200 -1 1000 18446744073709551615 3 0\nUdp: InDatagrams\nUdp: 5\n";
        let tcp = parse(text).unwrap();
        assert_eq!(tcp.segments_received, 1000);
        assert_eq!(tcp.segments_sent, u64::MAX);
        assert_eq!(tcp.segments_retransmitted, 3);
    }

    #[test]
    fn says_what_is_missing() {
        assert!(parse("Tcp: InSegs\nTcp: 5\n").unwrap_err().contains("OutSegs"));
        assert!(parse("Tcp: InSegs OutSegs\n").is_err());
    }

    #[test]
    fn reads_a_written_proc() {
        let proc = tempfile::tempdir().unwrap();
        let net = proc.path().join("thread-self/net");
        std::fs::create_dir_all(&net).unwrap();
        assert!(Reader::open(proc.path()).is_err());
        std::fs::write(net.join("snmp"), "Tcp: InSegs OutSegs RetransSegs\nTcp: 1 2 3\n").unwrap();
        assert_eq!(Reader::open(proc.path()).unwrap().read().unwrap().segments_sent, 2);
    }
}
