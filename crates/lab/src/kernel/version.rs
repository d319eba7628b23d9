//! The order of kernel releases, newest last: digits compare as numbers, the rest as text.

use std::cmp::Ordering;

/// Compares two releases as people do: `6.1.0-9` is older than `6.1.0-10`.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    pieces(a).cmp(pieces(b))
}

/// A run of digits (leading zeros dropped; longer means greater) or one other character.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = if digits > 0 { digits } else { rest.chars().next()?.len_utf8() };
        let (piece, tail) = rest.split_at(length);
        rest = tail;
        if digits == 0 {
            return Some((0, piece));
        }
        let number = piece.trim_start_matches('0');
        Some((number.len() + 1, number))
    })
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn numbers_compare_as_numbers() {
        let mut releases =
            ["6.12.95+deb12-amd64", "6.1.0-9-amd64", "6.1.0-56-amd64", "5.10.0-1", "6.1.0-056"];
        releases.sort_by(|a, b| compare(a, b));
        assert_eq!(
            releases,
            ["5.10.0-1", "6.1.0-9-amd64", "6.1.0-056", "6.1.0-56-amd64", "6.12.95+deb12-amd64"]
        );
    }
}
