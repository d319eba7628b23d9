//! The last lines that a guest, QEMU or an endpoint wrote, kept in bounded memory.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most lines kept.
const MAX_LINES: usize = 200;

/// Most bytes kept of one line; a line that is longer is cut there.
const MAX_LINE_BYTES: usize = 400;

/// The last lines of a stream, filled by a thread of its own; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Tail(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    current: Vec<u8>,
    ended: bool,
}

impl Tail {
    /// Reads `stream` to its end on a new thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn follow(name: &str, stream: impl Read + Send + 'static) -> std::io::Result<Self> {
        let tail = Self::default();
        let filled = tail.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || filled.fill(stream))?;
        Ok(tail)
    }

    /// The lines kept, oldest first, the unfinished one last.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept();
        let mut lines: Vec<String> = kept.lines.iter().cloned().collect();
        if !kept.current.is_empty() {
            lines.push(printable(&kept.current));
        }
        lines
    }

    /// True when one of the lines kept contains `text`.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// Waits until the stream has ended, at most so long: what a dying process wrote last is read
    /// after it died.
    pub fn wait_for_end(&self, bound: Duration) {
        let deadline = Instant::now() + bound;
        let mut kept = self.kept();
        while !kept.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            kept = self
                .0
                .ended
                .wait_timeout(kept, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(kept, _)| kept);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, mut stream: impl Read) {
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.kept().take(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.kept().ended = true;
        self.0.ended.notify_all();
    }
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = printable(&self.current);
                self.current.clear();
                if self.lines.len() == MAX_LINES {
                    self.lines.pop_front();
                }
                self.lines.push_back(line);
            } else if self.current.len() < MAX_LINE_BYTES {
                self.current.push(byte);
            }
        }
    }
}

/// What a guest writes ends on a person's terminal: control characters must not.
fn printable(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .chars()
        .filter(|character| !character.is_control() || *character == '\t')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(bytes: Vec<u8>) -> Vec<String> {
        let tail = Tail::follow("test", std::io::Cursor::new(bytes)).unwrap();
        tail.wait_for_end(Duration::from_secs(5));
        tail.lines()
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..1000).map(|line| format!("line {line}\r\n")).collect();
        let lines = tail_of(text.into_bytes());
        assert_eq!((lines.len(), lines[0].as_str()), (MAX_LINES, "line 800"));
    }

    #[test]
    fn an_endless_line_and_control_characters_do_no_harm() {
        assert_eq!(tail_of(vec![b'x'; 1 << 20])[0].len(), MAX_LINE_BYTES);
        assert_eq!(tail_of(b"\x1b[2Jred\x07\xff".to_vec()), ["[2Jred\u{fffd}"]);
    }
}
