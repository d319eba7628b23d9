//! What only a machine of our own may be asked for.

use std::collections::BTreeMap;
use std::fmt::Display;

use vioperf_model::wire::{ForwardingConfig, ForwardingFacts, Impairment, InterfaceSelector};

/// The requests that alter the whole machine: a lab guest carries them out, everything else refuses.
pub trait Machine {
    /// Why a request failed, and what to do.
    type Error: Display;

    /// Sets the wall clock, in nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// When this machine is not ours to alter, or the kernel refuses.
    fn set_wall_clock(&mut self, unix_ns: u64) -> Result<(), Self::Error>;

    /// Loads kernel modules together with what they depend on, each with its parameters (by module).
    ///
    /// # Errors
    /// When this machine is not ours to alter, a module is not there, or the kernel refuses it.
    fn load_modules(
        &mut self,
        names: &[String],
        options: &BTreeMap<String, String>,
    ) -> Result<(), Self::Error>;

    /// Delays and drops what leaves an interface ([`impair`](crate::impair)); how many packets were
    /// dropped by what stood there before.
    ///
    /// # Errors
    /// When this machine is not ours to alter, or the kernel refuses.
    fn impair(
        &mut self,
        interface: &InterfaceSelector,
        impairment: Option<Impairment>,
    ) -> Result<Option<u64>, Self::Error>;

    /// Hands packets on between two interfaces ([`forward`](crate::forward)).
    ///
    /// # Errors
    /// When this machine is not ours to alter, or the kernel refuses.
    fn forward(&mut self, config: &ForwardingConfig) -> Result<ForwardingFacts, Self::Error>;
}

/// A machine that is not ours: a host, a namespace of it, somebody's server.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrdinaryMachine;

impl Machine for OrdinaryMachine {
    type Error = &'static str;

    fn set_wall_clock(&mut self, _: u64) -> Result<(), Self::Error> {
        Err("the wall clock is set only in a lab guest; this node runs on an ordinary machine")
    }

    fn load_modules(
        &mut self,
        _: &[String],
        _: &BTreeMap<String, String>,
    ) -> Result<(), Self::Error> {
        Err("modules are loaded only in a lab guest; on this machine use modprobe")
    }

    fn impair(
        &mut self,
        _: &InterfaceSelector,
        _: Option<Impairment>,
    ) -> Result<Option<u64>, Self::Error> {
        Err("packets are delayed and dropped only in a lab guest; on this machine use tc")
    }

    fn forward(&mut self, _: &ForwardingConfig) -> Result<ForwardingFacts, Self::Error> {
        Err("packets are handed on only by a lab guest; this machine stays as it is")
    }
}
