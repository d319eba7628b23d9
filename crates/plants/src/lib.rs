//! Plants known bottlenecks, makes a short real trial over each, and looks what vioperf tells first.
//!
//! A [`plant::Plant`] is one entry of a table in [`plants`]: what is between two network namespaces, what
//! is planted there, the load, and the rules that are right. `make bottlenecks` tries all of them, the
//! end-to-end tests a handful.

pub mod delay_line;
pub mod hog;
pub mod namespace;
pub mod plant;
pub mod plants;
pub mod stutter;
pub mod testbed;
pub mod trial;
pub mod undo;
