//! Renders a comparison. As with reports, every format is a pure function of it.

pub mod benchmark;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod terminal;
pub mod values;
