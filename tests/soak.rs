//! A run over every switch and several NIC models is killed at a moment that nobody chose, again and again:
//! nothing is left of it. `make soak` does so fifty times; the test suite, which has no hour for it, a few.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::env;
use std::fmt::Write;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::world::World;

/// In the test suite; `KILLS` says otherwise.
const KILLS: u64 = 3;

/// Of what is drawn; `SEED` says otherwise.
const SEED: u64 = 20_261_122;

/// The longest that a run goes on: enough for a boot, a snapshot and trials of several switches, as each
/// run measures in an order of its own.
const LONGEST: Duration = Duration::from_secs(20);

/// Every level that some machine can do; what this one cannot is left out by the run itself, virtual functions of a
/// card among them: those are tests/sriov.rs's.
fn scenario() -> String {
    let switches = vioperf_model::switch::SWITCHES.iter().map(|row| row.name);
    format!(
        "name = \"soak\"\nquestion = \"What is left of a killed run?\"\n\
         [testbed]\ninterface = \"no-such-card\"\n\
         [workload]\nkind = \"tcp-stream\"\nduration = \"200ms\"\nwarmup = \"50ms\"\n\
         [factors]\nnic = [\"virtio\", \"vmxnet3\", \"rtl8139\"]\nswitch = {:?}\n\
         [repeat]\nblocks = 9\n",
        switches.collect::<Vec<_>>()
    )
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => otherwise,
    }
}

#[test]
fn a_run_over_every_switch_that_is_killed_at_any_moment_leaves_nothing() {
    let (kills, seed) = (from_environment("KILLS", KILLS), from_environment("SEED", SEED));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut met = String::new();
    for number in 0..kills {
        let world = World::new();
        support::write(&world.path("here/soak.toml"), &scenario());
        let before = world.files_beside("here/run");
        let order = format!("--seed={}", random.random::<u32>());
        let moment = random.random_range(Duration::ZERO..LONGEST);
        let is_outer = random.random_bool(0.5);
        let run = world.start(&["run", "soak.toml", "--out=run", &order]);
        thread::sleep(moment);
        let programs = run.programs();
        println!(
            "kill {number} after {moment:.1?}, {order}, of the outer: {is_outer}: {programs:?}"
        );
        match run.inner().filter(|_| !is_outer) {
            Some(inner) => {
                kill(inner, Signal::SIGKILL).unwrap();
                drop(run.ends().failed_with(137, &["ended by SIGKILL"]));
            }
            None => {
                run.signal(Signal::SIGKILL);
                let finished = run.ends();
                assert_eq!(finished.signal, Some(9), "{finished:#?}");
            }
        }
        assert_eq!(world.files_beside("here/run"), before, "kill {number}");
        let _ = write!(met, "{programs:?}");
    }
    assert!(met.contains("qemu-system-x86_64"), "no guest ran at any of the moments");
}
