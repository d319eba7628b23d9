//! The one place that drives nodes through trials.
//!
//! [`schedule`] walks the plan and decides what is tried when, [`trial`] takes the nodes of one
//! testbed through one load, [`search`] through the many of a rate search, [`node_link`] speaks to one
//! node. The testbed itself comes from a [`schedule::Stage`], so that the scheduler is tested without a
//! lab and without time passing.

mod addresses;
pub mod channel;
pub mod core_speed;
pub mod disk_files;
mod failed;
pub mod hypervisor;
mod in_force;
pub mod kvm;
pub mod lab_stage;
pub mod node_link;
pub mod placement;
pub mod rest;
pub mod schedule;
pub mod search;
pub mod standing;
mod standing_guest;
pub mod trial;
