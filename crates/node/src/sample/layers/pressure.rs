//! Pressure stall information: `/proc/pressure` (Documentation/accounting/psi.rst).

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_model::sample::StallTimes;

use super::{ReadError, parsed};

pub(super) fn read(proc: &Path) -> Result<BTreeMap<String, StallTimes>, ReadError> {
    let resources = ["cpu", "memory", "io"].into_iter();
    resources
        .map(|name| Ok((name.to_owned(), parsed(&proc.join("pressure").join(name), parse)?)))
        .collect()
}

/// Lines `some` and `full`, each ending with the time since boot.
fn parse(text: &str) -> Result<StallTimes, String> {
    let total = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    let some_us =
        total("some ").ok_or_else(|| text.lines().next().unwrap_or("empty").to_owned())?;
    Ok(StallTimes { some_us, full_us: total("full ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_totals() {
        let text = "some avg10=0.00 avg60=0.15 avg300=3.72 total=13087840207\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let expected = StallTimes { some_us: 13_087_840_207, full_us: Some(7) };
        assert_eq!(parse(text).unwrap(), expected);
        // Before Linux 5.13 there was no `full` of the cores.
        assert_eq!(parse("some total=3\n").unwrap().full_us, None);
        assert!(parse("full total=3\n").is_err() && parse("").is_err());
    }
}
