//! Damage for the tests of what reads strangers' bytes: most of a valid message survives it, so that it
//! gets further than noise would.

use proptest::prelude::*;

/// One change: where, what kind, and with which byte.
pub type Edit = (u16, u8, u8);

/// A few changes.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec((any::<u16>(), 0_u8..5, any::<u8>()), 0..6)
}

/// `seed` with bytes replaced, inserted, removed, a stretch doubled, or its end cut off.
pub fn mutated(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (place, kind, byte) in edits {
        let at = usize::from(*place) % (bytes.len() + 1);
        match kind {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                let end = (at + usize::from(*byte)).min(bytes.len());
                let stretch = bytes[at..end].to_vec();
                bytes.splice(at..at, stretch);
            }
            4 => bytes.truncate(at.max(bytes.len() / 2)),
            _ => {}
        }
    }
    bytes
}
