//! One file a subcommand.

pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod history;
pub mod kernel;
pub mod lab;
pub mod libvirt;
pub mod man;
pub mod node;
pub mod plan;
pub mod reference;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod schema;
pub mod serve;
pub mod test;
pub mod trend;
pub mod view;
