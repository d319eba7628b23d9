//! Nothing of one trial is left for the next: needs root for network namespaces. A test file of its
//! own, as it counts what the whole process has open.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::{connected_pair, prepare_both, run};

fn threads_and_files() -> [usize; 2] {
    ["/proc/self/task", "/proc/self/fd"].map(|folder| std::fs::read_dir(folder).unwrap().count())
}

/// A joined thread is listed for a moment longer.
fn await_at_most(expected: [usize; 2]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let now = threads_and_files();
        if now[0] <= expected[0] && now[1] <= expected[1] {
            return;
        }
        assert!(Instant::now() < deadline, "threads and files: {now:?}, expected {expected:?}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_thread_and_no_file_is_left_between_trials() {
    let (mut nodes, _) = connected_pair();
    let before = threads_and_files();
    for streams in [1, 4, 16] {
        prepare_both(&mut nodes, |_| {}, streams);
        run(&mut nodes, Duration::from_millis(30));
        await_at_most(before);
    }
    let [sender, receiver] = &mut nodes;
    sender.hang_up().unwrap();
    receiver.hang_up().unwrap();
    // Two threads, and both ends of two channels.
    await_at_most([before[0] - 2, before[1] - 4]);
}
