//! Between two machines, without a lab: `vioperf test` on one; on the other `vioperf serve`, or nothing but
//! an sshd ([`ssh`]).
//!
//! The client is the conductor. It speaks to two nodes: one of its own, a child process, and one
//! that the server starts for it. The server stands between the client and that node: it lets
//! through what a stranger may ask, within its limits. How both prove that they know a token is
//! [`handshake`]; `docs/serve.md` says why it is so.

pub mod client;
pub mod domain;
mod guest;
pub mod handshake;
pub mod hypervisor;
pub mod measure;
mod own_node;
pub mod scenario_run;
pub mod server;
pub mod ssh;
pub mod stage;
mod target;
pub mod tls;
pub mod token;
mod trial;

/// Where a server listens if nothing else is said.
pub const DEFAULT_PORT: u16 = 5210;
