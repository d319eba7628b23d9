//! A rate search: one trial that is made of many short loads. Which rate is probed next, and what the
//! probes prove, is [`vioperf_analysis::rate_search`]'s business; here they are made.

use std::time::{Duration, Instant};

use vioperf_analysis::measure::Unit;
use vioperf_analysis::rate_search::{self, Bounds, Goal, proved};
use vioperf_model::record::{Party, Place, Probe, SearchRecord};
use vioperf_model::units::{ByteSize, TimeSpan};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Search, Workload, WorkloadKind};

use super::node_link::{NodeError, time_span};
use super::trial::{Measured, fault_in};

/// No load is shorter.
const SHORTEST_WARMUP: TimeSpan = TimeSpan::from_millis(200);

/// What takes the nodes through one load, and waits so long for late datagrams after its end.
pub type Prober<'a> = &'a mut dyn FnMut(&Workload, Duration) -> Result<Measured, NodeError>;

/// Searches. The reports are those of the last probe at the highest rate that was proved good for the
/// goal that allows most loss; of the last probe, where there is none or it ended early. `tell` is told
/// what is done next.
///
/// # Errors
/// The first thing that a node did not do.
pub fn conduct(
    prober: Prober<'_>,
    workload: &Workload,
    tell: &dyn Fn(&str),
) -> Result<(Measured, SearchRecord), NodeError> {
    let began = Instant::now();
    let ends = began + workload.warmup.as_duration() + workload.duration.as_duration();
    let mut probe = |per_second: Option<u64>, duration: TimeSpan| {
        let after = began.elapsed();
        let load = load(workload, per_second, duration);
        let measured = prober(&load, workload.search.drain.as_duration())?;
        let probe = counted(&measured, &load, after);
        Ok::<_, NodeError>((probe, measured, began.elapsed() - after))
    };
    if workload.warmup > TimeSpan::from_millis(0) {
        tell("warming up");
        probe(None, workload.warmup.max(SHORTEST_WARMUP))?;
    }
    tell("finding out what can be sent");
    let (unpaced, measured, _) = probe(None, workload.search.first_probe_duration)?;
    let a_second = |count: u64| count.saturating_mul(1_000_000_000) / unpaced.took_ns.max(1);
    let mut search = rate_search::Search::new(
        &workload.search,
        a_second(unpaced.sent),
        a_second(unpaced.received),
    );
    search.note(unpaced);
    let mut all = vec![measured];
    let mut overhead = Duration::ZERO;
    let mut out_of_time = false;
    // What ended early makes the whole search void: there is no use in going on.
    while all.last().is_some_and(|last| fault_in(&last.parties).is_none())
        && let Some(ask) = search.ask()
    {
        let duration = Duration::from_secs_f64(ask.seconds);
        if Instant::now() + duration + overhead > ends {
            out_of_time = true;
            break;
        }
        tell(&progress(&search, ask.per_second));
        let (probe, measured, took) = probe(Some(ask.per_second), time_span(duration))?;
        overhead = took.saturating_sub(duration);
        search.note(probe);
        all.push(measured);
    }
    let mut record = search.record().clone();
    let shown = shown_probe(&all, &record, workload);
    (record.out_of_time, record.shown_probe) = (out_of_time, Some(shown));
    Ok((all.swap_remove(shown), record))
}

/// As large as Linux gives without being asked (`net.core.rmem_default`, and the most that it gives to
/// anybody who asks). What a larger one takes in during a probe would be found good, though the
/// receiver does not keep up.
const BUFFER: ByteSize = ByteSize::from_kib(208);

/// A probe's load: datagrams at a rate, or as fast as they go.
fn load(workload: &Workload, per_second: Option<u64>, duration: TimeSpan) -> Workload {
    Workload {
        kind: WorkloadKind::PacketRate,
        duration,
        warmup: TimeSpan::from_millis(0),
        datagrams_per_second: per_second.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
        socket_buffer: Some(workload.socket_buffer.unwrap_or(BUFFER)),
        burst: workload.burst.filter(|_| per_second.is_some()),
        search: Search::default(),
        ..workload.clone()
    }
}

/// What the ends counted, from their start to their end: the drain is part of it.
fn counted(measured: &Measured, load: &Workload, began_after: Duration) -> Probe {
    let end = |wanted: fn(&Role) -> bool| {
        let party = measured.parties.iter().find(|party| wanted(&party.role));
        party.filter(|party| party.place != Place::Host)
    };
    let sender = end(|role| matches!(role, Role::Sender { .. }));
    let receiver = end(|role| matches!(role, Role::Receiver { .. }));
    let outcome = |party: Option<&Party>| party.and_then(|party| party.report.load.clone());
    let nanoseconds = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let timeline = &measured.timeline;
    Probe {
        asked_per_second: load.datagrams_per_second.map(u64::from),
        asked_ns: nanoseconds(load.duration.as_duration()),
        began_after_ns: nanoseconds(began_after),
        took_ns: timeline.measured_until_ns.saturating_sub(timeline.started_ns),
        sent: moved(sender),
        not_sent: outcome(sender).and_then(|load| load.not_sent).unwrap_or(0),
        received: moved(receiver),
        socket_drops: outcome(receiver).and_then(|load| load.socket_drops),
    }
}

/// A node takes its last sample when its load has ended.
fn moved(party: Option<&Party>) -> u64 {
    let last = party.and_then(|party| party.report.samples.last()?.load);
    last.and_then(|load| load.datagrams).unwrap_or(0)
}

fn shown_probe(all: &[Measured], record: &SearchRecord, workload: &Workload) -> usize {
    let last = all.len().saturating_sub(1);
    if all.last().is_some_and(|last| fault_in(&last.parties).is_some()) {
        return last;
    }
    let goals = proved(&workload.search, record);
    let good = goals.last().and_then(|goal| goal.bounds.lower).map(|lower| lower.per_second);
    let at_good = |probe: &Probe| good.is_some() && probe.asked_per_second == good;
    record.probes.iter().rposition(at_good).unwrap_or(last).min(last)
}

/// `probe 12 at 19.1 k/s; NDR 12.0–14.5 k/s, PDR 0.5 % 18.2–20.1 k/s`.
fn progress(search: &rate_search::Search, per_second: u64) -> String {
    let short = |rate: u64| Unit::Datagrams.short(rate as f64);
    let goal = |(goal, found): &(Goal, Bounds)| {
        let [lower, upper] = [found.lower, found.upper]
            .map(|bound| bound.map_or_else(|| "?".to_owned(), |bound| short(bound.per_second)));
        format!("{} {lower} to {upper}", goal.name())
    };
    let goals: Vec<String> = search.so_far().iter().map(goal).collect();
    let number = search.record().probes.len();
    format!("probe {number} at {}; {}", short(per_second), goals.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_of_a_probe_is_one_that_any_node_takes() {
        let search = Search { width: "3 %".parse().unwrap(), ..Search::default() };
        let workload = Workload {
            burst: Some(4),
            destination_ports: Some(2),
            streams: 2,
            search,
            ..Workload::new(WorkloadKind::RateSearch)
        };
        for per_second in [None, Some(1_000), Some(u64::MAX)] {
            let load = load(&workload, per_second, SHORTEST_WARMUP);
            assert_eq!(load.contradictions(), []);
            assert_eq!(load.datagrams_per_second.is_some(), per_second.is_some());
            assert_eq!((load.streams, load.destination_ports), (2, Some(2)));
        }
    }
}
