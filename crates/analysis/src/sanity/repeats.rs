//! Fewer repetitions than were promised.

use super::Told;

pub fn check(told: &Told) -> Vec<String> {
    match told.repeats {
        Some((found, promised)) if (found as f64) < f64::from(promised) => {
            vec![format!("{promised} repetitions were promised, {found} are told")]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_no_three() {
        let told = |found| check(&Told { repeats: Some((found, 3)), ..Told::default() }).len();
        assert_eq!([told(2), told(3), told(4)], [1, 0, 0]);
    }
}
