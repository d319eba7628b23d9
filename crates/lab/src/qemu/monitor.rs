//! QEMU's monitor protocol (QMP): one JSON object a line, answers matched to commands, events kept.
//!
//! A small client of our own: every read has a deadline, a line has a longest length, unknown events
//! are just names, and descriptors can be sent along. Source: `docs/interop/qmp-spec.rst` of QEMU.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};

/// The longest line accepted. The longest answers that we ask for are some KiB.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Most events kept for [`Monitor::event_seen`]; older ones are forgotten.
const MAX_EVENTS: usize = 256;

/// Why the monitor did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// QEMU is gone, or has closed its monitor.
    #[error("QEMU closed its monitor")]
    Closed,
    /// No answer in time.
    #[error("QEMU did not answer `{command}` within {} ms", .bound.as_millis())]
    TimedOut {
        /// The command.
        command: String,
        /// How long was waited.
        bound: Duration,
    },
    /// QEMU's own error.
    #[error("QEMU refuses `{command}`: {description}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's description.
        description: String,
    },
    /// What came is not QMP.
    #[error("QEMU's monitor says something that is not QMP: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The socket failed.
    #[error("QEMU's monitor: {0}")]
    Io(io::Error),
}

impl From<io::Error> for MonitorError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// A connection to the monitor of one QEMU.
#[derive(Debug)]
pub struct Monitor {
    stream: UnixStream,
    received: Vec<u8>,
    events: VecDeque<Value>,
    next_id: u64,
}

impl Monitor {
    /// Takes QEMU's greeting and leaves negotiation mode.
    pub fn connect(stream: UnixStream, bound: Duration) -> Result<Self, MonitorError> {
        let mut monitor =
            Self { stream, received: Vec::new(), events: VecDeque::new(), next_id: 0 };
        let deadline = Instant::now() + bound;
        let greeting = monitor.line("the greeting", deadline, bound)?;
        if greeting.get("QMP").is_none() {
            return Err(MonitorError::Malformed { reason: "no greeting".to_owned() });
        }
        monitor.execute("qmp_capabilities", &json!({}), bound)?;
        Ok(monitor)
    }

    /// Runs a command and returns its answer. Arguments that are `null` are left out.
    pub fn execute(
        &mut self,
        command: &str,
        arguments: &Value,
        bound: Duration,
    ) -> Result<Value, MonitorError> {
        self.execute_with(command, arguments, None, bound)
    }

    /// Hands QEMU a descriptor under a name (`getfd`).
    pub fn send_descriptor(
        &mut self,
        name: &str,
        descriptor: BorrowedFd<'_>,
        bound: Duration,
    ) -> Result<(), MonitorError> {
        self.execute_with("getfd", &json!({ "fdname": name }), Some(descriptor), bound).map(drop)
    }

    fn execute_with(
        &mut self,
        command: &str,
        arguments: &Value,
        descriptor: Option<BorrowedFd<'_>>,
        bound: Duration,
    ) -> Result<Value, MonitorError> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "execute": command, "arguments": arguments, "id": id });
        self.stream.set_write_timeout(Some(bound.max(Duration::from_millis(1))))?;
        self.send(format!("{request}\n").as_bytes(), descriptor)?;
        let deadline = Instant::now() + bound;
        loop {
            let mut answer = self.line(command, deadline, bound)?;
            if answer.get("event").is_some() {
                self.keep(answer);
            } else if answer.get("id").and_then(Value::as_u64) == Some(id) {
                if let Some(error) = answer.get("error") {
                    let description = error.get("desc").and_then(Value::as_str).unwrap_or("?");
                    return Err(MonitorError::Refused {
                        command: command.to_owned(),
                        description: description.to_owned(),
                    });
                }
                return Ok(answer.get_mut("return").map(Value::take).unwrap_or_default());
            }
            // Else: the late answer to a command that timed out.
        }
    }

    /// True when an event of that name has come since the start; never waits.
    pub fn event_seen(&mut self, name: &str) -> bool {
        while let Ok(message) = self.line("", Instant::now(), Duration::ZERO) {
            if message.get("event").is_some() {
                self.keep(message);
            }
        }
        self.events.iter().any(|event| event.get("event").and_then(Value::as_str) == Some(name))
    }

    fn send(&mut self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let Some(descriptor) = descriptor else { return self.stream.write_all(bytes) };
        let descriptors = [descriptor.as_raw_fd()];
        let sent = sendmsg::<()>(
            self.stream.as_raw_fd(),
            &[IoSlice::new(bytes)],
            &[ControlMessage::ScmRights(&descriptors)],
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        self.stream.write_all(bytes.get(sent..).unwrap_or_default())
    }

    fn keep(&mut self, event: Value) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next line, read until `deadline`.
    fn line(
        &mut self,
        command: &str,
        deadline: Instant,
        bound: Duration,
    ) -> Result<Value, MonitorError> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|error| MonitorError::Malformed { reason: error.to_string() });
            }
            if self.received.len() > MAX_LINE_BYTES {
                return Err(MonitorError::Malformed { reason: "an endless line".to_owned() });
            }
            // A time-out of zero would mean none at all.
            let left = deadline.saturating_duration_since(Instant::now());
            self.stream.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
            let mut buffer = [0; 16 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(MonitorError::Closed),
                Ok(length) => {
                    self.received.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        let command = command.to_owned();
                        return Err(MonitorError::TimedOut { command, bound });
                    }
                    _ => return Err(error.into()),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);

    /// A monitor that answers each command with the next of `answers`, `ID` replaced.
    fn scripted(answers: &'static [&'static str]) -> Result<Monitor, MonitorError> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let mut theirs = theirs;
            theirs.write_all(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
            let capabilities = ["{\"return\": {}, \"id\": ID}"];
            for answer in capabilities.iter().chain(answers) {
                let Some(Ok(line)) = lines.next() else { return };
                let id = serde_json::from_str::<Value>(&line).unwrap()["id"].to_string();
                let _ = theirs.write_all(answer.replace("ID", &id).as_bytes());
                let _ = theirs.write_all(b"\r\n");
            }
            let _ = lines.next();
        });
        Monitor::connect(ours, BOUND)
    }

    #[test]
    fn answers_find_their_commands_and_events_are_kept() {
        let mut monitor = scripted(&[
            "{\"event\": \"NEVER_HEARD_OF\", \"data\": {}}\r\n{\"return\": 1, \"id\": 0}\r\n{\"return\": 7, \"id\": ID}",
        ])
        .unwrap();
        assert_eq!(monitor.execute("query-x", &json!({}), BOUND).unwrap(), json!(7));
        assert!(monitor.event_seen("NEVER_HEARD_OF") && !monitor.event_seen("STOP"));
    }

    #[test]
    fn refusals_carry_the_words_of_qemu() {
        let mut monitor = scripted(&[
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no bus\"}, \"id\": ID}",
        ])
        .unwrap();
        let error = monitor.execute("device_add", &json!({}), BOUND).unwrap_err();
        assert_eq!(error.to_string(), "QEMU refuses `device_add`: no bus");
    }

    #[test]
    fn silence_nonsense_and_the_end_are_told_apart() {
        let mut monitor = scripted(&["{\"event\": \"STOP\"}"]).unwrap();
        let error = monitor.execute("x", &json!({}), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, MonitorError::TimedOut { .. }), "{error}");
        let mut monitor = scripted(&["<html>"]).unwrap();
        let error = monitor.execute("x", &json!({}), BOUND).unwrap_err();
        assert!(matches!(error, MonitorError::Malformed { .. }), "{error}");
        let mut monitor = scripted(&[]).unwrap();
        let error = monitor.execute("x", &json!({}), BOUND).unwrap_err();
        assert!(matches!(error, MonitorError::Closed), "{error}");
    }
}
