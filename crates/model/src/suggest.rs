//! "Did you mean …": the nearest valid name to one that was mistyped.

use std::cmp::Reverse;

/// The candidate closest to `word`, if one is close enough to be what was meant; of several the one that begins most
/// alike, as people mistype ends.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, candidate)| (*distance, Reverse(common_beginning(word, candidate))))
        .map(|(_, candidate)| candidate)
}

fn common_beginning(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_swapped_letters_and_refuses_strangers() {
        assert_eq!(nearest("virtoi", ["e1000", "virtio"]), Some("virtio"));
        assert_eq!(nearest("vcpu", ["cpu", "vcpus"]), Some("vcpus"));
        assert_eq!(nearest("banana", ["e1000", "virtio"]), None);
    }
}
