//! Nothing of one trial of datagrams is left for the next: needs root for network namespaces. A test
//! file of its own, as it counts what the whole process has open.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::time::Duration;

use nodes::{await_at_most, connected_pair, part, prepare_both, receiver, run, threads_and_files};
use vioperf_model::units::ByteSize;
use vioperf_model::wire::Request;
use vioperf_model::workload::{Receivers, Workload, WorkloadKind};

#[test]
fn no_thread_and_no_file_is_left_between_trials() {
    let (mut nodes, _) = connected_pair();
    let before = threads_and_files();
    for kind in [WorkloadKind::UdpStream, WorkloadKind::PacketRate] {
        for streams in [1, 16] {
            let workload = Workload {
                streams,
                payload: Some(ByteSize::from_bytes(100)),
                receivers: (kind == WorkloadKind::PacketRate).then_some(Receivers::Reuseport),
                ..Workload::new(kind)
            };
            prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), streams);
            run(&mut nodes, Duration::from_millis(30));
            await_at_most(before);
        }
    }
    // Prepared and never started.
    let workload = Workload::new(WorkloadKind::UdpStream);
    nodes[1].must(&Request::Prepare(part(receiver(), workload)));
    nodes[1].must(&Request::Stop);
    await_at_most(before);
}
