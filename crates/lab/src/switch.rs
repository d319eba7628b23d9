//! What connects the endpoints of a lab. A kind of switch is one file here, with one line in
//! [`open`]; everything else goes through [`Switch`].

use vioperf_model::scenario::SwitchKind;
use vioperf_netlink::{NamespaceRef, NetlinkError, Socket};

use crate::sandbox::Sandbox;
use crate::tap::Tap;

mod bridge;

/// One kind of switch, in the sandbox's network namespace.
pub trait Switch: std::fmt::Debug {
    /// Asks for what it needs and the kernel or host may lack, without changing anything.
    ///
    /// # Errors
    /// [`SwitchError::Missing`].
    fn validate(&mut self, socket: &mut Socket) -> Result<(), SwitchError>;

    /// Creates it, without ports.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn set_up(&mut self, socket: &mut Socket, mtu: u32) -> Result<(), SwitchError>;

    /// Connects another network namespace by a veth pair, whose far end is `eth0` there, down, with
    /// the given hardware address.
    ///
    /// # Errors
    /// When the kernel refuses, or the namespace is gone.
    fn attach_veth(
        &mut self,
        socket: &mut Socket,
        port: &str,
        far: FarEnd<'_>,
        mtu: u32,
    ) -> Result<(), SwitchError>;

    /// Connects a tap and brings it up.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn attach_tap(&mut self, socket: &mut Socket, tap: &Tap, mtu: u32) -> Result<(), SwitchError>;

    /// Undoes everything; goes on after an error and returns all of them.
    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError>;
}

/// The end of a veth pair in an endpoint's namespace.
#[derive(Debug, Clone, Copy)]
pub struct FarEnd<'a> {
    /// The endpoint's network namespace.
    pub namespace: NamespaceRef<'a>,
    /// The interface's name there.
    pub name: &'a str,
    /// Its hardware address.
    pub mac: vioperf_netlink::Mac,
}

/// Why a switch could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The host lacks something.
    #[error("switch `{kind}`: {what} is missing; {advice}")]
    Missing {
        /// The kind of switch.
        kind: SwitchKind,
        /// What is missing.
        what: String,
        /// What to do.
        advice: String,
    },
    /// The kernel refused.
    #[error("switch: {0}")]
    Netlink(#[from] NetlinkError),
}

/// The switch of that kind, not yet set up.
#[must_use]
pub fn open(_: &Sandbox, kind: SwitchKind) -> Box<dyn Switch> {
    match kind {
        SwitchKind::Bridge => Box::new(bridge::Bridge::default()),
    }
}
