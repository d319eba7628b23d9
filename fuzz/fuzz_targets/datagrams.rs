//! Datagrams that arrive at the sockets of a load.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| vioperf_node::fuzzing::hear(bytes));
