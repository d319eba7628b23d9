//! What a run may leave on the machine: processes, namespaces, links, mounts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Every process of a run inherits this variable with a value of the run's own.
pub const TOKEN: &str = "VIOPERF_TEST_RUN";

/// How long the kernel may take to finish with what a killed run had.
const KERNEL_FINISHES: Duration = Duration::from_secs(2);

/// The host outside of any lab, before a run.
#[derive(Debug)]
pub struct Host {
    links: BTreeSet<String>,
    named_namespaces: BTreeSet<String>,
    namespace_mounts: BTreeSet<String>,
}

impl Host {
    pub fn look() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self {
            // Of the calling thread: a test may have gone into a namespace.
            links: interfaces_in("thread-self").into_iter().map(|(name, _)| name).collect(),
            named_namespaces: names_in(Path::new("/run/netns")),
            namespace_mounts: mounts
                .lines()
                .filter(|line| line.contains(" - nsfs "))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// What is here now and was not before, and the links that were and are not. (Others may take
    /// their own namespaces away meanwhile.)
    fn difference(&self, before: &Self) -> Vec<String> {
        let links = self.links.symmetric_difference(&before.links);
        let named = self.named_namespaces.difference(&before.named_namespaces);
        let mounted = self.namespace_mounts.difference(&before.namespace_mounts);
        links.chain(named).chain(mounted).cloned().collect()
    }

    /// Nothing with this token, and none of the namespaces, lives on; the host is as it was.
    pub fn assert_unchanged(&self, token: &str, namespaces: &BTreeSet<String>) {
        let ended = uptime_ticks();
        let deadline = Instant::now() + KERNEL_FINISHES;
        loop {
            let processes = processes(token);
            let held: Vec<String> = holders(namespaces, ended);
            let changed = Self::look().difference(self);
            if processes.is_empty() && held.is_empty() && changed.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "left behind: processes {:?}, namespaces of {held:?}, changed: {changed:?}",
                processes.iter().map(|&pid| described(pid)).collect::<Vec<_>>(),
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Processes whose environment carries the token.
pub fn processes(token: &str) -> Vec<i32> {
    let wanted = format!("{TOKEN}={token}");
    let carries = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    pids().filter(carries).collect()
}

/// The namespaces of a process that are not this program's own.
pub fn namespaces_of(pid: i32) -> Vec<String> {
    ["net", "mnt", "pid", "user"]
        .into_iter()
        .filter_map(|kind| {
            let link = |of: &str| fs::read_link(format!("/proc/{of}/ns/{kind}")).ok();
            let theirs = link(&pid.to_string())?;
            (Some(&theirs) != link("thread-self").as_ref()).then(|| theirs.display().to_string())
        })
        .collect()
}

/// Interfaces and the bytes each moved, as process `of` sees them.
pub fn interfaces_in(of: &str) -> Vec<(String, u64)> {
    let text = fs::read_to_string(format!("/proc/{of}/net/dev")).unwrap_or_default();
    let parse = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let words: Vec<&str> = counters.split_ascii_whitespace().collect();
        let bytes = |column: usize| words.get(column)?.parse::<u64>().ok();
        Some((name.trim().to_owned(), bytes(0)? + bytes(8)?))
    };
    text.lines().skip(2).filter_map(parse).collect()
}

/// Processes in one of the namespaces that were there before the run had ended. The kernel gives a
/// namespace's number to the next one that is made, so one in a younger process is not the run's.
fn holders(namespaces: &BTreeSet<String>, ended: u64) -> Vec<String> {
    pids()
        .filter(|&pid| started(pid).is_some_and(|ticks| ticks + 1 < ended))
        .filter(|&pid| namespaces_of(pid).iter().any(|one| namespaces.contains(one)))
        .map(described)
        .collect()
}

/// When a process was started, in clock ticks since boot.
pub fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 2..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The words of a process's command line.
pub fn command_line(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn described(pid: i32) -> String {
    format!("{pid} {}", command_line(pid).join(" ").chars().take(200).collect::<String>())
}

fn uptime_ticks() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    let (seconds, rest) = text.split_once('.').unwrap();
    // USER_HZ is 100 on every Linux that vioperf runs on.
    seconds.parse::<u64>().unwrap() * 100 + rest[..2].parse::<u64>().unwrap()
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
