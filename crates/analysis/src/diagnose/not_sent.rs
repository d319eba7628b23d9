//! Requests of an open loop, and datagrams of a load with a rate, that were due but never sent.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;
use vioperf_model::workload::WorkloadKind;

use super::{Evidence, about_cells};
use crate::rates::Due;
use crate::result::{Finding, Severity};
use crate::window;
use crate::wording::{count, percent};

/// Less than this part of the datagrams that were due is not worth a doubt.
const LEAST_PERCENT: f64 = 0.1;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut requests: BTreeMap<&CellId, Due> = BTreeMap::new();
    let mut datagrams: BTreeMap<&CellId, Due> = BTreeMap::new();
    for cell in evidence.cells {
        let kind = match cell.workload.kind {
            WorkloadKind::UdpStream | WorkloadKind::PacketRate => &mut datagrams,
            // A search judges each of its probes.
            WorkloadKind::RateSearch => continue,
            _ => &mut requests,
        };
        let Some(trials) = evidence.gathered.of_cell(&cell.id) else { continue };
        let mut due = Due::default();
        trials.completed.iter().filter_map(|readings| readings.due).for_each(|of| due.add(&of));
        kind.insert(&cell.id, due);
    }
    let requests = said(requests, |due| {
        let requests = usize::try_from(due.not_sent).unwrap_or(usize::MAX);
        (requests > 0).then(|| count(requests, "request"))
    });
    let mut found = about_cells(
        "requests-not-sent",
        Severity::Doubt,
        "Requests were due but never sent: the path did not keep up",
        &requests,
        "Latency would have been worse with them. Ask for fewer (workload.requests_per_second), or \
         measure what the path takes in a closed loop.",
    );
    let datagrams = said(datagrams, |due| {
        let all = due.sent.saturating_add(due.not_sent);
        let part = window::percent(due.not_sent as f64, all as f64);
        (part > LEAST_PERCENT).then(|| format!("{} of those due", percent(part)))
    });
    found.extend(about_cells(
        "datagrams-not-sent",
        Severity::Doubt,
        "Datagrams were due but not sent in time: the rate was lower than the one asked for",
        &datagrams,
        "The sender had no core, or its kernel no room for them. Ask for fewer \
         (workload.datagrams_per_second, workload.rate), or give the sender more threads or streams.",
    ));
    found
}

fn said(
    cells: BTreeMap<&CellId, Due>,
    say: impl Fn(&Due) -> Option<String>,
) -> Vec<(CellId, String)> {
    let cells = cells.into_iter();
    cells.filter_map(|(cell, due)| Some((cell.clone(), say(&due)?))).collect()
}
