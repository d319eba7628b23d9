//! Shells for visitors, in a guest of a lab that was made to be looked at: its initramfs has busybox, that of a guest that is
//! measured has not, and then nothing of this happens.
//!
//! For every visitor QEMU plugs a port in. For each the first process starts a process that serves it alone: as the first
//! process ignores its children's ends, it could not tell how a shell ended.

mod serving;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use vioperf_model::shell::PORT_PREFIX;

use crate::console;
use crate::port::named_ports;

pub use serving::main;

/// What runs a shell.
const BUSYBOX: &str = "/bin/busybox";

/// How the program is called that serves a port, whose name comes behind it.
pub const CALLED: &str = "guest-shell";

/// How often it is looked whether there is a new port.
const LOOK_EVERY: Duration = Duration::from_millis(30);

/// Begins to serve ports, where there is what it takes. Call it before the priority is raised: shells have the usual one.
pub fn begin() -> io::Result<()> {
    if !Path::new(BUSYBOX).exists() {
        return Ok(());
    }
    thread::Builder::new().name("shells".into()).spawn(|| {
        furnish();
        watch();
    })?;
    Ok(())
}

/// Terminals, and busybox by the names of everything that it is.
fn furnish() {
    let folder = "/dev/pts";
    let mounted = std::fs::create_dir_all(folder).map_err(|error| error.to_string()).and_then(
        |()| match mount(Some("devpts"), folder, Some("devpts"), MsFlags::empty(), None::<&str>) {
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            Err(errno) => Err(errno.to_string()),
        },
    );
    if let Err(reason) = mounted {
        console::say(&format!("cannot mount {folder}, so that no shell has a terminal: {reason}"));
    }
    let mut install = Command::new(BUSYBOX);
    install.args(["--install", "-s", "/bin"]).stdin(Stdio::null()).stdout(Stdio::null());
    // Its end is not told to us; where it cannot be started no shell can.
    let _ = install.stderr(Stdio::null()).status();
}

/// Starts somebody for every port that comes, for as long as the guest lives.
fn watch() {
    let mut served: BTreeSet<String> = BTreeSet::new();
    loop {
        let ports: BTreeSet<String> = named_ports()
            .into_iter()
            .map(|(_, name)| name)
            .filter(|name| name.starts_with(PORT_PREFIX))
            .collect();
        for name in ports.difference(&served) {
            let mut server = Command::new("/proc/self/exe");
            server.args([CALLED, name]).stdin(Stdio::null()).stdout(Stdio::null());
            if let Err(error) = server.stderr(Stdio::null()).spawn() {
                console::say(&format!("cannot serve {name}: {error}"));
            }
        }
        served = ports;
        thread::sleep(LOOK_EVERY);
    }
}
