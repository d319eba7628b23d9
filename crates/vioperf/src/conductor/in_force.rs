//! Whether what a cell has between its ends and beside them did what it is there for, by the trial's own
//! counters.

use vioperf_model::record::{CorePlacement, Party, Place};
use vioperf_model::sample::{AccessListCounters, Sample};
use vioperf_model::scenario::{Neighbour, Topology};
use vioperf_model::wire::Role;

/// A neighbour that burned less than this part of the time of its node's samples, one virtual CPU being
/// enough, was not busy: it has to share the host's cores with the load, but gets some of them.
const LEAST_BUSY: f64 = 0.05;

/// Why the trial must not count, if so.
pub fn fault_in(topology: Topology, parties: &[Party]) -> Option<String> {
    let of = |place| parties.iter().find(|party| party.place == place);
    let rules = [
        (Place::Forwarder, topology.rules_of_forwarder()),
        (Place::Host, topology.rules_of_switch()),
    ];
    for (place, rules) in rules.into_iter().filter(|(_, rules)| *rules > 0) {
        let passed = of(place).and_then(passed_rules);
        if passed.is_none_or(|packets| packets == 0) {
            return Some(format!(
                "no packet of the load was held against the {rules} firewall rules ({place})"
            ));
        }
    }
    let is_busy = || of(Place::Neighbour).is_some_and(was_busy);
    if topology.neighbour == Neighbour::Busy && !is_busy() {
        return Some("the neighbour was not busy while the load ran".to_owned());
    }
    None
}

/// Why the trial must not count for where QEMU's threads could run, as the kernel told when it was over.
pub fn misplaced(placement: Option<&CorePlacement>, parties: &[Party]) -> Option<String> {
    let placement = placement?;
    let host = parties.iter().find(|party| party.place == Place::Host)?;
    let threads = host.report.layers.last()?.switches.as_ref()?;
    let all = placement.all();
    let own = Place::Guest.qemu_label();
    threads.iter().filter(|thread| thread.process.starts_with("qemu")).find_map(|thread| {
        let told = thread.cores.as_deref()?;
        let is_vcpu = Some(thread.process.as_str()) == own && thread.name.starts_with("CPU ");
        let wanted = if is_vcpu { &placement.near } else { &all };
        let allowed = CorePlacement::parse_list(told).unwrap_or_default();
        let is_held = !allowed.is_empty() && allowed.iter().all(|core| wanted.contains(core));
        (!is_held).then(|| {
            format!(
                "the thread {} of {} may run on the cores {told} and was to be held to {wanted:?}: something else places \
                 threads here, or set testbed.placement to \"free\"",
                thread.name, thread.process
            )
        })
    })
}

/// Packets that all rules let pass while the load ran.
fn passed_rules(party: &Party) -> Option<u64> {
    let passed = |counters: &AccessListCounters| counters.passed;
    let [first, .., last] = party.report.layers.as_slice() else { return None };
    let (before, after) = (first.access_list.as_ref()?, last.access_list.as_ref()?);
    passed(after).checked_sub(passed(before))
}

/// Whether a neighbour did what it is there for: moved bytes of its disk, or burned its cores.
fn was_busy(neighbour: &Party) -> bool {
    if neighbour.role != Role::Disk {
        return burned(neighbour).is_some_and(|part| part >= LEAST_BUSY);
    }
    let moved = |sample: &Sample| sample.load.map(|load| load.bytes);
    let [first, .., last] = neighbour.report.samples.as_slice() else { return false };
    moved(first).zip(moved(last)).is_some_and(|(before, after)| after > before)
}

/// CPU time that it burned, as a part of the time of its samples.
fn burned(party: &Party) -> Option<f64> {
    let [first, .., last] = party.report.samples.as_slice() else { return None };
    let time = last.monotonic_ns.checked_sub(first.monotonic_ns).filter(|time| *time > 0)?;
    Some(last.burned_ns? as f64 / time as f64)
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::{ClockRelation, Purpose};
    use vioperf_model::sample::{LayerCounters, LoadCounters, NodeReport, ThreadSwitches};
    use vioperf_model::wire::NodeIdentity;

    use super::*;

    fn party(place: Place, passed: u64, burned_ns: u64) -> Party {
        let layers = |passed| LayerCounters {
            access_list: Some(AccessListCounters { entered: passed, passed }),
            ..LayerCounters::default()
        };
        let sample = |monotonic_ns, burned_ns| Sample {
            monotonic_ns,
            burned_ns: Some(burned_ns),
            ..Sample::default()
        };
        Party {
            place,
            role: Role::Observer,
            purpose: Purpose::Measured,
            further_legs: Vec::new(),
            identity: NodeIdentity {
                version: 0,
                kernel_release: String::new(),
                cores: 1,
                boot_id: None,
                is_virtual: None,
            },
            clock: ClockRelation::default(),
            interface: None,
            report: NodeReport {
                layers: vec![layers(10), layers(10 + passed)],
                samples: vec![sample(1, 0), sample(1_000_001, burned_ns)],
                ..NodeReport::default()
            },
        }
    }

    #[test]
    fn rules_that_no_packet_came_to_are_a_fault() {
        let topology = Topology { firewall_rules: 7, ..Topology::default() };
        assert!(fault_in(topology, &[party(Place::Host, 5, 0)]).is_none());
        let fault = fault_in(topology, &[party(Place::Host, 0, 0)]).unwrap();
        assert!(fault.contains("7 firewall rules"), "{fault}");
        assert!(
            fault_in(topology, &[party(Place::Forwarder, 5, 0)]).is_some(),
            "those of the host"
        );
        assert!(fault_in(Topology::default(), &[]).is_none());
    }

    #[test]
    fn a_busy_neighbour_that_idles_is_a_fault() {
        let topology = Topology { neighbour: Neighbour::Busy, ..Topology::default() };
        assert!(fault_in(topology, &[party(Place::Neighbour, 0, 400_000)]).is_none());
        assert!(fault_in(topology, &[party(Place::Neighbour, 0, 400)]).is_some());
        assert!(fault_in(topology, &[]).is_some());
        let idle = Topology { neighbour: Neighbour::Idle, ..topology };
        assert!(fault_in(idle, &[party(Place::Neighbour, 0, 0)]).is_none());
    }

    #[test]
    fn a_neighbour_whose_disk_stands_still_is_a_fault() {
        let topology = Topology { neighbour: Neighbour::Busy, ..Topology::default() };
        let with_disk = |moved: [u64; 2]| {
            // Cores that burn are not what it is there for.
            let mut party = party(Place::Neighbour, 0, 1_000_000);
            party.role = Role::Disk;
            for (sample, bytes) in party.report.samples.iter_mut().zip(moved) {
                sample.load = Some(LoadCounters { bytes, ..LoadCounters::default() });
            }
            party
        };
        assert_eq!(fault_in(topology, &[with_disk([0, 4096])]), None);
        assert!(fault_in(topology, &[with_disk([4096, 4096])]).unwrap().contains("neighbour"));
    }

    #[test]
    fn a_thread_that_may_run_elsewhere_is_told() {
        let thread = |process: &str, name: &str, cores: &str| ThreadSwitches {
            process: process.into(),
            name: name.into(),
            cores: Some(cores.into()),
            ..ThreadSwitches::default()
        };
        let placement =
            CorePlacement { near: vec![0], others: vec![1, 2], ..CorePlacement::default() };
        let said = |threads: Vec<ThreadSwitches>| {
            let mut host = party(Place::Host, 0, 0);
            host.report.layers[1].switches = Some(threads);
            misplaced(Some(&placement), &[host])
        };
        let good = || {
            vec![
                thread("qemu", "CPU 0/KVM", "0"),
                thread("qemu", "qemu-system-x86", "1-2"),
                thread("qemu-far", "CPU 0/KVM", "1-2"),
                thread("peer", "vioperf", "7"),
            ]
        };
        assert_eq!(said(good()), None);
        for bad in [thread("qemu", "CPU 1/KVM", "1"), thread("qemu-far", "vhost-1", "0-3")] {
            let reason = said([good(), vec![bad]].concat()).unwrap();
            assert!(reason.contains("testbed.placement"), "{reason}");
        }
        let mut host = party(Place::Host, 0, 0);
        host.report.layers[1].switches = Some(vec![thread("qemu", "CPU 0/KVM", "5")]);
        assert_eq!(misplaced(None, &[host]), None);
    }
}
