//! What a packet costs the processors, and how often it makes a virtual CPU leave its guest.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::{HardwareCounters, Sample};

use super::Span;
use crate::cell::CellTrials;
use crate::rates::TrialReadings;
use crate::result::{ExitsPerPacket, ProcessorWork};
use crate::window::{Absent, Reading};

/// Packets of the load: those of the interface under test at the end that differs from cell to cell, either
/// way, as that interface counts them.
fn packets(trial: &TrialRecord) -> Reading {
    let is_near = |party: &&Party| [Place::Guest, Place::Second].contains(&party.place);
    let near = trial.parties.iter().find(is_near);
    let near = near.ok_or_else(|| Absent::from("the near end: not in the record"))?;
    let samples = &near.report.samples;
    let count = |sample: Option<&Sample>| {
        let counters = sample?.interfaces.as_ref()?.get(&near.interface.as_ref()?.name)?;
        counters.rx_packets.checked_add(counters.tx_packets)
    };
    let [Some(first), Some(last)] = [count(samples.first()), count(samples.last())] else {
        return Err("packets of the interface under test: not in the samples".into());
    };
    match last.checked_sub(first) {
        None => Err("packets of the interface under test: ran backwards".into()),
        Some(0) => Err("no packet was counted".into()),
        Some(packets) => Ok(packets as f64),
    }
}

/// What the processors of a machine did for each packet.
#[derive(Debug, Clone)]
pub(super) struct ProcessorReading {
    cycles: Reading,
    instructions: Reading,
    cache_misses: Reading,
}

impl ProcessorReading {
    pub(super) fn of(trial: &TrialRecord, who: &str, place: Place) -> Self {
        let read = |read: fn(&HardwareCounters) -> u64| {
            let span = Span::of_place(trial, who, place)?;
            let grown = |read: fn(&HardwareCounters) -> u64| {
                span.grown("hardware", |layers| layers.hardware.as_ref().map(read))
            };
            let count = grown(read)?;
            let (enabled, running) = (grown(|c| c.enabled_ns)?, grown(|c| c.running_ns)?);
            if running <= 0.0 {
                return Err("hardware: the counters were never free".into());
            }
            Ok(count * enabled / running / packets(trial)?)
        };
        Self {
            cycles: read(|counters| counters.cycles),
            instructions: read(|counters| counters.instructions),
            cache_misses: read(|counters| counters.cache_misses),
        }
    }

    pub(super) fn gather(
        trials: &CellTrials,
        of: impl Fn(&TrialReadings) -> &Self + Copy,
    ) -> ProcessorWork {
        ProcessorWork {
            cycles_per_packet: trials.metric(move |r| &of(r).cycles),
            instructions_per_packet: trials.metric(move |r| &of(r).instructions),
            cache_misses_per_packet: trials.metric(move |r| &of(r).cache_misses),
        }
    }
}

/// How often a guest's virtual CPUs were left for each packet, and for what.
#[derive(Debug, Clone)]
pub(crate) struct ExitReading {
    /// For anything.
    pub(crate) all: Reading,
    io: Reading,
    mmio: Reading,
    halt: Reading,
    interrupts: Reading,
}

impl ExitReading {
    pub(super) fn of(trial: &TrialRecord) -> Self {
        let read = |name: &str| {
            let span = Span::of_place(trial, "host", Place::Host)?;
            let grown = span.grown("kvm", |layers| layers.kvm.as_ref()?.get(name).copied());
            Ok(grown? / packets(trial)?)
        };
        Self {
            all: read("exits"),
            io: read("io_exits"),
            mmio: read("mmio_exits"),
            halt: read("halt_exits"),
            interrupts: read("irq_injections"),
        }
    }

    pub(super) fn gather(trials: &CellTrials) -> ExitsPerPacket {
        let metric = |read: fn(&Self) -> &Reading| trials.metric(move |r| read(&r.layers.exits));
        ExitsPerPacket {
            all: metric(|e| &e.all),
            io: metric(|e| &e.io),
            mmio: metric(|e| &e.mmio),
            halt: metric(|e| &e.halt),
            interrupts_injected: metric(|e| &e.interrupts),
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::{InterfaceCounters, InterfaceFacts, LayerCounters};

    use super::*;
    use crate::testing::{Synthetic, party_with_samples};

    /// A thousand packets of the guest, and what they cost.
    fn trial() -> TrialRecord {
        let sample = |packets| Sample {
            interfaces: Some(
                [(
                    "eth0".to_owned(),
                    InterfaceCounters { rx_packets: packets, tx_packets: 7, ..Default::default() },
                )]
                .into(),
            ),
            ..Sample::default()
        };
        let mut guest = party_with_samples(vec![sample(500), sample(1_500)]);
        guest.place = Place::Guest;
        guest.interface = Some(InterfaceFacts { name: "eth0".into(), ..InterfaceFacts::default() });
        let at = |monotonic_ns, times: u64| LayerCounters {
            monotonic_ns,
            hardware: Some(HardwareCounters {
                cycles: 1_000_000 * times,
                instructions: 2_000_000 * times,
                cache_misses: 3_000 * times,
                enabled_ns: 4_000 * times,
                running_ns: 1_000 * times,
            }),
            kvm: Some([("exits".to_owned(), 2_500 * times), ("io_exits".to_owned(), 9)].into()),
            ..LayerCounters::default()
        };
        let mut host = party_with_samples(Vec::new());
        host.place = Place::Host;
        host.report.layers = vec![at(1, 1), at(2_000_000_001, 2)];
        let mut trial = Synthetic::calm_kvm().trials.remove(0);
        trial.parties = vec![guest, host];
        trial
    }

    #[test]
    fn what_was_counted_is_told_for_each_packet() {
        let trial = trial();
        let exits = ExitReading::of(&trial);
        assert_eq!((exits.all, exits.io), (Ok(2.5), Ok(0.0)));
        assert!(exits.mmio.is_err(), "absent is not zero");
        let work = ProcessorReading::of(&trial, "host", Place::Host);
        // Counted in a quarter of the time.
        assert_eq!(work.cycles, Ok(4_000.0));
        assert_eq!((work.instructions, work.cache_misses), (Ok(8_000.0), Ok(12.0)));
        let guest = ProcessorReading::of(&trial, "guest", Place::Guest);
        assert!(guest.cycles.unwrap_err().contains("not in the record"));
    }

    #[test]
    fn nothing_is_divided_by_no_packet() {
        let mut trial = trial();
        let samples = &mut trial.parties[0].report.samples;
        samples[1] = samples[0].clone();
        assert!(ExitReading::of(&trial).all.unwrap_err().contains("no packet"));
        trial.parties[1].report.absent.insert("layers.kvm".into(), "emulated".into());
        trial.parties[1].report.layers[1].kvm = None;
        assert!(ExitReading::of(&trial).all.unwrap_err().contains("emulated"));
    }
}
