//! What KVM counts of a guest in a trial: asked of QEMU before the load begins and after it has ended, and put
//! beside what the host's observer reads then.

use std::collections::BTreeMap;

use vioperf_lab::qemu::Guest;
use vioperf_model::sample::NodeReport;

/// The guest of a trial.
#[derive(Debug)]
pub struct WatchedGuest<'a> {
    /// Its QEMU.
    pub guest: &'a mut Guest,
    /// Whether it is emulated in software: then there is no KVM to ask.
    pub is_emulated: bool,
}

/// What KVM counted, or why it did not.
pub type KvmCounters = Result<BTreeMap<String, u64>, String>;

impl WatchedGuest<'_> {
    /// What its virtual CPUs came to so far.
    pub fn kvm_counters(&mut self) -> KvmCounters {
        if self.is_emulated {
            return Err("the guest is emulated in software, without KVM".to_owned());
        }
        match self.guest.kvm_counters() {
            Ok(counters) if counters.is_empty() => {
                Err("QEMU tells no statistics of KVM: they take Linux 5.14".to_owned())
            }
            Ok(counters) => Ok(counters),
            Err(error) => Err(format!("{error}; statistics of KVM take QEMU 7.1")),
        }
    }
}

/// Puts what they came to before and after into the observer's report.
pub fn add(report: &mut NodeReport, before: KvmCounters, after: KvmCounters) {
    match (before, after, report.layers.as_mut_slice()) {
        (Ok(before), Ok(after), [first, .., last]) => {
            (first.kvm, last.kvm) = (Some(before), Some(after));
        }
        (Err(reason), ..) | (_, Err(reason), _) => {
            report.absent.insert("layers.kvm".to_owned(), reason);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::LayerCounters;

    use super::*;

    #[test]
    fn counters_stand_beside_the_observers_or_the_reason_does() {
        let report = || NodeReport {
            layers: vec![LayerCounters::default(), LayerCounters::default()],
            ..NodeReport::default()
        };
        let counted = |exits| Ok(BTreeMap::from([("exits".to_owned(), exits)]));
        let mut whole = report();
        add(&mut whole, counted(1), counted(5));
        let read: Vec<u64> =
            whole.layers.iter().map(|l| l.kvm.as_ref().unwrap()["exits"]).collect();
        assert_eq!((read, whole.absent.len()), (vec![1, 5], 0));
        let mut without = report();
        add(&mut without, counted(1), Err("gone".to_owned()));
        assert_eq!(without.absent["layers.kvm"], "gone");
        assert!(without.layers.iter().all(|layers| layers.kvm.is_none()));
    }
}
