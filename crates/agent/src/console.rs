//! The guest's console: where the last words go.

use std::fs::OpenOptions;
use std::io::Write;

/// Says one line. If nobody hears it there is nothing more to be done.
pub fn say(line: &str) {
    let line = format!("vioperf-agent: {}\n", line.replace('\n', " "));
    let console = OpenOptions::new().write(true).open("/dev/console");
    let written = console.and_then(|mut console| console.write_all(line.as_bytes()));
    if written.is_err() {
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
