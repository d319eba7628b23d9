//! What arrived, counted by threads, and put together.

use vioperf_model::sample::{DatagramOutcome, LoadOutcome, StreamOutcome};

/// What one thread of a receiver has counted.
#[derive(Debug, Default)]
pub(in crate::load) struct Arrived {
    /// Bytes of each flow.
    pub(in crate::load) bytes: Vec<u64>,
    /// What became of the numbered datagrams, one entry for each flow that was seen.
    pub(in crate::load) numbered: Option<Vec<DatagramOutcome>>,
    /// Datagrams that are not of this load.
    pub(in crate::load) foreign: u64,
}

/// What all threads of a load counted, together.
pub(super) fn received(shares: Vec<Arrived>, streams: u16) -> LoadOutcome {
    let mut streams = vec![StreamOutcome::default(); usize::from(streams)];
    let mut foreign = 0;
    let mut numbered: Option<Vec<DatagramOutcome>> = None;
    for share in shares {
        for (place, bytes) in streams.iter_mut().zip(share.bytes) {
            place.bytes += bytes;
        }
        foreign += share.foreign;
        if let Some(more) = share.numbered {
            numbered.get_or_insert_default().extend(more);
        }
    }
    LoadOutcome {
        streams,
        datagrams: numbered.map(|flows| together(&flows)),
        foreign_datagrams: Some(foreign),
        ..LoadOutcome::default()
    }
}

/// All flows as one: sums, and the mean of the jitter.
fn together(flows: &[DatagramOutcome]) -> DatagramOutcome {
    let mut sum = DatagramOutcome::default();
    for flow in flows {
        sum.received += flow.received;
        sum.lost += flow.lost;
        sum.duplicated += flow.duplicated;
        sum.reordered += flow.reordered;
        sum.late += flow.late;
        sum.jitter_ns += flow.jitter_ns;
    }
    sum.jitter_ns /= u64::try_from(flows.len()).unwrap_or(1).max(1);
    sum
}
