//! A scenario's text, and `--set`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vioperf_model::plan::Plan;
use vioperf_model::scenario_file::{Override, parse};

fuzz_target!(|text: &str| {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let overrides: Vec<Override> = first.parse().into_iter().collect();
    if let Ok(scenario) = parse("fuzz", rest, &overrides)
        && scenario.repeat.blocks < 10
    {
        let _ = Plan::new(&scenario, 1);
    }
});
