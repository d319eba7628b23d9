//! Renders an analysis. Every format is a pure function of it: the same run gives the same bytes,
//! live or later. The first line of each says when guests ran under software emulation.
//!
//! Strings that come from guests are hostile: each format escapes them its own way.

mod between;
mod columns;
pub mod comparison;
pub mod csv;
pub mod explain;
pub mod history;
pub mod html;
pub mod json;
mod layers;
mod ledger;
mod machines;
pub mod markdown;
pub mod openmetrics;
pub mod parts;
mod picture;
mod provenance;
pub mod published;
mod queues;
pub mod references;
mod settings;
pub mod table;
pub mod terminal;
pub mod text;
pub mod trend;
pub mod values;
mod varied;

#[cfg(test)]
mod tests;
