//! Whether the numbers of one measurement can all be true: one file a check, one line a check in [`CHECKS`]. They are
//! asked of every trial of a run, and of every row of a reference.

mod latencies;
mod link_rate;
mod machines;
mod of_cell;
mod of_reference;
mod operations;
mod repeats;

pub use of_cell::of_cell;
pub use of_reference::{ReferenceDefect, of_reference};

/// What is told of one measurement, in base units; what is not told is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Operations (datagrams, disk operations) a second.
    pub operations_per_second: Option<f64>,
    /// Bytes of each.
    pub operation_bytes: Option<f64>,
    /// Bytes a second, in every way in which what is told can be meant.
    pub bytes_per_second: Vec<f64>,
    /// Mean response time in microseconds.
    pub latency_mean_us: Option<f64>,
    /// The longest.
    pub latency_max_us: Option<f64>,
    /// Bits a second that were carried.
    pub bits_per_second: Vec<f64>,
    /// What the link can carry.
    pub link_bits_per_second: Option<f64>,
    /// The machines with their cores.
    pub machines: Vec<ToldMachine>,
    /// Repetitions that there are, and that were promised.
    pub repeats: Option<(usize, u32)>,
}

/// What is told of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToldMachine {
    /// What it is called.
    pub name: String,
    /// How many cores it has.
    pub cores: Option<u32>,
    /// How many it is said to have.
    pub cores_said: Option<u32>,
    /// How busy cores were, one number each, in percent.
    pub percent_of_core: Vec<f64>,
    /// How busy all were together, 100 being one core.
    pub percent_of_all: Option<f64>,
}

/// Something that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impossible {
    /// The check: a stable name.
    pub check: &'static str,
    /// What cannot be, with the numbers.
    pub what: String,
}

type Check = fn(&Told) -> Vec<String>;

/// The checks, each with its name.
const CHECKS: &[(&str, Check)] = &[
    ("operations-times-size", operations::check),
    ("impossible-latency", latencies::check),
    ("faster-than-link", link_rate::check),
    ("more-than-its-cores", machines::check),
    ("repeats-missing", repeats::check),
];

/// Everything that cannot be.
pub fn impossible(told: &Told) -> Vec<Impossible> {
    let of_check = |(name, check): &(&'static str, Check)| {
        let check_name = *name;
        check(told).into_iter().map(move |what| Impossible { check: check_name, what })
    };
    CHECKS.iter().flat_map(of_check).collect()
}

/// A number as people write it: no more digits than tell something.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
