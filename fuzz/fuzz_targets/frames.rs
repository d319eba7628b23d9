//! Frames between conductor and node, from either side.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vioperf_model::wire::{Request, Response, read_frame, write_frame};

fuzz_target!(|bytes: &[u8]| {
    let mut channel = bytes;
    if let Ok(request) = read_frame::<Request>(&mut channel) {
        let mut again = Vec::new();
        write_frame(&mut again, &request).expect("what was read can be written");
        assert_eq!(read_frame::<Request>(&mut again.as_slice()).expect("and read"), request);
    }
    let _ = read_frame::<Response>(&mut &*bytes);
});
