//! Nothing of one trial is left for the next: needs root for network namespaces. A test file of its
//! own, as it counts what the whole process has open.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::time::Duration;

use nodes::{connected_pair, prepare_both, run};

fn threads_and_files() -> [usize; 2] {
    ["/proc/self/task", "/proc/self/fd"].map(|folder| std::fs::read_dir(folder).unwrap().count())
}

#[test]
fn no_thread_and_no_file_is_left_between_trials() {
    let (mut nodes, _) = connected_pair();
    let before = threads_and_files();
    for streams in [1, 4, 16] {
        prepare_both(&mut nodes, |_| {}, streams);
        run(&mut nodes, Duration::from_millis(30));
        assert_eq!(threads_and_files(), before);
    }
    let [sender, receiver] = &mut nodes;
    sender.hang_up().unwrap();
    receiver.hang_up().unwrap();
    let after = threads_and_files();
    assert!(after[0] < before[0] && after[1] < before[1], "{before:?} {after:?}");
}
