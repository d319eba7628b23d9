//! "Did you mean …": the nearest valid name to one that was mistyped.

/// The candidate closest to `word`, if one is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_swapped_letters_and_refuses_strangers() {
        assert_eq!(nearest("virtoi", ["e1000", "virtio"]), Some("virtio"));
        assert_eq!(nearest("banana", ["e1000", "virtio"]), None);
    }
}
