//! Quantities with their units, parsed as people write them and printed so that they parse back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text_form;

/// A quantity that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write it like {examples}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    examples: &'static str,
}

/// What one kind of quantity is called, its units (as a factor of the base unit), and examples.
struct Notation {
    what: &'static str,
    examples: &'static str,
    units: &'static [(&'static str, f64)],
    /// The largest value that makes sense, in base units; keeps arithmetic far from overflow.
    maximum: f64,
}

impl Notation {
    /// Reads `text` as a number and a unit of this notation, in base units, rounded.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let error =
            || UnitError { text: text.to_owned(), what: self.what, examples: self.examples };
        let trimmed = text.trim();
        let unit_at = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(unit_at);
        let number: f64 = number.replace('_', "").parse().map_err(|_| error())?;
        let unit = unit.trim();
        let (_, factor) = self
            .units
            .iter()
            .find(|(name, _)| *name == unit)
            .or_else(|| self.units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)))
            .ok_or_else(error)?;
        let value = (number * factor).round();
        if !(0.0..=self.maximum).contains(&value) {
            return Err(error());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just above
        Ok(value as u64)
    }
}

/// Prints `value` in the largest of `units` that keeps it a whole number.
fn print_whole(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
    base: &str,
) -> fmt::Result {
    let (unit, factor) = units
        .iter()
        .copied()
        .find(|(_, factor)| value != 0 && value.is_multiple_of(*factor))
        .unwrap_or((base, 1));
    f.pad(&format!("{} {unit}", value / factor))
}

macro_rules! quantity_serde {
    ($type:ident, $pattern_note:literal) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text_form::deserialize(deserializer, $pattern_note)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $pattern_note })
            }
        }
    };
}

/// A span of time, written `"10s"`, `"1.5 s"`, `"250ms"`, `"3m"`, `"1h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(Duration);

const TIME: Notation = Notation {
    what: "a time",
    examples: "\"10s\", \"250ms\", \"1.5 s\", \"3m\" or \"1h\"",
    units: &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("sec", 1e9),
        ("m", 60e9),
        ("min", 60e9),
        ("h", 3600e9),
    ],
    maximum: 30.0 * 24.0 * 3600e9,
};

impl TimeSpan {
    /// A span of whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// A span of whole microseconds.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(Duration::from_micros(microseconds))
    }

    /// As the standard library's type.
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// In seconds.
    pub fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl FromStr for TimeSpan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        TIME.parse(text).map(|nanoseconds| Self(Duration::from_nanos(nanoseconds)))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let units = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
        ];
        print_whole(f, nanoseconds, &units, "ns")
    }
}

quantity_serde!(TimeSpan, "a time, such as \"10s\", \"250ms\", \"3m\"");

/// A number of bytes, written `"512 MiB"`, `"64 KiB"`, `"1500 B"`; as with iperf3 and QEMU a bare
/// `K`, `M`, `G` is binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

const BYTES: Notation = Notation {
    what: "a size",
    examples: "\"512 MiB\", \"64 KiB\" or \"1500 B\"",
    units: &[
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("K", 1024.0),
        ("M", 1_048_576.0),
        ("G", 1_073_741_824.0),
    ],
    maximum: 1e15,
};

impl ByteSize {
    /// A size of so many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of so many KiB (1024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// A size of so many MiB (1024 KiB).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// In bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        BYTES.parse(text).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_whole(f, self.0, &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)], "B")
    }
}

quantity_serde!(ByteSize, "a size, such as \"512 MiB\", \"64 KiB\", \"1500 B\"");

/// A rate in bits per second, written `"2.5 Gbit/s"`, `"100 Mbit/s"`, `"10M"`; prefixes are decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(u64);

const BITS_PER_SECOND: Notation = Notation {
    what: "a rate",
    examples: "\"2.5 Gbit/s\", \"100 Mbit/s\" or \"10 kbit/s\"",
    units: &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("bps", 1.0),
        ("kbps", 1e3),
        ("Mbps", 1e6),
        ("Gbps", 1e9),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
    ],
    maximum: 1e15,
};

impl BitRate {
    /// A rate of so many bits per second.
    pub const fn from_bits_per_second(rate: u64) -> Self {
        Self(rate)
    }

    /// In bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        BITS_PER_SECOND.parse(text).map(Self)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)];
        print_whole(f, self.0, &units, "bit/s")
    }
}

quantity_serde!(BitRate, "a rate, such as \"2.5 Gbit/s\", \"100 Mbit/s\"");

/// A part of a whole, written `"0.5 %"` or `"20 ppm"`; kept in parts of a thousand million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u64);

const PARTS: Notation = Notation {
    what: "a part of a whole",
    examples: "\"0.5 %\", \"0 %\" or \"20 ppm\"",
    units: &[("%", 1e7), ("percent", 1e7), ("ppm", 1e3), ("ppb", 1.0)],
    maximum: 1e9,
};

impl Ratio {
    /// A ratio of so many parts of a million.
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(ppm * 1_000)
    }

    /// In parts of a thousand million.
    pub const fn as_ppb(self) -> u64 {
        self.0
    }

    /// As a number: 0.005 for 0.5 %.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        PARTS.parse(text).map(Self)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In percent, with the decimals that it has and no more.
        let (whole, parts) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if parts == 0 {
            return f.pad(&format!("{whole} %"));
        }
        let decimals = format!("{parts:07}");
        f.pad(&format!("{whole}.{} %", decimals.trim_end_matches('0')))
    }
}

quantity_serde!(Ratio, "a part of a whole, such as \"0.5 %\", \"20 ppm\"");

/// Work of so many cores, written `"250 %"`: 100 % is one core. Kept as [`Ratio`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreLoad(u64);

const CORES: Notation = Notation {
    what: "a load of cores",
    examples: "\"30 %\", or \"250 %\" for two and a half",
    units: &[("%", 1e7), ("percent", 1e7)],
    maximum: 64e9,
};

impl CoreLoad {
    /// So many parts of a million of one core.
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(ppm * 1_000)
    }

    /// How many threads it takes: no thread uses more than one core.
    pub fn threads(self) -> u16 {
        u16::try_from(self.0.div_ceil(WHOLE)).unwrap_or(u16::MAX).max(1)
    }

    /// What each of these threads burns of a core.
    pub fn of_each(self) -> Ratio {
        Ratio(self.0 / u64::from(self.threads()))
    }
}

impl From<Ratio> for CoreLoad {
    fn from(part: Ratio) -> Self {
        Self(part.0)
    }
}

/// One whole, in the parts that ratios are kept in.
const WHOLE: u64 = 1_000_000_000;

impl FromStr for CoreLoad {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        CORES.parse(text).map(Self)
    }
}

impl fmt::Display for CoreLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ratio(self.0).fmt(f)
    }
}

quantity_serde!(CoreLoad, "a load of cores, such as \"30 %\" or \"250 %\"; 100 % is one core");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("1.5 s".parse::<TimeSpan>().unwrap(), TimeSpan::from_millis(1500));
        assert_eq!("3m".parse::<TimeSpan>().unwrap(), TimeSpan::from_millis(180_000));
        assert_eq!("512 MiB".parse::<ByteSize>().unwrap(), ByteSize::from_mib(512));
        assert_eq!("64K".parse::<ByteSize>().unwrap(), ByteSize::from_kib(64));
        let rate = "2.5 Gbit/s".parse::<BitRate>().unwrap();
        assert_eq!(rate, BitRate::from_bits_per_second(2_500_000_000));
        assert_eq!("0.5%".parse::<Ratio>().unwrap(), Ratio::from_ppm(5_000));
        assert_eq!(
            ["100 %", "0 %", "20 ppm"].map(|t| t.parse::<Ratio>().unwrap().to_string()),
            ["100 %", "0 %", "0.002 %"]
        );
    }

    #[test]
    fn more_than_one_core_takes_as_many_threads() {
        for (text, threads, each) in
            [("30 %", 1, "30 %"), ("100 %", 1, "100 %"), ("250 %", 3, "83.3333333 %")]
        {
            let load: CoreLoad = text.parse().unwrap();
            assert_eq!((load.threads(), load.of_each().to_string()), (threads, each.to_owned()));
            assert_eq!(load.to_string(), text);
        }
        assert!("6500 %".parse::<CoreLoad>().is_err());
        assert_eq!(CoreLoad::from(Ratio::from_ppm(5_000)).threads(), 1);
    }

    #[test]
    fn says_how_to_write_what_it_cannot_read() {
        for text in ["", "10", "ten s", "-3s", "1e9s", "999999h", "3 parsecs", "1..5s"] {
            let message = text.parse::<TimeSpan>().unwrap_err().to_string();
            assert!(message.contains("\"10s\""), "{message}");
        }
    }

    proptest! {
        #[test]
        fn prints_what_it_reads_back(value in 0u64..1_000_000_000_000_000) {
            let size = ByteSize::from_bytes(value);
            prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
            let rate = BitRate::from_bits_per_second(value);
            prop_assert_eq!(rate.to_string().parse::<BitRate>().unwrap(), rate);
            let span = TimeSpan(Duration::from_nanos(value));
            prop_assert_eq!(span.to_string().parse::<TimeSpan>().unwrap(), span);
            let ratio = Ratio(value % 1_000_000_001);
            prop_assert_eq!(ratio.to_string().parse::<Ratio>().unwrap(), ratio);
        }

        #[test]
        fn never_panics(text in ".{0,20}") {
            let _ = text.parse::<TimeSpan>();
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<BitRate>();
            let _ = text.parse::<Ratio>();
        }
    }
}
