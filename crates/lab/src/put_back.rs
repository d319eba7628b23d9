//! What runs that were killed left altered of the host, put back from the journal. **What alters the host beyond the
//! sandbox has a line in [`what_is_left`].**

use std::path::Path;

use crate::host_ports::{self, HostPortsError};
use crate::partition::{self, PartitionError};
use crate::sriov::{self, SriovError};

/// Why something could not be put back.
#[derive(Debug, thiserror::Error)]
pub enum PutBackError {
    /// A card.
    #[error(transparent)]
    Sriov(#[from] SriovError),
    /// A bridge.
    #[error(transparent)]
    HostPorts(#[from] HostPortsError),
    /// Cores.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

/// Puts everything back: what that was, in words, and what failed. The entry of what failed stays in the journal.
pub fn what_is_left(journal: &Path) -> Vec<Result<String, PutBackError>> {
    let cards = sriov::put_back_what_is_left(journal).map(|cards| {
        let said = |card: sriov::CardBefore| {
            format!(
                "{} was left with virtual functions by a run that was killed: they are gone now",
                card.interface
            )
        };
        cards.into_iter().map(said).collect()
    });
    let bridges = host_ports::put_back_what_is_left(journal).map(|bridges| {
        let said = |bridge: host_ports::PortsOnHost| {
            format!(
                "the bridge {} was left with ports of a run that was killed: they are gone now",
                bridge.bridge
            )
        };
        bridges.into_iter().map(said).collect()
    });
    let cores = partition::put_back_what_is_left(journal).map(|groups| {
        let said = |group: partition::GroupsBefore| {
            format!(
                "the cores {:?} were left to nobody by a run that was killed: they are everybody's again",
                group.cores
            )
        };
        groups.into_iter().map(said).collect()
    });
    let mut all = told(cards);
    all.extend(told(cores));
    all.extend(told(bridges));
    all
}

fn told<E: Into<PutBackError>>(
    outcome: Result<Vec<String>, E>,
) -> Vec<Result<String, PutBackError>> {
    match outcome {
        Ok(said) => said.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error.into())],
    }
}
