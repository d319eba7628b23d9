//! `vioperf view`.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use vioperf_model::record::RunEnding;

use crate::cli::ViewArgs;
use crate::exit::{Failure, run_code};
use crate::interrupt::{Interrupt, signal_name};
use crate::output::Output;
use crate::view::server::{Viewer, serve};
use crate::view::shelf::Shelf;

/// Shows the history, or these runs, in a browser until it is interrupted.
pub fn execute(args: &ViewArgs, output: &Output) -> Result<ExitCode, Failure> {
    let shelf = match args.runs.as_slice() {
        [] => Shelf::of_history(output.clone()),
        runs => Shelf::of_runs(runs, output.clone())?,
    };
    // Before an address is printed that leads to nothing.
    shelf.ask(|history| history.count(&crate::history::Filter::default()))?;
    let viewer = Arc::new(Viewer::new(shelf)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).with_context(|| {
        format!("cannot listen on 127.0.0.1:{}: give another --port, or none", args.port)
    })?;
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;
    let port = listener.local_addr().context("cannot learn the port")?.port();
    output.result(&format!("http://127.0.0.1:{port}{}\n", viewer.entrance()))?;
    output.note("whoever has this address can read the runs; Ctrl-C ends it");
    if args.open {
        open(&format!("http://127.0.0.1:{port}{}", viewer.entrance_once()?), output);
    }
    serve(listener, &viewer, &interrupt)?;
    let signal = interrupt.signal().map_or("an interrupt", signal_name).to_owned();
    output.note(format_args!("ended by {signal}; the address leads nowhere any more"));
    Ok(run_code(&RunEnding::Interrupted { signal }, false))
}

/// Opens the user's browser. That there is none is no reason to end.
fn open(address: &str, output: &Output) {
    let program = "xdg-open";
    let started = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let output = output.clone();
    match started {
        // It may last as long as the browser does.
        Ok(mut child) => drop(thread::spawn(move || {
            if !child.wait().is_ok_and(|status| status.success()) {
                output.warning(format_args!(
                    "{program} opened no browser: open the address yourself"
                ));
            }
        })),
        Err(error) => {
            output.warning(format_args!(
                "cannot start {program} ({error}): open the address yourself"
            ));
        }
    }
}
