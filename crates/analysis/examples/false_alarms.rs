//! How often a comparison tells a difference where there is none, and how often it finds one that is
//! there, on simulated measurements; the tables of docs/statistics.md.
//!
//!     cargo run --release -p vioperf-analysis --features testing --example false_alarms

use std::env;

use vioperf_analysis::compare::series::{Design, Settings, Tested, test};
use vioperf_analysis::testing::noise::{Machine, Shape};

const SEPARATE: Design = Design::Separate { a_first: true };
const SCATTER: f64 = 0.05;

/// Of `tries` comparisons, the percentage in which the first cell or any is told to differ.
fn told(
    tries: u64,
    permutations: u32,
    (shape, design): (Shape, Design),
    (cells, blocks, effect): (usize, usize, f64),
) -> (f64, f64) {
    let (mut first, mut any) = (0_u32, 0_u32);
    for seed in 0..tries {
        let mut machine = Machine::new(shape, SCATTER, seed);
        let pairs = match design {
            Design::Paired => machine.one_run(cells, blocks, effect),
            Design::Separate { .. } => machine.two_runs(cells, blocks, effect),
        };
        let settings = Settings { alpha: 0.01, permutations, seed };
        let told = |tested: &Tested| matches!(tested, Tested::Estimated(estimate) if estimate.p_value < settings.alpha);
        let tested = test(&pairs, design, &settings);
        first += u32::from(tested.first().is_some_and(told));
        any += u32::from(tested.iter().any(told));
    }
    let percent = |n: u32| 100.0 * f64::from(n) / tries as f64;
    (percent(first), percent(any))
}

fn main() {
    let arguments: Vec<u64> = env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let tries = arguments.first().copied().unwrap_or(1_000);
    let permutations = 999;
    let sizes = [(4, 8), (4, 20), (16, 8), (16, 10), (32, 10)];
    println!("False alarms in percent of {tries} comparisons (cells x blocks)\n");
    print!("| shape | design |");
    sizes.iter().for_each(|(cells, blocks)| print!(" {cells} x {blocks} |"));
    println!("\n|---|---|{}", "---:|".repeat(sizes.len()));
    for shape in Shape::ALL {
        for (name, design) in [("one run", Design::Paired), ("two runs", SEPARATE)] {
            print!("| {shape:?} | {name} |");
            for (cells, blocks) in sizes {
                let (_, any) = told(tries, permutations, (shape, design), (cells, blocks, 0.0));
                print!(" {any:.1} |");
            }
            println!();
        }
    }
    let tries = tries.div_ceil(5);
    println!(
        "\nFound, in percent of {tries}: an effect of so many times the scatter of a block, 4 cells\n"
    );
    let effects = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0];
    print!("| design | blocks |");
    effects.iter().for_each(|effect| print!(" {effect} |"));
    println!("\n|---|---:|{}", "---:|".repeat(effects.len()));
    let designs = [("one run", Design::Paired, [8, 10, 20]), ("two runs", SEPARATE, [5, 10, 20])];
    for (name, design, blocks) in designs {
        for blocks in blocks {
            print!("| {name} | {blocks} |");
            for effect in effects {
                let size = (4, blocks, effect * SCATTER);
                // At the least blocks p is near the level: few arrangements would blur it.
                let permutations = if blocks == 5 { 19_999 } else { permutations };
                let (first, _) = told(tries, permutations, (Shape::Normal, design), size);
                print!(" {first:.0} |");
            }
            println!();
        }
    }
}
