//! 64-bit counters of every interface but loopback: `/proc/net/dev` (proc_pid_net(5)).
//!
//! The same numbers as rtnetlink's `IFLA_STATS64`, at a sixth of the cost, which a slow guest feels.

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_model::sample::InterfaceCounters;

use super::ReadError;
use super::kept_file::KeptFile;

pub(super) struct Reader {
    file: KeptFile,
}

impl Reader {
    /// Of the calling thread's namespace: `/proc/net` would be that of the process's first thread.
    pub(super) fn open(proc: &Path) -> Result<Self, ReadError> {
        let mut reader = Self { file: KeptFile::open(&proc.join("thread-self/net/dev"))? };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<BTreeMap<String, InterfaceCounters>, ReadError> {
        self.file.parse(parse)
    }
}

/// Reads the lines below the two of headings; a name cannot contain the colon that ends it.
fn parse(text: &str) -> Result<BTreeMap<String, InterfaceCounters>, String> {
    let lines = text.lines().skip(2).filter(|line| !line.trim_start().starts_with("lo:"));
    lines.map(|line| parse_line(line).ok_or_else(|| line.to_owned())).collect()
}

/// Eight columns of receiving (bytes, packets, errs, drop, fifo, frame, compressed, multicast),
/// then eight of sending, of which the first four are alike.
fn parse_line(line: &str) -> Option<(String, InterfaceCounters)> {
    let (name, counters) = line.split_once(':')?;
    let mut words = counters.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    let [rx_bytes, rx_packets, rx_errors, rx_dropped] = [next()?, next()?, next()?, next()?];
    let mut words = counters.split_ascii_whitespace().skip(8);
    let mut next = || words.next()?.parse().ok();
    let [tx_bytes, tx_packets, tx_errors, tx_dropped] = [next()?, next()?, next()?, next()?];
    let counters = InterfaceCounters {
        rx_bytes,
        rx_packets,
        rx_dropped,
        rx_errors,
        tx_bytes,
        tx_packets,
        tx_dropped,
        tx_errors,
    };
    Some((name.trim().to_owned(), counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: &str = "Inter-|   Receive                |  Transmit\n \
                            face |bytes packets errs drop |bytes packets\n";

    #[test]
    fn reads_every_interface_but_loopback() {
        let text = format!(
            "{HEADINGS}    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  \
             eth0:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
        );
        let interfaces = parse(&text).unwrap();
        assert_eq!(interfaces.len(), 1);
        let eth0 = interfaces["eth0"];
        assert_eq!((eth0.rx_bytes, eth0.rx_errors, eth0.rx_dropped), (u64::MAX, 3, 4));
        assert_eq!((eth0.tx_bytes, eth0.tx_packets), (9, 10));
        assert_eq!((eth0.tx_errors, eth0.tx_dropped), (11, 12));
        assert!(parse(HEADINGS).unwrap().is_empty());
    }

    #[test]
    fn says_which_line_it_does_not_understand() {
        for line in ["eth0: 1 2 3", "eth0 1 2 3", "eth0: 1 2 3 4 5 6 7 8 9 10 11 x"] {
            assert_eq!(parse(&format!("{HEADINGS}{line}\n")).unwrap_err(), line);
        }
    }

    #[test]
    fn reads_a_written_proc() {
        let proc = tempfile::tempdir().unwrap();
        assert!(Reader::open(proc.path()).is_err());
        let net = proc.path().join("thread-self/net");
        std::fs::create_dir_all(&net).unwrap();
        std::fs::write(net.join("dev"), HEADINGS).unwrap();
        assert!(Reader::open(proc.path()).unwrap().read().unwrap().is_empty());
    }
}
