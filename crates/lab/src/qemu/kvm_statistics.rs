//! What KVM has counted of a guest, as QEMU tells it: `query-stats` (QEMU 7.1, Linux 5.14;
//! Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD). The same counters are files below
//! `/sys/kernel/debug/kvm`, but those are root's alone, and named by the ids that processes have outside of
//! a lab.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// More names are not taken.
const MOST: usize = 256;

/// What of the names is about the price of packets.
const WANTED: [&str; 6] =
    ["exit", "injection", "hypercall", "insn_emulation", "halt_wakeup", "_poll"];

/// Of every virtual CPU.
pub(super) fn request() -> Value {
    json!({ "target": "vcpu", "providers": [{ "provider": "kvm" }] })
}

/// Every counter by KVM's own name, those of all virtual CPUs added up; empty where KVM runs none of them.
pub(super) fn counters(answer: &Value) -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    let cpus = answer.as_array().into_iter().flatten();
    let statistics = cpus.filter_map(|cpu| cpu.get("stats")?.as_array()).flatten();
    for statistic in statistics {
        let name = statistic.get("name").and_then(Value::as_str);
        // Histograms are lists.
        let value = statistic.get("value").and_then(Value::as_u64);
        let (Some(name), Some(value)) = (name, value) else { continue };
        let is_time = name.ends_with("_ns");
        if is_time || !WANTED.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        if counters.len() < MOST || counters.contains_key(name) {
            let sum = counters.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_cpus_are_added_up() {
        let cpu = |exits: u64| {
            json!({ "provider": "kvm", "qom-path": "/machine/unattached/device[0]", "stats": [
                { "name": "guest_mode", "value": false },
                { "name": "exits", "value": exits },
                { "name": "io_exits", "value": 3 },
                { "name": "irq_injections", "value": 5 },
                { "name": "halt_wait_hist", "value": [1, 2] },
                { "name": "halt_poll_success_ns", "value": 77 },
            ]})
        };
        let expected = [("exits", 30), ("io_exits", 6), ("irq_injections", 10)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(counters(&json!([cpu(10), cpu(20)])), BTreeMap::from(expected));
    }

    #[test]
    fn what_is_no_answer_counts_nothing() {
        let odd = [json!([]), json!(null), json!([{ "stats": 3 }]), json!([{ "stats": [{}] }])];
        for answer in odd {
            assert!(counters(&answer).is_empty(), "{answer}");
        }
    }
}
