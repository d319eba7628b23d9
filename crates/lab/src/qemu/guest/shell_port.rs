//! A port of a guest for one visitor's shell, plugged in while the guest runs and away again: the command line of a guest is
//! the same whether anybody looks into it or not.
//!
//! Each visitor has a port of its own, so that nothing of an earlier one is still on its way, and one that does not read
//! holds up nobody else.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vioperf_model::shell::PORT_PREFIX;

use super::Guest;
use crate::qemu::command_line::SERIAL_BUS;
use crate::qemu::fault::{Fault, GuestError};
use crate::qemu::machine::COMMAND_BOUND;

const OPERATION: &str = "plug a port for a shell in";

const AWAY: &str = "take a port for a shell away";

/// How long QEMU may take to let go of a backend, and how often it is asked.
const LETS_GO: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Guest {
    /// Plugs a port of that number in; what is written to the stream the guest reads there, and the other way. The stream is
    /// for one visitor: when it is closed the guest is told so.
    ///
    /// # Errors
    /// [`GuestError`], when QEMU refuses: a guest has some thirty ports at most.
    pub fn plug_shell_port(&mut self, number: u32) -> Result<UnixStream, Box<GuestError>> {
        let id = name(number);
        let failed = |guest: &Self, source| {
            guest.machine.error(OPERATION, Fault::NotStarted { step: "make a channel", source })
        };
        let (ours, theirs) = UnixStream::pair().map_err(|source| failed(self, source))?;
        let handed = self.machine.monitor.send_descriptor(&id, theirs.as_fd(), COMMAND_BOUND);
        handed.map_err(|error| self.machine.error(OPERATION, Fault::Monitor(error)))?;
        let address = json!({ "type": "fd", "data": { "str": id } });
        let backend = json!({ "type": "socket", "data": { "addr": address, "server": false } });
        self.machine.command(OPERATION, "chardev-add", &json!({ "id": id, "backend": backend }))?;
        let device = json!({
            "driver": "virtserialport", "id": id, "chardev": id, "bus": SERIAL_BUS,
            "name": format!("{PORT_PREFIX}{number}"),
        });
        if let Err(error) = self.machine.command(OPERATION, "device_add", &device) {
            // The first error is the one to tell.
            let _ = self.remove_backend(&id);
            return Err(error);
        }
        Ok(ours)
    }

    /// Takes that port away again.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn unplug_shell_port(&mut self, number: u32) -> Result<(), Box<GuestError>> {
        let id = name(number);
        self.machine.command(AWAY, "device_del", &json!({ "id": id }))?;
        // QEMU lets go of the backend a moment after the device is gone.
        let deadline = Instant::now() + LETS_GO;
        loop {
            match self.remove_backend(&id) {
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => thread::sleep(LOOK_EVERY),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn remove_backend(&mut self, id: &str) -> Result<Value, Box<GuestError>> {
        self.machine.command(AWAY, "chardev-remove", &json!({ "id": id }))
    }
}

/// What QEMU calls it.
fn name(number: u32) -> String {
    format!("shell{number}")
}
