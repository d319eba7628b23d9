//! The lab as it is: namespaces, links and guests on this machine. Needs root (or user namespaces
//! and an open /dev/net/tun), QEMU, a guest kernel in vioperf's cache and the built agent.
//!
//! The program runs itself: `inside NAME` enters a sandbox and runs a scene there, `endpoint` is a
//! process of the lab. Without either it runs the tests, one after the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program")]

mod guests;
mod leftovers;
mod outside;
mod scenes;

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A test: its name and what it does.
pub type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["endpoint"] => endpoint(),
        ["inside", scene] => scenes::run(scene),
        others => run_tests(others),
    }
}

/// Answers every byte with the names of the interfaces it sees, until its channel ends.
fn endpoint() -> ExitCode {
    let mut byte = [0];
    while matches!(std::io::stdin().read(&mut byte), Ok(1)) {
        let mut socket = vioperf_netlink::Socket::open().unwrap();
        let names: Vec<String> =
            socket.links().unwrap().into_iter().map(|link| link.name).collect();
        println!("{}", names.join(" "));
    }
    ExitCode::SUCCESS
}

/// Like libtest: arguments that are no options choose tests by a part of their name.
fn run_tests(arguments: &[&str]) -> ExitCode {
    let chosen: Vec<&&str> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let tests = outside::TESTS
        .iter()
        .filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|part| name.contains(**part)));
    let mut failed = 0;
    for (name, test) in tests {
        let started = std::time::Instant::now();
        let verdict = match catch_unwind(AssertUnwindSafe(test)) {
            Ok(()) => "ok",
            Err(_) => {
                failed += 1;
                "FAILED"
            }
        };
        println!("test {name} ... {verdict} ({:.1} s)", started.elapsed().as_secs_f64());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
