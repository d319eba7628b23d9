//! From the command line to a plan.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::Duration;

use vioperf_analysis::wording::count;
use vioperf_model::plan::{CellId, Costs, Plan};
use vioperf_model::scenario::{Accel, Repeat, Scenario};
use vioperf_model::scenario_file::Override;
use vioperf_model::units::TimeSpan;
use vioperf_model::workload::WorkloadKind;

use crate::cli::ScenarioChanges;
use crate::exit::Failure;
use crate::scenarios::{self, Found};

/// Finds the scenario and applies what the command line changes in it.
pub fn scenario(name: &str, args: &ScenarioChanges) -> Result<Found, Failure> {
    let mut overrides = [args.overrides.as_slice(), &args.variant].concat();
    let mut option = |name: &str, section: &str, key: &str, value: Option<toml::Value>| {
        overrides.extend(value.map(|value| Override::option(name, section, key, value)));
    };
    option("--blocks", "repeat", "blocks", args.blocks.map(Into::into));
    option("--goal", "repeat", "goal", args.goal.map(|goal| goal.to_string().into()));
    option("--most-blocks", "repeat", "most_blocks", args.most_blocks.map(Into::into));
    option("--budget", "repeat", "budget", args.budget.map(|span| span.to_string().into()));
    // TOML's integers are signed; a seed beyond them is no better than one within.
    let seed = args.seed.map(|seed| i64::try_from(seed & (u64::MAX >> 1)).unwrap_or(0));
    option("--seed", "repeat", "seed", seed.map(Into::into));
    option("--kernel", "guest", "kernel", args.kernel.clone().map(Into::into));
    option("--qemu", "guest", "qemu", args.qemu.clone().map(Into::into));
    let scale = args.scale.map(|scale| Override::top("--scale", "scale", scale.as_f64()));
    overrides.extend(scale);
    let mut found = scenarios::find(name, &overrides).map_err(Failure::Usage)?;
    // Who asks for a number of blocks and no goal wants that number, whatever goal the scenario has.
    let asks_for_more = args.goal.is_some() || args.most_blocks.is_some();
    for scenario in std::iter::once(&mut found.scenario).chain(&mut found.parts) {
        let repeat = &mut scenario.repeat;
        if repeat.goal.is_some() && !asks_for_more {
            repeat.most_blocks = args.blocks.or(repeat.most_blocks);
        }
    }
    Ok(found)
}

/// How many blocks a plan has (`3 blocks`, `3 to 20 blocks until settled within ± 5 %`).
pub fn blocks(repeat: &Repeat) -> String {
    let (least, most) = (repeat.blocks as usize, repeat.blocks_at_most() as usize);
    match repeat.goal {
        Some(goal) if least < most => {
            format!("{least} to {} until settled within ± {goal}", count(most, "block"))
        }
        _ => count(least, "block"),
    }
}

/// Expands the scenario, with its own seed or a drawn one, without some of its cells.
pub fn plan(scenario: &Scenario, without: &BTreeSet<CellId>) -> Plan {
    Plan::without(scenario, scenario.repeat.seed.unwrap_or_else(draw_seed), without)
}

/// Short enough to be typed again. The order of a plan needs no better randomness than the one
/// that the standard library keys its hash maps with.
fn draw_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000
}

/// What a plan's parts are thought to take before anything was tried.
pub fn likely_costs(accel: Accel) -> &'static Costs {
    let kvm = accel != Accel::Tcg && Path::new("/dev/kvm").exists();
    if kvm { &Costs::KVM } else { &Costs::TCG }
}

/// How long a run takes, going by such costs: no longer than its budget, but for a block.
pub fn estimate(scenario: &Scenario, plan: &Plan, costs: &Costs) -> Duration {
    let whole = plan.estimate(scenario.guest.reuse, costs);
    let blocks = u32::try_from(plan.blocks.len()).unwrap_or(u32::MAX).max(1);
    let budget = scenario.repeat.budget.map_or(whole, TimeSpan::as_duration);
    whole.min(budget.max(whole / blocks))
}

/// How an estimate is meant, before the number: what looks for something ends when it has found it.
pub fn at_most(scenario: &Scenario) -> &'static str {
    let searches = scenario.workload.kind == WorkloadKind::RateSearch;
    if searches || scenario.repeat.may_settle() { "at most " } else { "" }
}

/// A duration as people say it.
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}
