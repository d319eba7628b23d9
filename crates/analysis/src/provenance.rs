//! What a number was measured with, flat: a name and a value each, so that two runs, or two sittings
//! of one, can be held against each other.

use std::collections::{BTreeMap, BTreeSet};

use vioperf_model::record::{HostFacts, HypervisorFacts};

/// Name and value. A fact that is not known is not in it.
pub type Facts = BTreeMap<String, String>;

/// The fact that is the host's kernel release.
pub const HOST_KERNEL: &str = "host kernel";
/// The fact that is the version of the QEMU that ran the guests.
pub const QEMU: &str = "QEMU";

/// What moves numbers of a run: program, host, its settings, and what ran the guests.
pub fn facts(vioperf_version: &str, host: &HostFacts, of: Option<&HypervisorFacts>) -> Facts {
    let mut facts = Facts::new();
    let mut add = |name: &str, value: String| {
        facts.insert(name.to_owned(), value);
    };
    add("vioperf", vioperf_version.to_owned());
    add("operating system", host.os.clone());
    add(HOST_KERNEL, host.kernel_release.clone());
    add("CPU", host.cpu_model.clone());
    add("cores", host.cores.to_string());
    // What a kernel keeps for itself differs by some KiB from boot to boot.
    add("memory", format!("{:.1} GiB", host.memory_bytes as f64 / f64::from(1 << 30)));
    for (name, value) in &host.settings {
        add(name, value.clone());
    }
    if let Some(of) = of {
        add("accelerator", if of.emulated { "TCG" } else { "KVM" }.into());
        add("virtual CPUs", of.vcpus.to_string());
        facts.extend(guest_facts(None, &of.qemu_version, &of.guest_kernel_release));
    }
    facts
}

/// What is known of guests, those of one variant or all, before any was started.
pub fn guest_facts(variant: Option<&str>, qemu_version: &str, guest_kernel_release: &str) -> Facts {
    let name = |what: &str| match variant {
        Some(variant) => format!("{what} of {variant}"),
        None => what.to_owned(),
    };
    Facts::from([
        (name(QEMU), qemu_version.to_owned()),
        (name("guest kernel"), guest_kernel_release.to_owned()),
    ])
}

/// The same of the guests of every variant.
pub fn variant_facts(hypervisors: &BTreeMap<String, HypervisorFacts>) -> Facts {
    let facts = |(variant, of): (&String, &HypervisorFacts)| {
        guest_facts(Some(variant), &of.qemu_version, &of.guest_kernel_release)
    };
    hypervisors.iter().flat_map(facts).collect()
}

/// A fact that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub name: String,
    /// What it was; absent where it was not recorded.
    pub before: Option<String>,
    /// What it became; likewise.
    pub after: Option<String>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = |side: &Option<String>| side.clone().unwrap_or_else(|| "not recorded".into());
        write!(f, "{}: {} → {}", self.name, said(&self.before), said(&self.after))
    }
}

/// What of `before` is not the same in `after`, by name.
pub fn changes(before: &Facts, after: &Facts) -> Vec<Change> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| {
        let (before, after) = (before.get(name), after.get(name));
        (before != after).then(|| Change {
            name: name.clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
    };
    names.into_iter().filter_map(change).collect()
}

/// The same, of what is known on both sides.
pub fn contradictions(before: &Facts, after: &Facts) -> Vec<Change> {
    let mut found = changes(before, after);
    found.retain(|change| change.before.is_some() && change.after.is_some());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Synthetic;

    #[test]
    fn what_changed_is_named_and_what_did_not_is_not() {
        let run = Synthetic::tcg().run;
        let of = |host: &HostFacts| facts("0.1.0", host, run.hypervisor.as_ref());
        let before = of(&run.host);
        let mut host = run.host.clone();
        host.load_average_1min += 3.0;
        host.memory_bytes += 4096;
        assert_eq!(changes(&before, &of(&host)), []);
        host.kernel_release = "6.12.0".into();
        host.settings.insert("swappiness".into(), "1".into());
        let said: Vec<String> =
            changes(&before, &of(&host)).iter().map(ToString::to_string).collect();
        let kernel = format!("host kernel: {} → 6.12.0", run.host.kernel_release);
        assert_eq!(said, [kernel, "swappiness: not recorded → 1".into()]);
        assert_eq!(contradictions(&before, &of(&host)).len(), 1);
        // A run without guests says nothing about QEMU.
        assert_eq!(contradictions(&before, &facts("0.1.0", &run.host, None)), []);
    }
}
