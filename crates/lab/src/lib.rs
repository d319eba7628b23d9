//! The only part of vioperf that alters the host: namespaces, links, guests.
//!
//! The way of a lab: [`sandbox::enter`] splits the program in two and puts the inner half into
//! namespaces without a name; [`Lab::bring_up`] makes the switch and the endpoints there;
//! [`Lab::boot_template`] boots a guest without a NIC, whose agent the caller talks to; from its
//! snapshot [`Lab::start_guest`] restores guests and plugs NICs into them. What comes back is byte
//! channels and process ids; what is said over the channels is none of this crate's business.

mod attempt;
mod bring_up;
pub mod console;
mod host;
mod host_ports;
pub mod initramfs;
mod journal;
pub mod kernel;
mod lab_spec;
pub mod libvirt;
pub mod namespace;
pub mod packet_filter;
pub mod partition;
pub mod placement;
pub mod preflight;
mod private_files;
pub mod put_back;
pub mod qemu;
pub mod sandbox;
mod shaped_link;
pub mod sriov;
pub mod storage;
pub mod switch;
pub mod tap;
pub mod vfio;
pub mod visit;

pub use bring_up::{ENDPOINT_INTERFACE, Endpoint, HostEnd, Lab, LabError, Observer};
pub use lab_spec::{GuestPart, GuestSpec, LabSpec};
