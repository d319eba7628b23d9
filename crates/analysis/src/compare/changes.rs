//! What else differs between two runs: what changed besides what was meant to.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use vioperf_model::record::RunInfo;

use super::result::Change;

/// Facts that tell one run's from another's by nothing but when and where they were made.
const OF_NO_MATTER: [&str; 3] = ["name", "question", "repeat.seed"];

/// Everything that differs, first the programs and the machine, then the scenario key by key.
pub fn between(a: &RunInfo, b: &RunInfo) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |what: String, a: Option<String>, b: Option<String>| {
        if a != b {
            changes.push(Change { what, a, b });
        }
    };
    for ((what, of_a), (_, of_b)) in facts(a).into_iter().zip(facts(b)) {
        note(what.to_owned(), of_a, of_b);
    }
    let settings = [&a.host.settings, &b.host.settings];
    for key in union(settings) {
        note(format!("host {key}"), settings[0].get(&key).cloned(), settings[1].get(&key).cloned());
    }
    let scenarios = [scenario(a), scenario(b)];
    for key in union([&scenarios[0], &scenarios[1]]) {
        let [of_a, of_b] = scenarios.each_ref().map(|scenario| scenario.get(&key).cloned());
        note(format!("scenario {key}"), of_a, of_b);
    }
    changes
}

fn facts(run: &RunInfo) -> Vec<(&'static str, Option<String>)> {
    let host = &run.host;
    let hypervisor = run.hypervisor.as_ref();
    let accel = |emulated: bool| if emulated { "software emulation (TCG)" } else { "KVM" };
    vec![
        ("vioperf", Some(run.vioperf_version.clone())),
        ("host", Some(host.os.clone())),
        ("host kernel", Some(host.kernel_release.clone())),
        ("CPU", Some(host.cpu_model.clone())),
        ("cores", Some(host.cores.to_string())),
        ("memory", Some(format!("{} MiB", host.memory_bytes >> 20))),
        ("QEMU", hypervisor.map(|h| h.qemu_version.clone())),
        ("QEMU's program", hypervisor.map(|h| h.qemu_path.clone())),
        ("acceleration", hypervisor.map(|h| accel(h.emulated).to_owned())),
        ("guest kernel", hypervisor.map(|h| h.guest_kernel_release.clone())),
        ("virtual CPUs", hypervisor.map(|h| h.vcpus.to_string())),
    ]
}

/// Keys of either, in alphabetical order.
pub fn union(maps: [&BTreeMap<String, String>; 2]) -> Vec<String> {
    let mut keys: Vec<String> = maps.iter().flat_map(|map| map.keys().cloned()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn scenario(run: &RunInfo) -> BTreeMap<String, String> {
    let mut keys = dotted(&run.scenario);
    keys.retain(|key, _| !OF_NO_MATTER.contains(&key.as_str()));
    keys
}

/// What is written in tables, as dotted keys with their values.
pub fn dotted<T: Serialize>(tables: &T) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    if let Ok(value) = serde_json::to_value(tables) {
        flatten("", &value, &mut keys);
    }
    keys
}

fn flatten(prefix: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{name}"), value, keys);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            keys.insert(prefix.to_owned(), text.clone());
        }
        Value::Array(items) => {
            let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            keys.insert(prefix.to_owned(), items.iter().map(text).collect::<Vec<_>>().join(", "));
        }
        other => {
            keys.insert(prefix.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Synthetic;

    #[test]
    fn what_differs_is_named_with_both_values_and_nothing_else() {
        let a = Synthetic::calm_kvm().run;
        let mut b = a.clone();
        assert!(between(&a, &b).is_empty());
        b.vioperf_version = "9.9.9".into();
        b.scenario.testbed.mtu = 9000;
        b.scenario.repeat.seed = Some(7);
        b.host.settings.insert("turbo".into(), "off".into());
        let changes = between(&a, &b);
        let whats: Vec<&str> = changes.iter().map(|change| change.what.as_str()).collect();
        assert_eq!(whats, ["vioperf", "host turbo", "scenario testbed.mtu"]);
        assert_eq!(changes[1].a, None);
        assert_eq!(changes[2].b.as_deref(), Some("9000"));
    }
}
