//! Several loads at the same time between two nodes over a veth pair: needs root for network
//! namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::net::SocketAddr;
use std::time::Duration;

use nodes::{
    Node, RECEIVER_ADDRESS, SENDER_ADDRESS, connected_pair, part, prepare_both, run, workload,
};
use vioperf_model::wire::{MAX_LEGS, Request, Response, Role};
use vioperf_model::workload::{Workload, WorkloadKind};

/// Makes a load ready that the second node receives and the first sends.
fn add(sender: &mut Node, receiver: &mut Node, bind: &str, workload: &Workload) {
    let bind = bind.parse().unwrap();
    let receiving = part(Role::Receiver { bind }, workload.clone());
    let Response::Ready { port: Some(port) } = receiver.must(&Request::Prepare(receiving)) else {
        panic!("no port");
    };
    let peer = SocketAddr::new(bind, port);
    sender.must(&Request::Prepare(part(Role::Sender { peer }, workload.clone())));
}

#[test]
fn both_ways_at_once_are_counted_apart() {
    let (mut nodes, _) = connected_pair();
    let [left, right] = &mut nodes;
    add(left, right, RECEIVER_ADDRESS, &workload(2));
    add(right, left, SENDER_ADDRESS, &workload(3));
    let [left, right] = run(&mut nodes, Duration::from_millis(400));
    let streams = |report: &vioperf_model::sample::NodeReport, leg| {
        let load = report.load_of_leg(leg).unwrap();
        assert_eq!(load.ended_early, None);
        load.streams.len()
    };
    assert_eq!([streams(&left, 0), streams(&right, 0)], [2, 2]);
    assert_eq!([streams(&left, 1), streams(&right, 1)], [3, 3]);
    for (leg, sender, receiver) in [(0, &left, &right), (1, &right, &left)] {
        let moved = |report: &vioperf_model::sample::NodeReport| {
            let last = report.samples.last().unwrap().load_of_leg(leg).unwrap().bytes;
            let streams = &report.load_of_leg(leg).unwrap().streams;
            assert_eq!(last, streams.iter().map(|stream| stream.bytes).sum::<u64>());
            last
        };
        let (sent, received) = (moved(sender), moved(receiver));
        assert!(received > 0 && received <= sent, "leg {leg}: {received} of {sent}");
    }
    assert_eq!(left.load_of_leg(2), None);
}

#[test]
fn a_stream_goes_on_beside_requests() {
    let (mut nodes, _) = connected_pair();
    let [left, right] = &mut nodes;
    add(left, right, RECEIVER_ADDRESS, &Workload::new(WorkloadKind::RequestResponse));
    add(left, right, RECEIVER_ADDRESS, &workload(1));
    let [asked, answered] = run(&mut nodes, Duration::from_millis(400));
    for report in [&asked, &answered] {
        let last = report.samples.last().unwrap();
        assert!(last.load_of_leg(0).unwrap().transactions.unwrap() > 0);
        assert!(last.load_of_leg(1).unwrap().bytes > 0);
        assert_eq!(last.load_of_leg(1).unwrap().transactions, None);
        assert!(report.loads().all(|load| load.ended_early.is_none()));
    }
    assert!(asked.load_of_leg(0).unwrap().latency.is_some());
}

#[test]
fn loads_are_bounded_in_number_and_one_that_fails_leaves_the_others() {
    let (mut nodes, _) = connected_pair();
    prepare_both(&mut nodes, |_| {}, 1);
    let [left, right] = &mut nodes;
    let nobody = SocketAddr::new(RECEIVER_ADDRESS.parse().unwrap(), 9);
    left.must_fail(&Request::Prepare(part(Role::Sender { peer: nobody }, workload(1))));
    for _ in 1..MAX_LEGS {
        add(left, right, RECEIVER_ADDRESS, &workload(1));
    }
    let bind = RECEIVER_ADDRESS.parse().unwrap();
    let one_more = Request::Prepare(part(Role::Receiver { bind }, workload(1)));
    let refused = right.must_fail(&one_more);
    assert!(refused.contains(&format!("at most {MAX_LEGS}")), "{refused}");
    let [sent, received] = run(&mut nodes, Duration::from_millis(200));
    assert_eq!([sent.loads().count(), received.loads().count()], [MAX_LEGS; 2]);
    assert!(received.samples.last().unwrap().load_of_leg(MAX_LEGS - 1).unwrap().bytes > 0);
}
