//! A third machine: it gets to a hypervisor and to its guest by the network alone, and to the hypervisor's libvirt by an sshd
//! there.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::libvirtd::{ADDRESS, Hypervisor, keygen};
use super::machines::Running;
use super::{Finished, VIOPERF};

/// Nothing of a test waits longer for anything.
const BOUND: Duration = Duration::from_secs(150);

/// Gone when dropped.
pub struct Client<'a> {
    hypervisor: &'a Hypervisor,
    /// Has the network.
    machine: Running,
    _sshd: Running,
}

impl<'a> Client<'a> {
    /// On the bridge that the guest is on, with an address of its own.
    pub fn start(hypervisor: &'a Hypervisor) -> Self {
        let sshd = start_sshd(hypervisor);
        let mut machine = Command::new("unshare");
        machine.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo is there >&2 && exec sleep 3600",
        ]);
        let mut machine = Running::start(machine);
        machine.until("is there");
        let client = Self { hypervisor, machine, _sshd: sshd };
        let pid = client.machine.pid().to_string();
        let on_hypervisor = ["--target", &hypervisor.first_process(), "--net", "sh", "-c"];
        run(
            &on_hypervisor,
            &format!(
                "ip link add far type veth peer name wire netns {pid} && ip link set far master br0 up"
            ),
        );
        let here = ["--target", &pid, "--net", "sh", "-c"];
        run(&here, "ip addr add 192.0.2.20/24 dev wire && ip link set wire up");
        client
    }

    /// The hypervisor's libvirt, with the key that is needed to get there and that ssh does not know of itself.
    pub fn uri(&self) -> String {
        let key = self.hypervisor.path("key");
        format!("qemu+ssh://root@{ADDRESS}/system?keyfile={}&no_verify=1", key.display())
    }

    /// A vioperf there, to its end.
    #[track_caller]
    pub fn vioperf(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.machine.pid().to_string(), "--net", VIOPERF])
            .args(arguments);
        self.hypervisor.at_home(&mut command);
        Running::start(command).ends_within(BOUND)
    }
}

fn run(place: &[&str], script: &str) {
    let done = Command::new("nsenter").args(place).arg(script).status().unwrap();
    assert!(done.success(), "{script}");
}

fn start_sshd(hypervisor: &Hypervisor) -> Running {
    keygen(&hypervisor.path("hypervisor-key"));
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nListenAddress {ADDRESS}\n\
         PermitRootLogin prohibit-password\n",
        hypervisor.path("hypervisor-key").display(),
        hypervisor.path("key.pub").display(),
    );
    let file = hypervisor.path("sshd.conf");
    fs::write(&file, config).unwrap();
    let mut sshd = hypervisor.inside("sh");
    sshd.args(["-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f \"$0\""]).arg(file);
    let mut sshd = Running::start(sshd);
    sshd.until("listening on");
    sshd
}
