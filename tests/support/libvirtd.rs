//! A private libvirtd with one domain: a guest under software emulation that sshd runs in, on a bridge of its
//! own. Nothing of it is to be seen outside of its namespaces, and all of it goes with them.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::MsFlags;

use super::machines::Running;
use super::mounts::{empty, in_private_mounts};
use super::world::{cached_kernel, kernel_cache};
use super::{Finished, VIOPERF};

/// What the domain is called.
pub const NAME: &str = "web";
/// The way to its guest.
pub const GUEST: &str = "ssh://root@192.0.2.10";
/// The hypervisor's, on the bridge that the guest is on.
pub const ADDRESS: &str = "192.0.2.1";
/// Of its interface.
pub const MAC: &str = "52:54:00:11:22:33";
pub const UUID: &str = "6f1c7a52-1111-4222-8333-444455556666";
/// Nothing of a test waits longer for anything.
const BOUND: Duration = Duration::from_secs(150);

/// What a guest of busybox is made of.
const TOOLS: &[&str] = &[
    "cat", "chmod", "echo", "head", "insmod", "ip", "mkdir", "mktemp", "mount", "poweroff", "rm",
    "rmdir", "sh", "sleep", "uname", "wc",
];
/// In the order in which they load.
const MODULES: &[&str] = &[
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
    "drivers/net/ethernet/intel/e1000/e1000",
    "drivers/net/mii",
    "drivers/net/ethernet/amd/pcnet32",
    "drivers/net/ethernet/realtek/8139cp",
    "drivers/char/virtio_console",
];

/// The guest's PID 1: its network (of several interfaces the last), sshd, and as much of a guest agent as shuts it down when
/// libvirt asks, unless its kernel was told to be stubborn.
const INIT: &str = r#"#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts; mount -t devpts pts /dev/pts
for m in /lib/modules/*.ko; do insmod $m; done
ip link set lo up
n=; while [ -z "$n" ]; do sleep 0.2; for d in /sys/class/net/e*; do [ -e $d ] && n=${d##*/}; done; done
ip addr add 192.0.2.10/24 dev $n; ip link set $n up
/usr/sbin/sshd -e -f /etc/sshd.conf
p=; while [ ! -e "$p" ]; do sleep 0.1; p=$(echo /dev/vport*p1); done
exec 3<>$p
while :; do
read -r line <&3 || { sleep 0.1; continue; }
case "$line" in
*guest-sync*) id=${line##*\"id\":}; id=${id%%\}*}; echo "{\"return\":$id}" >&3;;
*guest-shutdown*) case "$(cat /proc/cmdline)" in
*stubborn*) echo '{"error":{"class":"CommandNotFound","desc":"no"}}' >&3;;
*) poweroff -f;;
esac;;
*) echo '{"error":{"class":"CommandNotFound","desc":"no"}}' >&3;;
esac; done
"#;

/// What makes the bridge and runs libvirtd, in namespaces of its own: PID 1, so that all ends with it.
///
/// There is a second bridge, `br1`, which also is libvirt's network `wire`, and `port`, an interface that macvtap can be on:
/// both lead to the first one.
const PLACE: &str = "ip link set lo up && ip link add br0 type bridge && \
    ip addr add 192.0.2.1/24 dev br0 && ip link set br0 up && \
    ip link add br1 type bridge && ip link set br1 up && \
    ip link add b0 type veth peer name b1 && ip link set b0 master br0 up && ip link set b1 master br1 up && \
    ip link add p0 type veth peer name port && ip link set p0 master br0 up && ip link set port up && \
    libvirtd -f /etc/libvirt/libvirtd.conf & \
    until [ -S /run/libvirt/libvirt-sock ]; do sleep 0.05; done; \
    virsh -q -c qemu:///system uri >&2; wait";

/// The domain's hypervisor; gone when dropped.
pub struct Hypervisor {
    folder: tempfile::TempDir,
    place: Running,
}

impl Hypervisor {
    /// With the domain defined, and not started.
    pub fn start() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "this test makes namespaces: run it as root");
        let folder = tempfile::Builder::new().prefix("vioperf-libvirt-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        keygen(&at("key"));
        // Of the guest, and of `hypervisor`, it knows the key; nothing of this is written down anywhere.
        let known = format!(
            "Host hypervisor\n HostName {ADDRESS}\nHost hypervisor 192.0.2.10\n IdentityFile {}\n \
             StrictHostKeyChecking no\nHost *\n BatchMode yes\n UserKnownHostsFile /dev/null\n \
             LogLevel ERROR\n KexAlgorithms curve25519-sha256\n",
            at("key").display()
        );
        fs::write(at("ssh.conf"), known).unwrap();
        let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", at("ssh.conf").display());
        fs::write(at("bin/ssh"), ssh).unwrap();
        fs::set_permissions(at("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        build_guest(folder.path());
        let place = in_private_mounts(|| {
            for directory in [
                "/run",
                "/etc/libvirt",
                "/var/lib/libvirt",
                "/var/cache/libvirt",
                "/var/log/libvirt",
            ] {
                let found = Path::new(directory).is_dir();
                assert!(
                    found,
                    "{directory}: is libvirt-daemon-system installed? (`scripts/setup test`)"
                );
                empty(Path::new(directory), MsFlags::empty(), "mode=755");
            }
            for directory in ["/run/libvirt", "/etc/libvirt/qemu", "/var/lib/libvirt/qemu"] {
                fs::create_dir(directory).unwrap();
            }
            let qemu = "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\n\
                cgroup_controllers = []\nnamespaces = []\nstdio_handler = \"file\"\n\
                dynamic_ownership = 0\nremember_owner = 0\n";
            fs::write("/etc/libvirt/qemu.conf", qemu).unwrap();
            fs::write("/etc/libvirt/libvirtd.conf", "auth_unix_rw = \"none\"\n").unwrap();
            let mut command = Command::new("unshare");
            command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
            command.args(["sh", "-c", PLACE]);
            Running::start(command)
        });
        let mut hypervisor = Self { folder, place };
        hypervisor.place.until("qemu:///system");
        hypervisor.define(&hypervisor.description());
        let network = hypervisor.path("network.xml");
        let wire =
            "<network><name>wire</name><forward mode='bridge'/><bridge name='br1'/></network>";
        fs::write(&network, wire).unwrap();
        hypervisor.virsh(&["net-define", network.to_str().unwrap()]);
        hypervisor.virsh(&["net-start", "wire"]);
        hypervisor
    }

    /// The domain as it is defined at first: an e1000 on the bridge.
    fn description(&self) -> String {
        let cache = kernel_cache();
        let kernel = fs::canonicalize(cached_kernel(&cache).unwrap()).unwrap();
        format!(
            "<domain type='qemu'><name>{NAME}</name><uuid>{UUID}</uuid>\n\
             <memory unit='MiB'>256</memory><vcpu>1</vcpu>\n\
             <os><type arch='x86_64' machine='pc'>hvm</type><kernel>{}</kernel><initrd>{}</initrd>\n\
             <cmdline>quiet net.ifnames=0 mitigations=off</cmdline></os><features><acpi/></features>\n\
             <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>\n\
             <interface type='bridge'><mac address='{MAC}'/><source bridge='br0'/><model type='e1000'/></interface>\n\
             <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\n\
             <graphics type='vnc' port='-1' passwd='secret'/><memballoon model='none'/></devices></domain>\n",
            kernel.join("vmlinux").display(),
            self.folder.path().join("initrd").display(),
        )
    }

    /// Defines the domain otherwise.
    pub fn redefine(&self, change: impl Fn(&str) -> String) {
        self.define(&change(&self.description()));
    }

    /// Has libvirt keep a domain.
    pub fn define(&self, xml: &str) {
        let file = self.folder.path().join("domain.xml");
        fs::write(&file, xml).unwrap();
        self.virsh(&["define", file.to_str().unwrap()]);
    }

    /// A program in there, with the ssh that knows the guest's key; its journals are kept in `state`.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first_process(), "--mount", "--net", "--pid", program]);
        self.at_home(&mut command);
        command
    }

    /// Of its namespaces, as it is called outside of them.
    pub fn first_process(&self) -> String {
        let shell = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.place.pid()));
        shell.unwrap().trim().to_owned()
    }

    /// The environment of its user: the ssh that knows the guest's key, and where journals are.
    pub fn at_home(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()));
        command.env("VIOPERF_NO_HISTORY", "1").env("XDG_STATE_HOME", self.path("state"));
    }

    /// A path that is the test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has virsh do something; what it says.
    #[track_caller]
    pub fn virsh(&self, arguments: &[&str]) -> String {
        let mut command = self.inside("virsh");
        let Output { status, stdout, stderr } =
            command.args(["-q", "-c", "qemu:///system"]).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "virsh {arguments:?}: {stderr}");
        String::from_utf8(stdout).unwrap()
    }

    /// What libvirt keeps of the domain.
    pub fn kept(&self) -> String {
        self.virsh(&["dumpxml", "--inactive", "--security-info", NAME])
    }

    /// `running`, `shut off` …
    pub fn state(&self) -> String {
        self.virsh(&["domstate", NAME]).trim().to_owned()
    }

    /// The model of the NIC that it runs with.
    pub fn running_model(&self) -> String {
        self.running_interface(3)
    }

    /// What that is connected to.
    pub fn running_source(&self) -> String {
        self.running_interface(2)
    }

    /// Of the line that virsh has on its interface, the word at that place.
    fn running_interface(&self, at: usize) -> String {
        let listed = self.virsh(&["domiflist", NAME]);
        listed.split_ascii_whitespace().nth(at).unwrap_or_default().to_owned()
    }
    /// Starts the domain, and waits for its sshd.
    pub fn boot(&self) {
        self.virsh(&["start", NAME]);
        let deadline = Instant::now() + BOUND;
        let answers = || {
            let mut ssh = self.inside("ssh");
            ssh.args(["-o", "ConnectTimeout=2", "root@192.0.2.10", "true"]);
            ssh.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        while !answers() {
            assert!(Instant::now() < deadline, "the guest does not answer");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// A vioperf in there, that runs; its own process, so that it can be killed.
    pub fn start_vioperf(&self, arguments: &[&str]) -> Running {
        let mut command = self.inside(VIOPERF);
        command.args(arguments);
        Running::start(command)
    }

    /// A vioperf in there, to its end.
    #[track_caller]
    pub fn vioperf(&self, arguments: &[&str]) -> Finished {
        self.start_vioperf(arguments).ends_within(BOUND)
    }

    /// Kills every vioperf in there.
    pub fn kill_vioperf(&self) {
        let mut kill = self.inside("sh");
        let text = "for p in /proc/[0-9]*; do case \"$(readlink $p/exe)\" in */vioperf) kill -9 ${p##*/};; esac; done";
        assert!(kill.args(["-c", text]).status().unwrap().success());
    }
}

pub fn keygen(file: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(command.status().unwrap().success(), "ssh-keygen: is openssh-client installed?");
}

/// Writes `initrd`: busybox, the host's own sshd with its libraries, and the cached kernel's drivers.
fn build_guest(folder: &Path) {
    let root = folder.join("root");
    for name in ["bin", "dev", "etc", "lib/modules", "proc", "run/sshd", "sys", "tmp", "usr/sbin"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let copy = |from: &Path, to: &str| {
        let to = root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let done = fs::copy(from, &to);
        assert!(done.is_ok(), "{}: {done:?} (`scripts/setup test`)", from.display());
    };
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|p| Path::new(p).exists());
    copy(Path::new(busybox.unwrap_or("/bin/busybox")), "bin/busybox");
    for tool in TOOLS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    // Newer ones are in several programs.
    let further = ["/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth"];
    let programs = [busybox.unwrap_or_default(), "/usr/sbin/sshd"].into_iter().chain(further);
    for program in programs.filter(|program| Path::new(program).exists()) {
        copy(Path::new(program), program);
        let libraries = Command::new("ldd").arg(program).output().unwrap().stdout;
        let libraries = String::from_utf8(libraries).unwrap();
        for library in libraries.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
            copy(Path::new(library), library);
        }
    }
    let kernel = cached_kernel(&kernel_cache()).unwrap().join("modules/kernel");
    for (number, module) in MODULES.iter().enumerate() {
        copy(&kernel.join(format!("{module}.ko")), &format!("lib/modules/{number:02}.ko"));
    }
    keygen(&root.join("etc/host-key"));
    copy(&folder.join("key.pub"), "etc/key.pub");
    let users = "root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n";
    fs::write(root.join("etc/passwd"), users).unwrap();
    let sshd = "HostKey /etc/host-key\nAuthorizedKeysFile /etc/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n";
    fs::write(root.join("etc/sshd.conf"), sshd).unwrap();
    fs::write(root.join("init"), INIT).unwrap();
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
    archive(&root, &folder.join("initrd"));
}

/// `newc`, as the kernel unpacks it.
fn archive(root: &Path, file: &Path) {
    let mut names = String::new();
    list(root, root, &mut names);
    let mut command = Command::new("busybox");
    command.args(["cpio", "-o", "-H", "newc"]).current_dir(root).stderr(Stdio::null());
    command.stdin(Stdio::piped()).stdout(fs::File::create(file).unwrap());
    let mut cpio = command.spawn().expect("busybox (`scripts/setup test`)");
    cpio.stdin.take().unwrap().write_all(names.as_bytes()).unwrap();
    assert!(cpio.wait().unwrap().success());
}

fn list(root: &Path, folder: &Path, names: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        writeln!(names, "{}", path.strip_prefix(root).unwrap().display()).unwrap();
        if path.is_dir() && !path.is_symlink() {
            list(root, &path, names);
        }
    }
}
