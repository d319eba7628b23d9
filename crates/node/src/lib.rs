//! One end of the traffic: executes loads and samples counters, told over one byte channel.
//!
//! [`serve`] is the whole of it: a message loop on one thread, beside it the threads of the load
//! and one that samples. Nothing here outlives the channel: when it closes, what runs is stopped.

mod burn;
mod clock;
mod disk;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod guest_process;
mod interface;
mod load;
mod machine;
mod open_files;
mod sample;
mod scheduling;
mod serve;
mod sleeps;
mod stdio;
mod trial;
mod virtual_machine;

pub use interface::{ForwardingError, ImpairError, bring_loopback_up, forward, impair};
pub use machine::{Machine, OrdinaryMachine};
pub use scheduling::raise_priority;
pub use serve::{Ending, serve};
pub use stdio::{serve_pipes, serve_stdio};
