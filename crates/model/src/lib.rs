//! The vocabulary of vioperf: what scenarios, plans, records and messages are made of.
//!
//! Types and their rules only: nothing here opens a file or a socket, reads a clock, or is random
//! but from a seed that was handed in.

pub mod calibration;
pub mod disk;
pub mod icf;
pub mod interface_settings;
pub mod levels;
pub mod libvirt;
pub mod nic;
pub mod plan;
pub mod record;
pub mod reference;
pub mod rest;
pub mod sample;
pub mod scenario;
pub mod scenario_file;
pub mod section;
pub mod shell;
pub mod suggest;
pub mod switch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text_form;
pub mod units;
pub mod wire;
pub mod workload;
