//! What a program prints, heard while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Listens to both streams of a child that has pipes for them.
pub struct Listener {
    lines: Receiver<String>,
    said: String,
    stdout: Option<JoinHandle<String>>,
}

impl Listener {
    pub fn of(child: &mut Child) -> Self {
        let mut stdout = child.stdout.take().unwrap();
        let stdout = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // One that failed is not listened to any more.
                let _ = tell.send(line);
            }
        });
        Self { lines, said: String::new(), stdout: Some(stdout) }
    }

    /// Reads on until a line has `word`, and gives that line; or says why there is none.
    pub fn until(&mut self, word: &str, deadline: Instant) -> Result<String, String> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.keep(&line);
                    if line.contains(word) {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(format!("it never said `{word}`")),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("it ended and never said `{word}`"));
                }
            }
        }
    }

    /// Everything that was said so far, and what comes until nothing comes for so long.
    pub fn said(&mut self, patience: Duration) -> &str {
        while let Ok(line) = self.lines.recv_timeout(patience) {
            self.keep(&line);
        }
        &self.said
    }

    /// Everything on the standard output, of a child that has ended.
    pub fn stdout(&mut self) -> String {
        self.stdout.take().map(|reader| reader.join().unwrap()).unwrap_or_default()
    }

    fn keep(&mut self, line: &str) {
        self.said.push_str(line);
        self.said.push('\n');
    }
}
