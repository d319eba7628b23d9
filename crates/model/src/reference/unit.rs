//! Units as articles print them.

/// What a unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Bits a second.
    BitsPerSecond,
    /// Packets or datagrams a second.
    PacketsPerSecond,
    /// Operations a second.
    OperationsPerSecond,
    /// Microseconds.
    Microseconds,
    /// Parts of a hundred.
    Percent,
    /// Bytes.
    Bytes,
}

/// How articles write it, what it counts, and how many of it one is. iperf's MBytes are binary; `MB/s` is taken to be
/// decimal, and what compares it tries both.
const UNITS: &[(&str, Counted, f64)] = &[
    ("bit/s", Counted::BitsPerSecond, 1.0),
    ("Mbits/sec", Counted::BitsPerSecond, 1e6),
    ("Mb/s", Counted::BitsPerSecond, 1e6),
    ("Gb/s", Counted::BitsPerSecond, 1e9),
    ("MBytes/sec", Counted::BitsPerSecond, 8.0 * 1_048_576.0),
    ("MB/s", Counted::BitsPerSecond, 8e6),
    ("pps", Counted::PacketsPerSecond, 1.0),
    ("datagrams/s", Counted::PacketsPerSecond, 1.0),
    ("io/s", Counted::OperationsPerSecond, 1.0),
    ("operations/s", Counted::OperationsPerSecond, 1.0),
    ("transactions/s", Counted::OperationsPerSecond, 1.0),
    ("ms", Counted::Microseconds, 1e3),
    ("us", Counted::Microseconds, 1.0),
    ("µs", Counted::Microseconds, 1.0),
    ("%", Counted::Percent, 1.0),
    ("bytes", Counted::Bytes, 1.0),
    ("B", Counted::Bytes, 1.0),
];

/// What a unit counts, and how many of it one is; absent of units that say nothing here.
pub fn in_base_units(unit: &str) -> Option<(Counted, f64)> {
    UNITS.iter().find(|(name, ..)| *name == unit).map(|(_, counted, factor)| (*counted, *factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_as_they_are_printed() {
        assert_eq!(in_base_units("Mbits/sec"), Some((Counted::BitsPerSecond, 1e6)));
        assert_eq!(in_base_units("ms"), Some((Counted::Microseconds, 1e3)));
        assert_eq!(in_base_units("furlongs"), None);
    }
}
