//! Synchronous rtnetlink requests: links, addresses, neighbours, queueing disciplines, counters; and what
//! packet filter there is, by nfnetlink.
//!
//! A [`Socket`] speaks to the network namespace that the calling thread was in when it was opened;
//! a thread that moves to another namespace afterwards keeps the old one through its socket. Every
//! request waits for the kernel's acknowledgement, so what a method did is done when it returns.
//!
//! Sources: rtnetlink(7), `linux/if_link.h`, `linux/if_addr.h`, `linux/neighbour.h`.

mod access_list;
mod address;
mod attributes;
mod bridge;
mod error;
mod generic;
mod link;
mod mac;
mod packet_filter;
mod qdisc;
mod qdisc_counters;
mod route;
mod socket;
mod virtual_link;

pub use access_list::{AccessCounters, AccessFamily, AccessList, access_counters};
pub use address::Address;
pub use bridge::BridgeSettings;
pub use error::{NetlinkError, Result};
pub use generic::has_generic_family;
pub use link::{Counters, Link, NamespaceRef, OperState, VethEnd};
pub use mac::{Mac, ParseMacError};
pub use packet_filter::{FilterChain, FilterRule, packet_filter};
pub use qdisc::{Netem, TokenBucket};
pub use qdisc_counters::QueueDiscipline;
pub use socket::Socket;
pub use virtual_link::{MacvlanMode, PortVlan, Upper};
