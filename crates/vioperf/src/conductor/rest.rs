//! Waits until what a sender of datagrams left on the path has arrived: what is still in a queue is not
//! lost, and the queue of a guest's tap alone holds a thousand.

use std::time::{Duration, Instant};

use vioperf_model::rest::{MOST, QUIET};
use vioperf_model::workload::{Direction, Workload};

use super::node_link::{NodeError, NodeLink};
use crate::interrupt::{Interrupt, Urgency};

/// How long an answer may take, of a guest that works off what came.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Waits until the receiver of a load whose sender has stopped was given nothing for [`QUIET`], but no
/// longer than [`MOST`]. Not at all where the receiver's node sends too, and so would go on sending.
///
/// # Errors
/// When the node does not answer, or the user wants the end.
pub fn await_rest(
    receiver: &mut NodeLink,
    workload: &Workload,
    interrupt: &Interrupt,
) -> Result<(), NodeError> {
    if !workload.kind.is_of_datagrams() || workload.direction == Direction::Both {
        return Ok(());
    }
    let began = Instant::now();
    let mut last = (None, began);
    while last.1.elapsed() < QUIET && began.elapsed() < MOST {
        let sample = receiver.progress(ANSWER_WITHIN)?;
        let received = sample.load.and_then(|load| load.datagrams);
        if received != last.0 {
            last = (received, Instant::now());
        }
        if !interrupt.sleep_until(Instant::now() + QUIET / 4, Urgency::Now) {
            return Err(NodeError::Interrupted);
        }
    }
    Ok(())
}
