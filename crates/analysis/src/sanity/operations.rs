//! Operations a second, times their size, against bytes a second.

use super::{Told, short};

/// How far they may be apart: printed numbers are rounded.
const TOLERANCE: f64 = 0.02;

pub fn check(told: &Told) -> Vec<String> {
    let (Some(operations), Some(size)) = (told.operations_per_second, told.operation_bytes) else {
        return Vec::new();
    };
    let expected = operations * size;
    let apart = |bytes: &f64| (bytes - expected).abs() / expected.max(f64::MIN_POSITIVE);
    let Some(nearest) = told.bytes_per_second.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
    else {
        return Vec::new();
    };
    if apart(nearest) <= TOLERANCE {
        return Vec::new();
    }
    let fits = if operations > 0.0 { nearest / operations } else { f64::NAN };
    let fits = if fits.is_finite() {
        format!(": that fits operations of {fits:.0} bytes")
    } else {
        String::new()
    };
    vec![format!(
        "{} operations/s of {size} bytes are {} MB/s, but {} MB/s are told{fits}",
        short(operations),
        short(expected / 1e6),
        short(nearest / 1e6),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_does_not_fit_is_told_with_the_one_that_does() {
        let told = |mib: f64| Told {
            operations_per_second: Some(1000.0),
            operation_bytes: Some(4096.0),
            bytes_per_second: vec![mib * 1e6, mib * 1_048_576.0],
            ..Told::default()
        };
        assert_eq!(check(&told(3.91)), Vec::<String>::new());
        assert_eq!(check(&told(4.1)), Vec::<String>::new());
        let found = check(&told(31.25));
        assert!(found[0].contains("fits operations of 31250 bytes"), "{found:?}");
        assert_eq!(check(&Told { operation_bytes: None, ..told(31.25) }), Vec::<String>::new());
    }
}
