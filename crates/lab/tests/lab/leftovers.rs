//! Looking for what a lab left behind. Every process of a lab inherits a token in its environment.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// The variable with the token.
pub const TOKEN: &str = "VIOPERF_LAB_TEST";

/// Processes whose environment carries the token, zombies aside.
pub fn processes(token: &str) -> Vec<i32> {
    let wanted = format!("{TOKEN}={token}");
    pids()
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
        })
        .collect()
}

/// The network namespaces that some process is in, as `/proc/<pid>/ns/net` names them.
pub fn namespaces_in_use() -> BTreeSet<String> {
    pids()
        .filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
        .map(|link| link.display().to_string())
        .collect()
}

/// The names of the interfaces out here.
pub fn links() -> BTreeSet<String> {
    let mut socket = vioperf_netlink::Socket::open().unwrap();
    socket.links().unwrap().into_iter().map(|link| link.name).collect()
}

/// Waits, at most five seconds, until nothing carries the token any more.
#[track_caller]
pub fn assert_gone(token: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = processes(token);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes {left:?} of {token} are left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
