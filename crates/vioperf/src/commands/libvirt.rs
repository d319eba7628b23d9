//! `vioperf libvirt`.

use std::process::ExitCode;

use anyhow::anyhow;
use vioperf_lab::libvirt::{FindError, Left, Terms, Virsh, VirshError, list};
use vioperf_model::libvirt::{DomainFacts, DomainInterface};

use crate::cli::LibvirtCommand;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::machines::domain::{self, Permission};
use crate::output::Output;
use crate::report::table::{self, Column};
use crate::store::to_json;

/// Lists domains, or puts some back.
pub fn execute(command: &LibvirtCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        LibvirtCommand::List { libvirt, json } => {
            let domains = list(&Virsh::new(libvirt.as_deref()), true).map_err(failure)?;
            let text = if *json { to_json(&domains)? } else { describe(&domains) };
            output.result(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        LibvirtCommand::Restore { domains, allow_destroy, shut_down_within } => {
            let (destroy, shut_down_within) = (*allow_destroy, *shut_down_within);
            let permission = Permission { destroy, shut_down_within, ..Permission::default() };
            restore(domains, permission.terms(), output)
        }
    }
}

fn failure(error: FindError) -> Failure {
    match error {
        FindError::Virsh(VirshError::NotInstalled | VirshError::NoConnection { .. }) => {
            Failure::Machine(error.into())
        }
        other => other.into(),
    }
}

fn restore(names: &[String], terms: Terms, output: &Output) -> Result<ExitCode, Failure> {
    let all = Left::all(&domain::journals()?)?;
    let is_wanted =
        |left: &&Left, name: &String| left.entry.name == *name || left.entry.uuid == *name;
    if let Some(name) = names.iter().find(|name| !all.iter().any(|left| is_wanted(&left, name))) {
        let there: Vec<&str> = all.iter().map(|left| left.entry.name.as_str()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(Failure::Usage(anyhow!("no run left {name} changed; left changed: {there}")));
    }
    let interrupt = Interrupt::listen()?;
    let mut failed = 0;
    let wanted = |left: &Left| names.is_empty() || names.iter().any(|name| is_wanted(&left, name));
    let mut restored = 0;
    for left in all.into_iter().filter(wanted) {
        let name = left.entry.name.clone();
        output.note(format_args!("putting {name} back"));
        match domain::restore(left, terms, &interrupt) {
            Ok(()) => {
                restored += 1;
                output.result(&format!("{name} is as it was\n"))?;
            }
            Err(error) => {
                failed += 1;
                output.error(format_args!("{name}: {error}"));
            }
        }
    }
    if restored + failed == 0 {
        output.result("nothing to put back\n")?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line a domain, and below it one of each of its interfaces.
fn describe(domains: &[DomainFacts]) -> String {
    if domains.is_empty() {
        return "libvirt has no domain\n".to_owned();
    }
    let columns: &[Column] = &[
        table::text("domain"),
        table::text("state"),
        table::number("vCPUs"),
        table::number("MiB"),
        table::text("machine"),
        table::text("NIC"),
        table::text("MAC"),
        table::text("connected to"),
        table::text("tap"),
        table::text("addresses"),
    ];
    let rows: Vec<Vec<String>> = domains.iter().flat_map(rows).collect();
    let (head, body) = table::lines(columns, &rows);
    let mut lines = head;
    lines.extend(body);
    lines.join("\n") + "\n"
}

fn rows(domain: &DomainFacts) -> Vec<Vec<String>> {
    let emulated = if domain.hypervisor == "qemu" { " (emulated)" } else { "" };
    let mut own = vec![
        domain.name.clone(),
        domain.state.clone(),
        domain.vcpus.to_string(),
        domain.memory_mib.to_string(),
        format!("{}{emulated}", domain.machine),
    ];
    if domain.interfaces.is_empty() {
        own.push("none".to_owned());
        return vec![own];
    }
    let mut rows = Vec::new();
    for interface in &domain.interfaces {
        let mut row = std::mem::replace(&mut own, vec![String::new(); 5]);
        row.extend(cells(interface));
        rows.push(row);
    }
    rows
}

fn cells(interface: &DomainInterface) -> [String; 5] {
    // What is passed through is no model of QEMU's.
    let model = if interface.model.is_empty() { "passed through" } else { &interface.model };
    let mut nic = vec![model.to_owned()];
    nic.extend(interface.backend.clone());
    nic.extend(interface.queues.map(|queues| format!("{queues} queues")));
    nic.extend(interface.driver.iter().map(|(name, value)| format!("{name}={value}")));
    [
        nic.join(", "),
        interface.mac.clone(),
        interface.connected_to(),
        interface.target.clone().unwrap_or_default(),
        interface.addresses.join(", "),
    ]
}
