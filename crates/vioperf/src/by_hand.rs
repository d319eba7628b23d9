//! Labs that stand for a look by hand (`vioperf lab`).
//!
//! [`building`] makes the testbed of one cell as a run would, and [`keeper`] keeps it standing. It is known by its name on
//! the [`roll`], a socket in a directory that is the user's alone, over which a visitor asks ([`message`]) what is there
//! and gets descriptors: those of namespaces ([`visit`]), and none of a process id that may be another's by then.

pub mod building;
pub mod keeper;
pub mod message;
pub mod parts;
pub mod roll;
pub mod visit;
