//! The line a second while a load runs, at both ends.

use vioperf_analysis::measure::{Measure, Truth};
use vioperf_model::sample::{CoreTicks, Sample};
use vioperf_model::workload::WorkloadKind;

/// `/proc/stat` counts in ticks of this length on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Whose sample a server's node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhoseSample {
    /// The end that sends, or asks.
    Sender,
    /// The end that receives, or answers.
    Receiver,
}

/// What was seen so far of a load that runs.
#[derive(Debug)]
pub struct Live {
    measure: &'static Measure,
    sender: Option<Sample>,
    receiver: Option<Sample>,
}

impl Live {
    /// Of a load of that kind.
    pub fn new(kind: WorkloadKind) -> Self {
        Self { measure: Measure::of(kind), sender: None, receiver: None }
    }

    /// What moved since the line before, in one line; `seconds` is the time since the load began.
    pub fn line(
        &mut self,
        seconds: f64,
        sender: Option<&Sample>,
        receiver: Option<&Sample>,
    ) -> String {
        let mut parts = vec![format!("{seconds:>6.1} s")];
        let (truth, truth_before, verb) = match self.measure.truth {
            Truth::Receiver if receiver.is_some() => (receiver, &self.receiver, "received"),
            Truth::Sender if sender.is_none() => (receiver, &self.receiver, "answered"),
            Truth::Sender => (sender, &self.sender, ""),
            Truth::Receiver => (sender, &self.sender, "sent"),
        };
        parts.push(match truth.and_then(|now| self.rate(truth_before.as_ref(), now)) {
            Some(rate) => format!("{:>14} {verb}", self.measure.unit.text(rate)),
            None => format!("{:>14} {verb}", "–"),
        });
        if self.measure.may_retransmit
            && let Some(again) = sender.and_then(|now| sent_again(self.sender.as_ref(), now))
        {
            parts.push(format!("{again} segments sent again"));
        }
        let busy = [(sender, &self.sender, "sender"), (receiver, &self.receiver, "receiver")];
        for (now, before, whose) in busy {
            if let Some(percent) = now.and_then(|now| busy_percent(before.as_ref(), now)) {
                parts.push(format!("{whose}'s CPU {percent:.0} %"));
            }
        }
        self.sender = sender.cloned().or(self.sender.take());
        self.receiver = receiver.cloned().or(self.receiver.take());
        parts.join("  ").replace("  ·", "").trim_end().to_owned()
    }

    fn rate(&self, before: Option<&Sample>, now: &Sample) -> Option<f64> {
        let (counter, factor) = self.measure.unit.counter();
        let count = |sample: &Sample| sample.load.as_ref().and_then(counter);
        let moved = count(now)?.checked_sub(count(before?)?)?;
        Some(moved as f64 * factor / seconds_between(before?, now)?)
    }
}

fn seconds_between(before: &Sample, now: &Sample) -> Option<f64> {
    let ns = now.monotonic_ns.checked_sub(before.monotonic_ns).filter(|ns| *ns > 0)?;
    Some(ns as f64 / 1e9)
}

/// Segments sent again between the two.
fn sent_again(before: Option<&Sample>, now: &Sample) -> Option<u64> {
    let again = |sample: &Sample| Some(sample.tcp.as_ref()?.segments_retransmitted);
    again(now)?.checked_sub(again(before?)?)
}

/// All cores together, 100 is one core.
fn busy_percent(before: Option<&Sample>, now: &Sample) -> Option<f64> {
    let busy = |sample: &Sample| -> Option<u64> {
        Some(sample.cores.as_ref()?.iter().map(busy_ticks).fold(0, u64::saturating_add))
    };
    let ticks = busy(now)?.checked_sub(busy(before?)?)?;
    Some(ticks as f64 / TICKS_PER_SECOND / seconds_between(before?, now)? * 100.0)
}

/// `guest` is contained in `user`.
fn busy_ticks(core: &CoreTicks) -> u64 {
    [core.user, core.nice, core.system, core.irq, core.softirq]
        .into_iter()
        .fold(0, u64::saturating_add)
}
