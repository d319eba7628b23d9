//! The table of plants, by what they touch.

mod controls;
mod cores;
mod guests;
mod links;
mod losses;
mod packets;
mod rules;
mod windows;

use std::time::Duration;

use anyhow::Result;

use crate::plant::Plant;
use crate::testbed::{Middle, Testbed};

/// Every plant, controls last.
#[must_use]
pub fn all() -> Vec<Plant> {
    let tables = [
        links::PLANTS,
        losses::PLANTS,
        windows::PLANTS,
        packets::PLANTS,
        rules::PLANTS,
        cores::PLANTS,
        guests::PLANTS,
        controls::PLANTS,
        rules::CONTROLS,
        guests::CONTROLS,
    ];
    tables.concat()
}

/// The plant of that name.
#[must_use]
pub fn named(name: &str) -> Option<Plant> {
    all().into_iter().find(|plant| plant.name == name)
}

/// A second of load is what each trial gets where a plant does not need more.
const SECOND: &str = "--duration=1s";

/// Loss hardly slows BBR down, which a machine may have as its default.
const CUBIC: &str = "--congestion-control=cubic";

fn nothing(_: &mut Testbed) -> Result<()> {
    Ok(())
}

/// A wire that takes so many milliseconds each way.
const fn slow(milliseconds: u64) -> Middle {
    Middle::Slow { delay: Duration::from_millis(milliseconds), one_lost_of: 0 }
}

/// The same on which one frame of so many is lost.
const fn lossy(milliseconds: u64, one_lost_of: u32) -> Middle {
    Middle::Slow { delay: Duration::from_millis(milliseconds), one_lost_of }
}
