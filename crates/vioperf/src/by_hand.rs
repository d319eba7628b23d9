//! Labs that stand for a look by hand (`vioperf lab`).
//!
//! [`building`] makes the testbed of one cell as a run would, and [`keeper`] keeps it standing. It is known by its name on
//! the [`roll`], a socket in a directory that is the user's alone, over which a visitor asks ([`message`]) what is there
//! and gets descriptors: those of the namespaces of a part on the host ([`visit`]), or a channel to a shell in a guest
//! ([`guest_shell`]).

pub mod building;
pub mod detached;
pub mod guest_shell;
pub mod keeper;
pub mod message;
pub mod parts;
pub mod roll;
pub mod visit;
