//! What a trial counted from its first to its last sample, and what it burned on purpose.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::InterfaceCounters;
use vioperf_model::wire::Role;

use crate::threads::process_percent_of_core as process_percent;
use crate::window::{Reading, Window, percent};

/// Bytes of the frames in which a load of datagrams says hello and farewell: 32 of payload, and the
/// headers of UDP, IPv4 and Ethernet.
const WORD_FRAME_BYTES: u64 = 32 + 8 + 20 + 14;

/// Datagrams of a trial from start to stop, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// That the sender's kernel took.
    pub sent: u64,
    /// That the receiver was given, duplicates not counted.
    pub received: u64,
    /// That never arrived, by their numbers.
    pub lost: u64,
}

impl Totals {
    /// Of a load whose datagrams bear numbers; absent for every other.
    pub fn of(trial: &TrialRecord) -> Option<Self> {
        let by_role =
            |wanted: fn(&Role) -> bool| trial.parties.iter().find(|party| wanted(&party.role));
        let sender = by_role(|role| matches!(role, Role::Sender { .. }))?;
        let receiver = by_role(|role| matches!(role, Role::Receiver { .. }))?;
        let outcome = receiver.report.load.as_ref()?.datagrams?;
        let sent = sender.report.samples.last()?.load?.datagrams?;
        Some(Self { sent, received: outcome.received, lost: outcome.lost })
    }

    /// Datagrams of so much payload (IPv4) that came in by an interface of the host, by its packets and
    /// bytes: the words that are said before and after a load are packets of another length.
    pub fn on_interface(trial: &TrialRecord, name: &str, payload_bytes: u64) -> Option<u64> {
        let frame = payload_bytes + 8 + 20 + 14;
        let party = trial.parties.iter().find(|party| party.place == Place::Host)?;
        let at = |sample: Option<&vioperf_model::sample::Sample>| -> Option<InterfaceCounters> {
            sample?.interfaces.as_ref()?.get(name).copied()
        };
        let (first, last) = (at(party.report.samples.first())?, at(party.report.samples.last())?);
        let packets = last.rx_packets.checked_sub(first.rx_packets)?;
        let bytes = last.rx_bytes.checked_sub(first.rx_bytes)?;
        datagrams_among(packets, bytes, frame)
    }
}

/// How many of `packets` are `frame` bytes long, where all others are words. An address resolution
/// (42 bytes) among them is less than half a datagram's worth, and rounded away.
fn datagrams_among(packets: u64, bytes: u64, frame: u64) -> Option<u64> {
    let beyond = i128::from(bytes) - i128::from(packets) * i128::from(WORD_FRAME_BYTES);
    let each = i128::from(frame.checked_sub(WORD_FRAME_BYTES).filter(|each| *each > 0)?);
    u64::try_from((beyond + each / 2).div_euclid(each)).ok()
}

/// CPU time that was burned on purpose by the party at `place`, in percent of one core: by the burning
/// thread's own clock, between the samples that readings are made of.
///
/// # Errors
/// When nothing was burned, or the trial has no window.
pub fn burned_percent_of_core(trial: &TrialRecord, place: Place) -> Reading {
    let window = window(trial, place)?;
    let burned = window.increase("burned_ns", |sample| sample.burned_ns)?;
    Ok(percent(burned as f64 / 1e9, window.seconds))
}

/// CPU time of a process that the host's observer watched, in percent of one core.
///
/// # Errors
/// When it was not watched, or the trial has no window.
pub fn process_percent_of_core(trial: &TrialRecord, label: &str) -> Reading {
    process_percent(&window(trial, Place::Host)?, label)
}

fn window(trial: &TrialRecord, place: Place) -> Result<Window<'_>, crate::window::Absent> {
    let party: Option<&Party> = trial.parties.iter().find(|party| party.place == place);
    let party = party.ok_or_else(|| format!("no party is at the {place}"))?;
    Window::cut(party, trial.timeline.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_address_resolution_are_no_datagrams() {
        let frame = 1400 + 42;
        let count = |datagrams: u64, words: u64, arps: u64| {
            let packets = datagrams + words + arps;
            datagrams_among(packets, datagrams * frame + words * 74 + arps * 42, frame)
        };
        assert_eq!(count(5000, 3, 0), Some(5000));
        assert_eq!(count(5000, 0, 2), Some(5000));
        assert_eq!(count(0, 7, 2), Some(0));
        assert_eq!(datagrams_among(1, 74, 74), None);
    }
}
