//! What the ports of an Open vSwitch counted: `dpctl/show -s`, asked of ovs-vswitchd by its control socket
//! (ovs-appctl(8), ovs-dpctl(8); JSON-RPC 1.0, `lib/unixctl.c`). The statistics in its database are up to five
//! seconds old, those are not.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use vioperf_model::sample::{InterfaceCounters, OpenVswitchCounters};

/// It answers within microseconds, unless it is stuck.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// An answer of a thousand ports has a tenth of that.
const MOST_BYTES: u64 = 4 << 20;
const MOST_PORTS: usize = 256;

/// Why it did not tell.
#[derive(Debug, thiserror::Error)]
pub(super) enum SwitchError {
    #[error("{}: {source}; does ovs-vswitchd run?", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("ovs-vswitchd: not understood: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("ovs-vswitchd refuses: {0}")]
    Refused(serde_json::Value),
    #[error("ovs-vswitchd tells of no datapath")]
    Nothing,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    error: serde_json::Value,
    #[serde(default)]
    result: serde_json::Value,
}

/// `database` is the socket of the database: that of ovs-vswitchd is beside it.
pub(super) fn read(database: &Path) -> Result<OpenVswitchCounters, SwitchError> {
    let folder = database.parent().unwrap_or(database);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SwitchError::Socket { path, source }
    };
    let control = control_socket(folder).map_err(failed(folder))?;
    let asked = ask(&control).map_err(failed(&control));
    let answer: Answer = serde_json::from_slice(&asked?)?;
    match answer.result.as_str() {
        Some(text) if answer.error.is_null() => parse(text).ok_or(SwitchError::Nothing),
        _ => Err(SwitchError::Refused(answer.error)),
    }
}

/// `ovs-vswitchd.PID.ctl` of one that the system started, `vswitchd.ctl` of a lab's own.
fn control_socket(folder: &Path) -> io::Result<PathBuf> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of_daemon = name.starts_with("ovs-vswitchd.") && name.ends_with(".ctl");
        if of_daemon || name == "vswitchd.ctl" {
            return Ok(path);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The connection stays open, so that the answer ends where it is whole.
fn ask(control: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
    let request = json!({ "id": 0, "method": "dpctl/show", "params": ["-s"] });
    stream.write_all(request.to_string().as_bytes())?;
    let began = Instant::now();
    let (mut answer, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        let left = ANSWERS_WITHIN.saturating_sub(began.elapsed());
        if left.is_zero() || answer.len() as u64 > MOST_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        answer.extend_from_slice(part.get(..length).unwrap_or_default());
        // A brace inside its text is escaped by nobody, so a whole answer is one that parses.
        let may_be_whole = answer.trim_ascii_end().ends_with(b"}");
        if length == 0 || (may_be_whole && serde_json::from_slice::<Answer>(&answer).is_ok()) {
            return Ok(answer);
        }
    }
}

/// Datapaths, their ports indented, and what a port counted further indented below it. A `?` is what the
/// datapath does not know.
fn parse(text: &str) -> Option<OpenVswitchCounters> {
    let mut counters = OpenVswitchCounters::default();
    let mut ports: BTreeMap<String, InterfaceCounters> = BTreeMap::new();
    let mut port: Option<String> = None;
    let mut is_told = false;
    for line in text.lines() {
        let line = line.trim();
        let field = |name: &str| -> Option<u64> {
            let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name))?;
            word.parse().ok()
        };
        let or_zero = |name: &str| field(name).unwrap_or(0);
        if line.starts_with("lookups:") {
            is_told = true;
            counters.hits = counters.hits.saturating_add(or_zero("hit:"));
            counters.misses = counters.misses.saturating_add(or_zero("missed:"));
            counters.lost = counters.lost.saturating_add(or_zero("lost:"));
        } else if let Some(rest) = line.strip_prefix("port ") {
            let name = rest.split_ascii_whitespace().nth(1);
            port = name.filter(|_| ports.len() < MOST_PORTS).map(str::to_owned);
        } else if let Some(name) = &port {
            let of_port = ports.entry(name.clone()).or_default();
            if line.starts_with("RX packets:") {
                of_port.rx_packets = or_zero("packets:");
                of_port.rx_errors = or_zero("errors:");
                of_port.rx_dropped = or_zero("dropped:");
            } else if line.starts_with("TX packets:") {
                of_port.tx_packets = or_zero("packets:");
                of_port.tx_errors = or_zero("errors:");
                of_port.tx_dropped = or_zero("dropped:");
            } else if line.starts_with("RX bytes:") {
                let bytes = |way: &str| {
                    let word = line.split(way).nth(1)?.split_ascii_whitespace().next()?;
                    word.strip_prefix("bytes:")?.parse().ok()
                };
                of_port.rx_bytes = bytes("RX ").unwrap_or(0);
                of_port.tx_bytes = bytes("TX ").unwrap_or(0);
            }
        }
    }
    counters.ports = ports;
    is_told.then_some(counters)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const SHOWN: &str = "netdev@ovs-netdev:\n  lookups: hit:812 missed:6 lost:1\n  flows: 2\n  \
        port 0: ovs-netdev (tap)\n    RX packets:0 errors:0 dropped:? overruns:0 frame:0\n    \
        TX packets:0 errors:0 dropped:4 aborted:0 carrier:0\n    collisions:0\n    RX bytes:0  TX bytes:0\n  \
        port 2: tap0 (packet-type=ptap)\n    RX packets:5 errors:1 dropped:2 overruns:0 frame:0\n    \
        TX packets:7 errors:0 dropped:3 aborted:0 carrier:0\n    collisions:0\n    \
        RX bytes:5120 (5.0 KiB)  TX bytes:7168 (7.0 KiB)\n";

    #[test]
    fn ports_are_read_with_what_they_dropped() {
        let read = parse(SHOWN).unwrap();
        assert_eq!((read.hits, read.misses, read.lost), (812, 6, 1));
        assert_eq!(read.ports["ovs-netdev"].tx_dropped, 4);
        let expected = InterfaceCounters {
            rx_bytes: 5120,
            rx_packets: 5,
            rx_dropped: 2,
            rx_errors: 1,
            tx_bytes: 7168,
            tx_packets: 7,
            tx_dropped: 3,
            tx_errors: 0,
        };
        assert_eq!(read.ports["tap0"], expected);
        assert_eq!(parse("no datapath"), None);
        assert!(parse("lookups: hit:x\n port\n port 9\n RX packets:1").unwrap().ports.is_empty());
    }

    /// Answers one question in these parts; the path is that of a database which nobody asks.
    fn answering(parts: Vec<String>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.sock");
        std::fs::write(folder.path().join("ovsdb-server.1.ctl"), "").unwrap();
        let listener = UnixListener::bind(folder.path().join("ovs-vswitchd.9.ctl")).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap();
            let request: serde_json::Value = serde_json::from_slice(&request[..length]).unwrap();
            assert_eq!(request["method"], "dpctl/show");
            for part in parts {
                stream.write_all(part.as_bytes()).unwrap();
                stream.flush().unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        (folder, path)
    }

    #[test]
    fn a_daemon_is_asked_by_its_socket() {
        let whole = json!({ "id": 0, "error": null, "result": SHOWN }).to_string();
        let (first, second) = whole.split_at(whole.len() / 2);
        let (_folder, path) = answering(vec![first.to_owned(), second.to_owned()]);
        assert_eq!(read(&path).unwrap(), parse(SHOWN).unwrap());
    }

    #[test]
    fn what_it_refuses_or_breaks_off_is_said() {
        let refused = json!({ "id": 0, "error": "no such command", "result": null }).to_string();
        let (_folder, path) = answering(vec![refused]);
        assert!(read(&path).unwrap_err().to_string().contains("no such command"));
        let (_folder, path) = answering(vec!["{\"id\":0,".to_owned()]);
        assert!(matches!(read(&path), Err(SwitchError::Answer(_))));
        let gone = read(Path::new("/none/db.sock")).unwrap_err().to_string();
        assert!(gone.contains("/none"), "{gone}");
        let alone = tempfile::tempdir().unwrap();
        let silent = read(&alone.path().join("db.sock")).unwrap_err().to_string();
        assert!(silent.contains("does ovs-vswitchd run?"), "{silent}");
    }
}
