//! `make bench`: vioperf and its peers side by side, in one run, on one machine, over one path: a
//! veth pair between two network namespaces. Writes `docs/benchmarks.md`.
//!
//! Nothing of it has a name outside or outlives it: it runs in the same kind of sandbox as a lab.

mod arena;
mod arguments;
mod contests;
mod entry;
mod machine;
mod page;
mod process;
mod rounds;
mod sampling;
mod statistics;
mod tools;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;
use nix::sys::signal::Signal;
use vioperf_lab::sandbox::{self, Entered, Sandbox};

use crate::arena::Arena;
use crate::arguments::Arguments;
use crate::page::Page;
use crate::tools::Tools;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match sandbox::enter(&std::env::temp_dir()) {
        // The inner process did everything; hand its exit code on.
        Ok(Entered::Guard(ended)) => {
            return ExitCode::from(u8::try_from(ended.exit_code()).unwrap_or(1));
        }
        Ok(Entered::Inside(sandbox)) => bench(&sandbox, &arguments),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(sandbox: &Sandbox, arguments: &Arguments) -> Result<()> {
    end_on_signals(sandbox)?;
    let tools = Tools::find(arguments)?;
    let arena = Arena::build()?;
    let contests = contests::chosen(&arguments.contests)?;
    let mut page = Page::begin(arguments, &tools)?;
    for contest in &contests {
        let heat = tools.entries(contest, rounds::HEAT_SECONDS);
        let entries = tools.entries(contest, arguments.seconds);
        let result = rounds::hold(&arena, contest, heat.into_iter().zip(entries), arguments);
        page.add_contest(contest, &result)?;
    }
    if arguments.wants_sampling() {
        page.add_sampling(&sampling::cost(&tools.vioperf)?)?;
    }
    page.end()
}

/// The sandbox's first process gets no signal that it has no handler for.
fn end_on_signals(sandbox: &Sandbox) -> Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let at_once = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(
            signal as i32,
            128 + signal as i32,
            at_once,
        )
        .context("cannot handle signals")?;
    }
    Ok(sandbox.unblock_signals()?)
}
