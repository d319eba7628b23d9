//! Numbers and words as the page has them.

use crate::contests::{Class, Demand, Metric};

/// The day, in UTC.
pub fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

pub fn met(met: bool) -> &'static str {
    if met { "met" } else { "**not met**" }
}

/// What a metric is called, with its unit.
pub fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "Gbit/s",
        Metric::CpuPerGigabyte => "CPU s/GB",
        Metric::BusyPerGigabyte => "busy s/GB",
        Metric::Datagrams => "datagrams/s",
        Metric::Transactions => "transactions/s",
        Metric::MedianLatency => "p50 µs",
        Metric::TailLatency => "p99 µs",
    }
}

/// A value of a metric in the unit of its title.
pub fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => significant(value / 1e9),
        Metric::Datagrams | Metric::Transactions => thousands(value),
        Metric::CpuPerGigabyte | Metric::BusyPerGigabyte => format!("{value:.3}"),
        Metric::MedianLatency | Metric::TailLatency => significant(value),
    }
}

pub fn demand(demand: Demand) -> String {
    match demand {
        Demand::AtLeast(bar) => format!("at least {bar}"),
        Demand::AtMost(bar) => format!("at most {bar}"),
        Demand::Within(share) => format!("1 ± {share}"),
        Demand::Told => "none".to_owned(),
    }
}

/// What sets the two sides of a bar apart from the ordinary.
pub fn classes(ours: Class, theirs: Class) -> &'static str {
    match (ours, theirs) {
        (Class::Ordinary, Class::Ordinary) => "",
        (Class::Joined, Class::Joined) => ", joined",
        (Class::Joined, Class::Ordinary) => ", joined by ordinary",
        (Class::Ordinary, Class::Joined) => ", ordinary by joined",
    }
}

/// Three significant digits.
pub fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Whole, in groups of three digits (SI brochure, 5.4.4).
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let length = digits.len();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (length - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_are_known() {
        assert_eq!(value(Metric::Throughput, 62.345e9), "62.3");
        assert_eq!(value(Metric::Datagrams, 23_456_789.4), "23 456 789");
        assert_eq!(value(Metric::Transactions, 999.0), "999");
        assert_eq!(value(Metric::MedianLatency, 7.345), "7.34");
        assert_eq!(value(Metric::TailLatency, 123.4), "123");
    }
}
