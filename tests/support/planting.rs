//! Planting drops and witnesses into the namespaces of a lab that runs.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::running::Run;
use super::traces;

/// A network namespace of a lab. It lives on as long as this, and with it what packet filters in it
/// have counted.
pub struct Inside {
    namespace: File,
    pid: Pid,
}

/// Those of a lab.
pub struct Namespaces {
    /// The bridge and its ports.
    pub switch: Inside,
    /// The far end.
    pub peer: Inside,
    /// The near end of a baseline.
    pub second: Inside,
}

impl Namespaces {
    /// Those of a lab whose endpoints have their links; none where it is not so far.
    pub fn of(run: &Run) -> Option<Self> {
        let (mut switch, mut peer, mut second) = (None, None, None);
        for pid in run.processes() {
            let interfaces = traces::interfaces_in(&pid.to_string());
            let has = |name: &str| interfaces.iter().any(|(found, _)| found == name);
            if has("vioperf0") && has("peer") && has("second") {
                switch = Inside::of(pid);
            } else if has("eth0") {
                let inside = Inside::of(pid)?;
                // The endpoints' addresses end in their numbers.
                match inside.run("ip", &["-o", "link", "show", "eth0"], "").as_str() {
                    said if said.contains("52:54:e0:00:00:01") => peer = Some(inside),
                    said if said.contains("52:54:e0:00:00:02") => second = Some(inside),
                    // Not in the lab, or not yet.
                    _ => {}
                }
            }
        }
        Some(Self { switch: switch?, peer: peer?, second: second? })
    }
}

impl Inside {
    fn of(pid: i32) -> Option<Self> {
        let namespace = File::open(format!("/proc/{pid}/ns/net")).ok()?;
        Some(Self { namespace, pid: Pid::from_raw(pid) })
    }

    /// Runs a program in there, which succeeds; what it printed.
    pub fn run(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let output = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.namespace, CloneFlags::CLONE_NEWNET).unwrap();
                let mut command = Command::new(program);
                command.args(arguments).env("PATH", path).stdin(Stdio::piped());
                let mut child =
                    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
                        |error| panic!("{program}: {error}; run `scripts/setup test`"),
                    );
                child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
                child.wait_with_output().unwrap()
            });
            thread.join().unwrap()
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Lets the process in there stand still for a while, as long as there is one.
    pub fn stand_still(&self, time: Duration) {
        for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
            let _ = kill(self.pid, signal);
            std::thread::sleep(if signal == Signal::SIGSTOP { time } else { Duration::ZERO });
        }
    }

    /// Lets packets that come to an interface be received on that core (RPS).
    pub fn steer_to_core(&self, interface: &str, core: u32) {
        // As the process in there sees it: /sys shows the links of a namespace.
        let steered =
            format!("/proc/{}/root/sys/class/net/{interface}/queues/rx-0/rps_cpus", self.pid);
        std::fs::write(steered, format!("{:x}", 1_u32 << core)).unwrap();
    }

    /// Loads rules of nft(8).
    pub fn rules(&self, rules: &str) {
        self.run("nft", &["-f", "-"], rules);
    }

    /// Packets that a named counter of its rules has counted.
    pub fn counted(&self, name: &str) -> u64 {
        self.counter(name, "packets")
    }

    /// Bytes that it has counted, from the header of IP on.
    pub fn counted_bytes(&self, name: &str) -> u64 {
        self.counter(name, "bytes")
    }

    fn counter(&self, name: &str, what: &str) -> u64 {
        let said = self.run("nft", &["-j", "list", "counters"], "");
        let said: Value = serde_json::from_str(&said).unwrap();
        let mut objects = said["nftables"].as_array().unwrap().iter();
        let found = objects.find_map(|object| {
            let counter = &object["counter"];
            (counter["name"] == name).then(|| counter[what].as_u64())
        });
        found.flatten().unwrap_or_else(|| panic!("no counter {name}: {said}"))
    }
}
