//! `vioperf lab`: the testbed of a cell, for a look by hand.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use vioperf_lab::sandbox::Sandbox;
use vioperf_model::record::RunEnding;

use crate::by_hand::building::Wanted;
use crate::by_hand::detached::{self, Started};
use crate::by_hand::guest_shell;
use crate::by_hand::keeper::{Keeper, Over};
use crate::by_hand::parts::Description;
use crate::by_hand::roll::{Claim, Roll};
use crate::by_hand::visit::{self, Way};
use crate::cli::{LabCommand, LabShellArgs, LabUpArgs};
use crate::exit::{Failure, run_code};
use crate::interrupt::{Interrupt, Urgency, signal_name};
use crate::output::Output;
use crate::paths;
use crate::sandboxed::{self, Side};
use crate::store::to_json;

/// Does what it is told.
pub fn execute(command: &LabCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Up(args) => up(args, output),
        LabCommand::Shell(args) => shell(args, output),
        LabCommand::Down { lab, all } => down(lab.as_deref(), *all, output),
        LabCommand::List { json } => list(*json, output),
    }
}

fn roll() -> Roll {
    Roll::in_folder(paths::labs())
}

fn up(args: &LabUpArgs, output: &Output) -> Result<ExitCode, Failure> {
    if args.tells_when_it_stands {
        detached::leave_terminal()?;
    } else if args.detach {
        return up_in_background(output);
    }
    sandboxed::put_back_what_is_left(output);
    let wanted = Wanted::check(args)?;
    let claim = roll().claim(args.name.as_deref(), wanted.name())?;
    match sandboxed::enter(output)? {
        Side::Outside(ended) => Ok(ExitCode::from(u8::try_from(ended.exit_code()).unwrap_or(1))),
        Side::Inside(sandbox) => inside(&sandbox, &wanted, &claim, args, output),
    }
}

fn up_in_background(output: &Output) -> Result<ExitCode, Failure> {
    match detached::start()? {
        Started::Stands(text) => {
            output.result(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Started::Ended(status) => Ok(ExitCode::from(visit::code_of(status))),
    }
}

fn inside(
    sandbox: &Sandbox,
    wanted: &Wanted,
    claim: &Claim,
    args: &LabUpArgs,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;
    sandbox.unblock_signals()?;
    let stage = match wanted.build(sandbox, &interrupt, output) {
        Ok(stage) => stage,
        Err(_) if interrupt.urgency() > Urgency::None => {
            output.note("interrupted before the lab stood");
            let signal = interrupt.signal().map_or("a signal", signal_name).to_owned();
            return Ok(run_code(&RunEnding::Interrupted { signal }, true));
        }
        Err(failure) => return Err(failure),
    };
    let until = Instant::now() + args.lasts.as_duration();
    let (interrupt, shells, next_shell) = (&interrupt, Vec::new(), 0);
    let mut keeper =
        Keeper { sandbox, wanted, claim, stage, until, interrupt, output, shells, next_shell };
    if let Some(reason) = wanted.why_no_shells() {
        output.warning(reason);
    }
    let told = keeper.in_words();
    match args.tells_when_it_stands {
        true => detached::tell(&told)?,
        false => output.result(&told)?,
    }
    let why = match keeper.keep() {
        Over::Asked => String::new(),
        Over::Time => format!(" after {}, as --for says", args.lasts),
    };
    drop(keeper);
    output.note(format_args!("the lab {} has gone down{why}", claim.name()));
    Ok(ExitCode::SUCCESS)
}

fn shell(args: &LabShellArgs, output: &Output) -> Result<ExitCode, Failure> {
    let (name, line) = roll().connect(args.lab.as_deref())?;
    let way = visit::way(&line, &args.part, output)?;
    if args.command.is_empty() {
        let or = if matches!(way, Way::Channel(_)) { ", Ctrl-] where it hangs" } else { "" };
        output.note(format_args!("{} of the lab {name}; `exit` leaves it{or}", args.part));
    }
    let code = match way {
        Way::Doors(doors) => visit::code_of(visit::run(doors, &args.command, &name, &args.part)?),
        Way::Channel(channel) => guest_shell::run(channel, &args.command, &args.part)?,
    };
    Ok(ExitCode::from(code))
}

fn down(lab: Option<&str>, all: bool, output: &Output) -> Result<ExitCode, Failure> {
    let roll = roll();
    let names = match (lab, all) {
        (None, true) => roll.standing()?.into_iter().map(Some).collect(),
        (lab, _) => vec![lab.map(str::to_owned)],
    };
    for name in names {
        let (name, line) = roll.connect(name.as_deref())?;
        visit::end(&line, &name)?;
        output.note(format_args!("the lab {name} has gone down"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A lab of the list.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// The process that the user started.
    process: i32,
    /// Absent while it is coming up.
    lab: Option<Description>,
}

fn list(json: bool, output: &Output) -> Result<ExitCode, Failure> {
    let roll = roll();
    let mut listed = Vec::new();
    for name in roll.standing()? {
        // One that goes down meanwhile is none.
        let Ok((name, line)) = roll.connect(Some(&name)) else { continue };
        let Ok(lab) = visit::describe(&line) else { continue };
        listed.push(Listed { name, process: line.guard.as_raw(), lab });
    }
    if json {
        output.result(&to_json(&listed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if listed.is_empty() {
        output.note("no lab stands: `vioperf lab up SCENARIO` makes one");
    }
    for Listed { name, process, lab } in listed {
        output.result(&match lab {
            Some(lab) => lab.in_words(&name),
            None => format!("lab {name}: process {process}, it is coming up\n"),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
