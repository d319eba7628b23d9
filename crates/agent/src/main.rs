//! `vioperf-agent`: the only process of a lab guest. It mounts what a kernel needs to be asked
//! about itself, loads the drivers of the control channel, then serves as a node.
//!
//! Silence counts as failure: whatever goes wrong is one line on the console, and the guest is off.
//!
//! The same program serves on a machine that the user reaches by ssh ([`remote`]): there it is an ordinary
//! process and alters nothing.

mod console;
mod machine;
mod modules;
mod port;
mod remote;
mod setup;
mod shells;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use nix::sys::reboot::{RebootMode, reboot};
use vioperf_node::{Ending, raise_priority, serve};

use crate::machine::Guest;
use crate::modules::Manifest;
use crate::port::Port;

/// The name of the control channel's port, as QEMU was given it.
const PORT: &str = "org.vioperf.agent";
/// The channel's drivers; loaded at once where the initramfs has them, else they are built in.
const CHANNEL_DRIVERS: [&str; 2] = ["virtio_pci", "virtio_console"];
const MANIFEST: &str = "/lib/modules/manifest.json";

/// Why the guest cannot go on.
#[derive(Debug)]
struct Fatal(String);

fn main() -> ExitCode {
    // Whoever is not the first process of a guest must not switch anything off.
    if nix::unistd::getpid().as_raw() != 1 {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return shells::main(&arguments).unwrap_or_else(remote::main);
    }
    std::panic::set_hook(Box::new(|panic| {
        console::say(&format!("{panic}"));
        power_off();
    }));
    match run() {
        Ok(Ending::Shutdown | Ending::ChannelClosed) => {}
        Err(Fatal(reason)) => console::say(&reason),
    }
    power_off()
}

/// The whole life of the guest.
fn run() -> Result<Ending, Fatal> {
    setup::mount_all()?;
    setup::bring_loopback_up()?;
    setup::reap_orphans()?;
    let manifest = Manifest::read(Path::new(MANIFEST)).map_err(|error| Fatal(error.to_string()))?;
    for driver in CHANNEL_DRIVERS.iter().filter(|driver| manifest.names(driver)) {
        manifest.load(driver, &BTreeMap::new()).map_err(|error| Fatal(error.to_string()))?;
    }
    shells::begin().map_err(|error| Fatal(format!("cannot serve shells: {error}")))?;
    // Without it the answers come late under load, but come.
    if let Err(error) = raise_priority() {
        console::say(&format!("cannot raise the priority of the message loop: {error}"));
    }
    let mut port = Port::find(PORT).map_err(|error| Fatal(error.to_string()))?;
    let mut guest = Guest::new(manifest);
    loop {
        // After a restore, and before the conductor has come, nobody is at the other end.
        port.await_host().map_err(|error| Fatal(error.to_string()))?;
        match serve(&mut port, &mut guest) {
            Ok(Ending::ChannelClosed) => {}
            Ok(Ending::Shutdown) => return Ok(Ending::Shutdown),
            Err(error) => return Err(Fatal(error.to_string())),
        }
    }
}

/// Ends the guest, and with it QEMU.
fn power_off() -> ! {
    match reboot(RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        // Then the kernel panics as its first process ends, which is loud enough.
        Err(_) => std::process::exit(1),
    }
}
