//! What a stranger says at a server's door, and what a false server says to a client.
#![no_main]

use std::io::{Cursor, Read, Result, Write};

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "."]
mod machines {
    #[path = "../../crates/vioperf/src/machines/handshake.rs"]
    pub mod handshake;
    #[path = "../../crates/vioperf/src/machines/token.rs"]
    pub mod token;
}

use machines::{handshake, token::Token};

/// What the other side says, whatever is said to it.
struct Deaf<'a>(Cursor<&'a [u8]>);

impl Read for Deaf<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Deaf<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let token = Token::new(b"0123456789abcdef").expect("it is long enough");
    let deaf = || Deaf(Cursor::new(bytes));
    assert!(handshake::as_server(&mut deaf(), Some(&token), &[0; 32]).is_err());
    assert!(handshake::as_client(&mut deaf(), Some(&token), &[0; 32]).is_err());
    let _ = handshake::as_server(&mut deaf(), None, &[0; 32]);
    let _ = handshake::as_client(&mut deaf(), None, &[0; 32]);
});
