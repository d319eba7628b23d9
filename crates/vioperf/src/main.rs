//! vioperf: what does virtualization cost my network path, why, and what should I change?
//!
//! The way of one measurement: scenario file -> plan -> preflight -> [bring up -> conduct ->
//! store]* -> tear down -> analyse -> report.

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, KernelCommand};
use crate::exit::Failure;
use crate::output::Output;

mod by_hand;
mod calibrate;
mod cli;
mod commands;
mod conductor;
#[cfg(test)]
mod documentation;
mod exit;
mod export;
mod guest_kernel;
mod history;
mod interrupt;
mod live;
mod machine_look;
mod machines;
mod output;
mod paths;
mod preflight;
mod prepare;
mod progress;
mod provenance;
mod reference;
mod references;
mod report;
mod resume;
mod run_id;
mod sandboxed;
mod scenarios;
mod store;
mod view;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.quiet, cli.color);
    match dispatch(cli.command, &output) {
        Ok(code) => code,
        Err(failure) => {
            output.error(&failure);
            failure.code()
        }
    }
}

fn dispatch(command: Command, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => commands::run::execute(&args, output),
        Command::Calibrate(args) => commands::calibrate::execute(&args, output),
        Command::Lab(command) => commands::lab::execute(&command, output),
        Command::Serve(args) => commands::serve::execute(&args, output),
        Command::Test(args) => commands::test::execute(&args, output),
        Command::Libvirt(command) => commands::libvirt::execute(&command, output),
        Command::Plan(args) => commands::plan::execute(&args, output),
        Command::Scenarios(args) => commands::scenarios::execute(&args, output),
        Command::Doctor(args) => commands::doctor::execute(&args, output),
        Command::Report(args) => commands::report::execute(&args, output),
        Command::Explain(args) => commands::explain::execute(&args, output),
        Command::Export(args) => commands::export::execute(&args, output),
        Command::Compare(args) => commands::compare::execute(&args, output),
        Command::History(args) => commands::history::execute(&args, output),
        Command::Trend(args) => commands::trend::execute(&args, output),
        Command::View(args) => commands::view::execute(&args, output),
        Command::Kernel(KernelCommand::Fetch { if_needed }) => {
            commands::kernel::fetch(if_needed, output)
        }
        Command::Kernel(KernelCommand::List) => commands::kernel::list(output),
        Command::Kernel(KernelCommand::Remove { release }) => {
            commands::kernel::remove(&release, output)
        }
        Command::Schema(args) => commands::schema::execute(&args, output),
        Command::Reference(command) => commands::reference::execute(&command, output),
        Command::Completions(args) => commands::completions::execute(&args, output),
        Command::Man(args) => commands::man::execute(&args),
        Command::Node { memory } => commands::node::execute(memory),
    }
}
