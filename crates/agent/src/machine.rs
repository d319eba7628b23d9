//! The requests that alter the whole machine, which is ours.

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use vioperf_model::wire::{ForwardingConfig, ForwardingFacts, Impairment, InterfaceSelector};
use vioperf_node::{ForwardingError, ImpairError, Machine};

use crate::modules::{Manifest, ModuleError};

/// Why a request about the machine failed.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error(transparent)]
    Impair(#[from] ImpairError),
    #[error(transparent)]
    Forwarding(#[from] ForwardingError),
    #[error("cannot set the wall clock to {unix_ns} ns since 1970: {errno}")]
    Clock { unix_ns: u64, errno: Errno },
}

/// A lab guest.
pub struct Guest {
    manifest: Manifest,
}

impl Guest {
    pub fn new(manifest: Manifest) -> Self {
        Self { manifest }
    }
}

impl Machine for Guest {
    type Error = GuestError;

    fn set_wall_clock(&mut self, unix_ns: u64) -> Result<(), GuestError> {
        let time = std::time::Duration::from_nanos(unix_ns);
        clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(time))
            .map_err(|errno| GuestError::Clock { unix_ns, errno })
    }

    fn load_modules(
        &mut self,
        names: &[String],
        options: &BTreeMap<String, String>,
    ) -> Result<(), GuestError> {
        names.iter().try_for_each(|name| Ok(self.manifest.load(name, options)?))
    }

    fn impair(
        &mut self,
        interface: &InterfaceSelector,
        impairment: Option<Impairment>,
    ) -> Result<Option<u64>, GuestError> {
        Ok(vioperf_node::impair(interface, impairment)?)
    }

    fn forward(&mut self, config: &ForwardingConfig) -> Result<ForwardingFacts, GuestError> {
        Ok(vioperf_node::forward(config)?)
    }
}
