//! `vioperf view`: the history in a browser.
//!
//! A server on the loopback interface that only reads. Whoever asks has to know the token; what is asked for is an
//! id of the history, never a path: a request names nothing in the file system. Pages are made of the report's
//! own pieces and need no script to be read.

pub mod address;
mod answer;
mod door;
mod pages;
pub mod server;
pub mod shelf;
