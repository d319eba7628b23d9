//! A machine with an sshd on it and no vioperf: the server's end of a [`Wire`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};

use super::Finished;
use super::machines::{Running, SERVER, Wire};
use super::mounts::{empty, in_private_mounts};

/// What its ordinary user is called.
pub const USER: &str = "tester";
/// Nobody else's.
const USER_ID: u32 = 61_234;

/// Gone when dropped.
pub struct Machine {
    folder: tempfile::TempDir,
    sshd: Running,
}

fn keygen(file: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(command.status().unwrap().success(), "ssh-keygen: is openssh-client installed?");
}

impl Machine {
    /// Its `/tmp` is an empty one, where no program runs if `noexec`.
    pub fn start(wire: &Wire, noexec: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("far")).unwrap();
        fs::create_dir(at("bin")).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(at("far"), fs::Permissions::from_mode(0o1777)).unwrap();
        keygen(&at("key"));
        keygen(&at("far/host-key"));
        fs::copy(at("key.pub"), at("far/key.pub")).unwrap();
        // The login shell says something before the command does, as some people's do.
        let config = "HostKey /var/tmp/host-key\nAuthorizedKeysFile /var/tmp/key.pub\n\
            StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n\
            ForceCommand echo welcome; eval \"$SSH_ORIGINAL_COMMAND\"\n";
        fs::write(at("far/sshd.conf"), config).unwrap();
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let users = format!("{users}{USER}:*:{USER_ID}:{USER_ID}::/var/tmp:/bin/sh\n");
        fs::write(at("passwd"), users).unwrap();
        let near = format!(
            "Host there\n HostName {SERVER}\n IdentityFile {}\n StrictHostKeyChecking no\n \
             UserKnownHostsFile /dev/null\n LogLevel ERROR\n BatchMode yes\n",
            at("key").display()
        );
        fs::write(at("ssh.conf"), near).unwrap();
        let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", at("ssh.conf").display());
        fs::write(at("bin/ssh"), ssh).unwrap();
        fs::set_permissions(at("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        let bind = |from: PathBuf, to: &str| {
            mount(Some(&from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        };
        let network = fs::File::open(format!("/run/netns/{}", wire.server())).unwrap();
        let mut sshd = in_private_mounts(|| {
            setns(&network, CloneFlags::CLONE_NEWNET).unwrap();
            empty(Path::new("/run"), MsFlags::empty(), "mode=755");
            fs::create_dir("/run/sshd").unwrap();
            bind(at("passwd"), "/etc/passwd");
            bind(at("far"), "/var/tmp");
            let flags = if noexec { MsFlags::MS_NOEXEC } else { MsFlags::empty() };
            empty(Path::new("/tmp"), flags, "mode=1777");
            let mut command = Command::new("/usr/sbin/sshd");
            command.args(["-D", "-e", "-f", "/var/tmp/sshd.conf"]);
            Running::start(command)
        });
        sshd.until("listening on");
        Self { folder, sshd }
    }

    fn vioperf(&self, wire: &Wire, arguments: &[&str]) -> Command {
        let mut command = Wire::vioperf(&wire.client(), &[&["test"], arguments].concat());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()));
        command
    }

    /// A test from the client's end, that runs.
    pub fn start_test(&self, wire: &Wire, arguments: &[&str]) -> Running {
        Running::start(self.vioperf(wire, arguments))
    }

    /// A test from the client's end, to its end.
    pub fn test(&self, wire: &Wire, arguments: &[&str]) -> Finished {
        self.start_test(wire, arguments).ends()
    }

    /// The nodes that run there.
    pub fn nodes(&self, wire: &Wire) -> Vec<String> {
        let pids = Command::new("ip").args(["netns", "pids", &wire.server()]).output().unwrap();
        let pids = String::from_utf8(pids.stdout).unwrap();
        let called = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
        let node = |called: &String| called.contains("/node\0remote-node");
        pids.split_ascii_whitespace().filter_map(called).filter(node).collect()
    }

    /// Files and directories of vioperf there.
    pub fn files(&self) -> Vec<PathBuf> {
        let root = PathBuf::from(format!("/proc/{}/root", self.sshd.pid()));
        let of = |folder: &str| fs::read_dir(root.join(folder)).unwrap();
        let all = of("tmp").chain(of("var/tmp")).map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("vioperf"))
            .collect()
    }
}
