//! Numbers as a person reads them: few digits, always with a unit.

use vioperf_model::plan::{CellId, Level};
use vioperf_model::units::ByteSize;
use vioperf_model::workload::{Direction, Receivers, Workload, WorkloadKind};

/// `value` with as many decimals as give three significant digits (`0.123`, `1.23`, `12.3`, `1234`).
pub fn three_digits(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

/// Decimals that give `value` three significant digits.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        // What rounds up to the next power of ten needs one decimal less.
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        0.0 => 0,
        _ => 4,
    }
}

/// The prefix for a rate in bit/s: its unit and by how much to divide.
pub fn rate_unit(bits_per_second: f64) -> (&'static str, f64) {
    match bits_per_second.abs() {
        rate if rate >= 9.995e8 => ("Gbit/s", 1e9),
        rate if rate >= 9.995e5 => ("Mbit/s", 1e6),
        rate if rate >= 9.995e2 => ("kbit/s", 1e3),
        _ => ("bit/s", 1.0),
    }
}

/// A rate (`862 Mbit/s`).
pub fn rate(bits_per_second: f64) -> String {
    let (unit, factor) = rate_unit(bits_per_second);
    format!("{} {unit}", three_digits(bits_per_second / factor))
}

/// The prefix for so many a second (`k/s`), and by how much to divide.
pub fn count_rate_unit(per_second: f64) -> (&'static str, f64) {
    match per_second.abs() {
        rate if rate >= 9.995e5 => ("M/s", 1e6),
        rate if rate >= 9.995e3 => ("k/s", 1e3),
        _ => ("/s", 1.0),
    }
}

/// A percentage (`71.2 %`).
pub fn percent(percent: f64) -> String {
    format!("{} %", three_digits(percent))
}

/// A change in percent, its sign said always (`+12.3 %`).
pub fn signed_percent(change: f64) -> String {
    format!("{}{} %", if change < 0.0 { '-' } else { '+' }, three_digits(change.abs()))
}

/// A direction (`towards the guest`).
pub fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToGuest => "towards the guest",
        Direction::FromGuest => "from the guest",
        Direction::Both => "both ways at once",
    }
}

/// A load, by what can be varied of it (`18-byte payload, one socket, towards the guest, 4 streams`).
pub fn load(workload: &Workload) -> String {
    described(workload, Some(direction(workload.direction)))
}

/// The same but for its direction.
pub fn load_any_way(workload: &Workload) -> String {
    described(workload, None)
}

fn described(workload: &Workload, direction: Option<&str>) -> String {
    if workload.kind == WorkloadKind::Disk {
        return of_disk(workload);
    }
    let mut parts: Vec<String> = Vec::new();
    parts.extend(workload.transport.map(|transport| transport.to_string().to_uppercase()));
    parts.extend(workload.payload.map(|size| format!("{}-byte payload", size.as_bytes())));
    parts.extend(workload.receivers.map(|receivers| {
        let how = match receivers {
            Receivers::One => "one socket",
            Receivers::Shared => "one socket shared by threads",
            Receivers::Reuseport => "a socket a thread",
        };
        how.to_owned()
    }));
    parts.extend(background(workload));
    parts.extend(direction.map(str::to_owned));
    parts.push(count(usize::from(workload.streams), "stream"));
    parts.join(", ")
}

/// What a disk is asked for (`4 KiB blocks, 50 % reads, sequential, 1 worker`), which has no direction.
fn of_disk(workload: &Workload) -> String {
    let mut parts = match workload.operation_kinds().as_slice() {
        [kind] => vec![
            format!("{} blocks", ByteSize::from_bytes(kind.block_bytes)),
            format!("{} reads", kind.read_share),
            match kind.random_share.as_f64() {
                0.0 => "sequential".to_owned(),
                1.0 => "random".to_owned(),
                _ => format!("{} random", kind.random_share),
            },
        ],
        kinds => vec![format!("a mix of {}", count(kinds.len(), "access pattern"))],
    };
    let depth = workload.queue_depth();
    parts.extend((depth > 1).then(|| format!("queue depth {depth}")));
    parts.push(count(usize::from(workload.streams), "worker"));
    parts.extend(background(workload));
    parts.join(", ")
}

/// What keeps the path busy meanwhile (`beside 4 TCP streams`), where that is part of the question.
fn background(workload: &Workload) -> Option<String> {
    let Some(load) = workload.background_load() else {
        return workload.background.map(|_| "on an idle path".to_owned());
    };
    let noun = if load.kind == WorkloadKind::TcpStream { "TCP stream" } else { "UDP flow" };
    let streams = count(usize::from(load.streams), noun);
    let away =
        (load.direction != workload.direction).then(|| format!(" {}", direction(load.direction)));
    let rate = load.rate.map(|rate| format!(" at {rate} each"));
    Some(format!("beside {streams}{}{}", away.unwrap_or_default(), rate.unwrap_or_default()))
}

/// `text` with its first letter in upper case.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Levels as they would be set on a command line (`guest.vcpus=2 testbed.placement=apart`).
pub fn levels(levels: &[Level]) -> String {
    let words = levels.iter().map(|level| format!("{}={}", level.factor, level.level));
    words.collect::<Vec<_>>().join(" ")
}

/// A count with its noun (`1 trial`, `3 trials`).
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// At most so many cells are named in one sentence.
const NAMED_CELLS: usize = 6;

/// Cells with what is to be said of each; of many, only the first few.
pub fn cells(cells: &[(CellId, String)]) -> String {
    let mut named: Vec<String> = cells
        .iter()
        .take(NAMED_CELLS)
        .map(
            |(cell, what)| {
                if what.is_empty() { cell.to_string() } else { format!("{cell}: {what}") }
            },
        )
        .collect();
    if cells.len() > NAMED_CELLS {
        named.push(format!("and {} more", cells.len() - NAMED_CELLS));
    }
    named.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let rates = [1234.0, 862e6, 36.04e9, 999.7e6, 999.0, 0.0];
        let texts =
            ["1.23 kbit/s", "862 Mbit/s", "36.0 Gbit/s", "1.00 Gbit/s", "999 bit/s", "0 bit/s"];
        assert_eq!(rates.map(rate), texts);
        assert_eq!([99.99, 9.999, 0.05].map(percent), ["100 %", "10.0 %", "0.0500 %"]);
    }

    #[test]
    fn what_a_disk_is_asked_for_has_no_direction() {
        let mut disk = Workload::new(WorkloadKind::Disk);
        assert_eq!(load(&disk), "4 KiB blocks, 100 % reads, sequential, 1 worker");
        disk.queue_depth = Some(8);
        disk.random_share = Some(vioperf_model::units::Ratio::from_ppm(1_000_000));
        assert_eq!(load(&disk), "4 KiB blocks, 100 % reads, random, queue depth 8, 1 worker");
    }

    #[test]
    fn many_cells_are_not_all_named() {
        let many: Vec<_> = (0..9).map(|n| (CellId(format!("c{n}")), String::new())).collect();
        assert!(cells(&many).ends_with("c5; and 3 more"));
    }
}
