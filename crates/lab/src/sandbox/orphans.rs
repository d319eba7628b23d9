//! Finding zombies that nobody will wait for.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// Zombies of this PID 1 that it did not start itself.
///
/// Every endpoint and guest leads a session of its own. So what an endpoint left behind has a session
/// that is neither PID 1's nor its own, and what this program started has one or the other; the latter
/// must not be touched, its starter waits for it.
pub(super) fn left_by_endpoints(proc: &Path) -> Vec<Pid> {
    let own_session = own_session(proc);
    zombies(proc, |pid, found| found.session != pid && Some(found.session) != own_session)
}

/// Zombies of this PID 1 that are of a session outside of its namespace, which is shown as 0.
pub(super) fn left_by_visitors(proc: &Path) -> Vec<Pid> {
    zombies(proc, |_, found| found.session == 0)
}

fn own_session(proc: &Path) -> Option<i32> {
    stat(&proc.join("self/stat")).map(|own| own.session)
}

fn zombies(proc: &Path, is_wanted: impl Fn(i32, &Stat) -> bool) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            stat(&proc.join(pid.to_string()).join("stat")).is_some_and(|found| {
                found.state == 'Z' && found.parent == 1 && is_wanted(*pid, &found)
            })
        })
        .map(Pid::from_raw)
        .collect()
}

struct Stat {
    state: char,
    parent: i32,
    session: i32,
}

/// The fields of `/proc/<pid>/stat` that matter here; the name before them may hold anything.
fn stat(path: &Path) -> Option<Stat> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, parent, session })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_endpoint_left_behind_is_found() {
        let proc = tempfile::tempdir().unwrap();
        let write = |pid: &str, text: &str| {
            fs::create_dir(proc.path().join(pid)).unwrap();
            fs::write(proc.path().join(pid).join("stat"), text).unwrap();
        };
        write("self", "1 (vioperf) S 0 0 0 0 -1");
        write("20", "20 (endpoint) Z 1 20 20 0 -1");
        write("21", "21 (left ) behind) Z 1 20 20 0 -1");
        write("22", "22 (still running) S 1 20 20 0 -1");
        write("23", "23 (own helper) Z 1 0 0 0 -1");
        write("24", "24 (another's) Z 20 20 20 0 -1");
        assert_eq!(left_by_endpoints(proc.path()), [Pid::from_raw(21)]);
        assert_eq!(left_by_visitors(proc.path()), [Pid::from_raw(23)]);
    }
}
