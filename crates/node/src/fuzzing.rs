//! What reads bytes of strangers, for tests that throw any at it.

/// Reads a datagram as each place does that one may arrive at.
pub fn hear(bytes: &[u8]) {
    crate::load::hear_anything(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vioperf_model::testing::{edits, mutated};

    use super::*;

    /// A hello as a sender says it: magic, kind, flow, nonce, value.
    const HELLO: &[u8] =
        b"vioperf1\x01\0\0\0\0\0\0\x01\x11\x22\x33\x44\x55\x66\x77\x88\0\0\0\0\0\0\0\0";

    proptest! {
        #[test]
        fn any_datagram_is_heard(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            hear(&bytes);
        }

        #[test]
        fn almost_a_hello_is_heard(edits in edits(), kind in 0_u8..8) {
            let mut hello = HELLO.to_vec();
            hello[8] = kind;
            hear(&mutated(&hello, &edits));
        }
    }
}
