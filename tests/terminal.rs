//! What a person sees on a terminal while a run runs, and that it is gone afterwards.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::thread;

use nix::pty::{OpenptyResult, Winsize, openpty};
use support::world::World;

const COLUMNS: u16 = 70;

/// What a run writes to a terminal on standard error.
fn on_a_terminal(world: &World, arguments: &[&str]) -> String {
    let size = Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
    let mut command = world.command(arguments);
    command.env("TERM", "xterm-256color").stdout(Stdio::null()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The terminal ends when nobody has it any more.
    drop(command);
    let reader = thread::spawn(move || {
        let (mut terminal, mut written, mut piece) = (File::from(master), Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = terminal.read(&mut piece) {
            written.extend_from_slice(&piece[..length]);
        }
        written
    });
    assert!(child.wait().unwrap().success());
    String::from_utf8(reader.join().unwrap()).unwrap()
}

/// The screen once that was written to it.
fn screen(written: &str) -> String {
    let mut terminal = vt100::Parser::new(24, COLUMNS, 0);
    terminal.process(written.as_bytes());
    terminal.screen().contents()
}

#[test]
fn a_run_shows_where_it_is_and_nothing_of_that_is_left() {
    let world = World::with_baselines("[factors]\nstreams = [1, 2]\n");
    let written = on_a_terminal(
        &world,
        &["run", "baselines.toml", "--out=run", "--blocks=2", "--set=duration=2s"],
    );
    // Every moment that was drawn, as the screen showed it then.
    let moments = shown(&written);
    let rate = moments.iter().find(|screen| screen.contains("bit/s"));
    let rate = rate.unwrap_or_else(|| panic!("no rate was shown:\n{written}"));
    for word in ["baselines  ", "trial ", " of 4, block ", "cores   host ", "baseline/"] {
        assert!(rate.contains(word), "{word:?} is not shown:\n{rate}");
    }
    assert!(written.contains(" left"), "the time that is left was never told:\n{written}");
    let end = screen(&written);
    assert!(!end.contains("block ") && !end.contains("cores "), "left behind:\n{end}");
    assert!(end.contains("baselines: 2 cells x 2 blocks"), "{end}");
}

/// The screen each time a line of cores had been drawn.
fn shown(written: &str) -> Vec<String> {
    written.match_indices("host ").map(|(end, word)| screen(&written[..end + word.len()])).collect()
}

#[test]
fn a_file_gets_a_line_a_trial() {
    let world = World::with_baselines("[factors]\nstreams = [1, 2]\n");
    let stderr = world.vioperf(&["run", "baselines.toml", "--blocks=2"]).succeeded().stderr;
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.contains("/4] baseline/")).count(), 4, "{stderr}");
}
