//! A thread in a network namespace of its own, which plays the host: its interfaces, and what runs there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Runs `scene` on a thread with a network of its own and `/sys` of that; programs that it starts are there too.
pub fn in_own_network<T: Send>(scene: impl FnOnce() -> T + Send) -> T {
    super::mounts::in_private_mounts(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let kind = Some("sysfs");
        mount(kind, "/sys", kind, MsFlags::empty(), None::<&Path>).unwrap();
        said("ip", "link set lo up");
        // Addresses that come by themselves, and late, would look as if somebody had given them.
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        scene()
    })
}

/// Runs a program, which has to succeed: what it says.
#[track_caller]
pub fn said(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_ascii_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A bridge `br0` with a port, a wire whose other end is beside it, and an address.
pub fn bridge_with_a_port() {
    said("ip", "link add br0 type bridge");
    said("ip", "link add foreign type veth peer name foreign-far");
    said("ip", "link set foreign master br0");
    for name in ["foreign", "foreign-far", "br0"] {
        said("ip", &format!("link set {name} up"));
    }
    said("ip", "address add 192.0.2.7/24 dev br0");
    // The kernel tells of a carrier that has just come up to a second later.
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_up = |name: &str| said("ip", &format!("link show {name}")).contains("state UP");
    while !["foreign", "foreign-far", "br0"].into_iter().all(is_up) {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
}

/// Everything that `ip` and `bridge` tell of the network, but for timers that run.
pub fn look() -> String {
    let links = said("ip", "-details link show");
    let others = ["-details link show", "vlan show"].map(|arguments| said("bridge", arguments));
    let addresses = said("ip", "address show");
    let routes = said("ip", "route show table all");
    [without_timers(&links), others.concat(), addresses, routes].join("\n")
}

/// Without the time left of each timer, whose name is before it.
fn without_timers(text: &str) -> String {
    let without = |line: &str| {
        let mut parts = line.split("_timer ");
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest =
                part.trim_start_matches(|c: char| c == ' ' || c == '.' || c.is_ascii_digit());
            kept.push_str(rest);
        }
        kept
    };
    text.lines().map(without).collect::<Vec<_>>().join("\n")
}

/// An Open vSwitch that runs in this network, in a directory of its own, with a bridge `ovs0` that has a port.
pub struct OpenVswitch {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl OpenVswitch {
    pub fn start(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let mut ovs = Self { folder, daemons: Vec::new() };
        let database = ovs.folder.join("conf.db").display().to_string();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        said("ovsdb-tool", &format!("create {database} {schema}"));
        let socket = ovs.folder.join("db.sock").display().to_string();
        ovs.daemon("ovsdb-server", &[database, format!("--remote=punix:{socket}")]);
        ovs.vsctl("--no-wait init");
        ovs.vsctl("--no-wait set Open_vSwitch . other_config:userspace-tso-enable=true");
        ovs.daemon("ovs-vswitchd", &[format!("unix:{socket}")]);
        said("ip", "link add ovs-foreign type veth peer name ovs-far");
        said("ip", "link set ovs-foreign up");
        ovs.vsctl("add-br ovs0 -- set Bridge ovs0 datapath_type=netdev fail_mode=standalone");
        ovs.vsctl("add-port ovs0 ovs-foreign");
        said("ip", "link set ovs0 up");
        ovs
    }

    fn daemon(&mut self, program: &str, arguments: &[String]) {
        let mut command = Command::new(program);
        command.args(arguments).args(["-vconsole:off", "-vsyslog:off", "--no-chdir"]);
        command.env("OVS_RUNDIR", &self.folder).env("OVS_DBDIR", &self.folder);
        command.env("OVS_LOGDIR", &self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::SIGKILL)?));
        }
        self.daemons.push(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.folder.join("db.sock").exists() {
            assert!(Instant::now() < deadline, "{program} does not answer");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The directory that its sockets are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Asks or changes its database.
    #[track_caller]
    pub fn vsctl(&self, arguments: &str) -> String {
        let socket = self.folder.join("db.sock");
        said("ovs-vsctl", &format!("--timeout=10 --db=unix:{} {arguments}", socket.display()))
    }

    /// Everything that it tells of itself.
    pub fn look(&self) -> String {
        self.vsctl("show")
    }
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
