//! Nothing of one trial is left for the next: needs root for network namespaces. A test file of its
//! own, as it counts what the whole process has open.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::time::Duration;

use nodes::{await_at_most, connected_pair, prepare_both, run, threads_and_files};

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
