//! Datagrams in time with the clock, between two nodes over a veth pair: needs root for network
//! namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use nodes::{connected_pair, prepare_both, run};
use vioperf_model::sample::{LoadOutcome, NodeReport};
use vioperf_model::units::{BitRate, ByteSize};
use vioperf_model::workload::{Workload, WorkloadKind};

fn load(kind: WorkloadKind, streams: u16) -> Workload {
    let payload = Some(ByteSize::from_bytes(100));
    Workload { payload, streams, ..Workload::new(kind) }
}

fn outcome(report: &NodeReport) -> &LoadOutcome {
    let outcome = report.load.as_ref().unwrap();
    assert_eq!(outcome.ended_early, None);
    outcome
}

fn datagrams(report: &NodeReport) -> u64 {
    report.samples.last().unwrap().load.unwrap().datagrams.unwrap()
}

/// Hears every frame of a namespace, with the time at which the kernel had it.
struct Wire(OwnedFd);

impl Wire {
    /// Listens in the namespace that the calling thread is in.
    fn tap() -> Self {
        let all = SockProtocol::EthAll;
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_NONBLOCK, all).unwrap();
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        Self(socket)
    }

    /// When each UDP packet with 100 bytes of payload came, in nanoseconds.
    fn times_ns(&self) -> Vec<u64> {
        let mut times = Vec::new();
        loop {
            let mut frame = [0; 256];
            let mut parts = [IoSliceMut::new(&mut frame)];
            let mut control = cmsg_space!(TimeSpec);
            let message = recvmsg::<()>(
                self.0.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::empty(),
            );
            let message = match message {
                Err(Errno::EAGAIN) => return times,
                other => other.unwrap(),
            };
            let stamp = message.cmsgs().unwrap().find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
                _ => None,
            });
            // Ethernet, IPv4 and UDP headers.
            if message.bytes == 14 + 20 + 8 + 100 {
                times.push(u64::try_from(stamp.unwrap().as_nanos()).unwrap());
            }
        }
    }
}

#[test]
fn so_many_a_second_go_as_are_asked_for_however_many_flows_share_them() {
    let (mut nodes, _) = connected_pair();
    for (streams, per_second, burst) in [(1, 5_000, None), (3, 20_000, None), (2, 8_000, Some(32))]
    {
        let datagrams_per_second = Some(per_second);
        let workload =
            Workload { datagrams_per_second, burst, ..load(WorkloadKind::PacketRate, streams) };
        prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), streams);
        let [sent, received] = run(&mut nodes, Duration::from_millis(1_000));
        let not_sent = outcome(&sent).not_sent.unwrap();
        // What was due: from the first sample, which is taken before anything is sent, to the last.
        let [first, last] = [sent.samples.first(), sent.samples.last()].map(|s| s.unwrap());
        let seconds = (last.monotonic_ns - first.monotonic_ns) as f64 / 1e9;
        let due = (datagrams(&sent) + not_sent) as f64;
        let most = seconds * f64::from(per_second);
        assert!(due <= most + 100.0, "{due} of {most} due");
        assert!(due >= most - 0.03 * f64::from(per_second) - 100.0, "{due} of {most} due");
        assert_eq!(datagrams(&received), datagrams(&sent));
        let flows: Vec<u64> = outcome(&sent).streams.iter().map(|flow| flow.bytes / 100).collect();
        let (least, most) = (flows.iter().min().unwrap(), flows.iter().max().unwrap());
        assert!(most - least <= 32 + not_sent, "{flows:?}");
    }
    // Nothing is due where nothing is asked for.
    let workload = load(WorkloadKind::PacketRate, 1);
    prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 1);
    let [sent, _] = run(&mut nodes, Duration::from_millis(100));
    assert_eq!(outcome(&sent).not_sent, None);
}

#[test]
fn what_is_more_than_can_be_sent_is_said() {
    let (mut nodes, _) = connected_pair();
    let datagrams_per_second = Some(400_000_000);
    let workload = Workload { datagrams_per_second, ..load(WorkloadKind::PacketRate, 2) };
    prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 2);
    let [sent, _] = run(&mut nodes, Duration::from_millis(300));
    let not_sent = outcome(&sent).not_sent.unwrap();
    let due = (datagrams(&sent) + not_sent) as f64;
    assert!(not_sent as f64 > 0.5 * due, "{not_sent} of {due}");
    assert!((0.25..0.45).contains(&(due / 400e6)), "{due} due");
}

#[test]
fn a_burst_is_back_to_back_and_then_there_is_a_pause() {
    for (kind, datagrams_per_second, rate) in [
        (WorkloadKind::PacketRate, Some(1_600), None),
        (WorkloadKind::UdpStream, None, Some(1_600 * 100 * 8)),
    ] {
        let (mut nodes, _) = connected_pair();
        let wire = nodes[1].inside(Wire::tap);
        let workload = Workload {
            datagrams_per_second,
            rate: rate.map(BitRate::from_bits_per_second),
            burst: Some(16),
            ..load(kind, 1)
        };
        prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 1);
        let [sent, _] = run(&mut nodes, Duration::from_millis(500));
        let heard = wire.times_ns();
        // The sender shows beforehand that datagrams of that length pass.
        let before = heard.len() as u64 - datagrams(&sent);
        assert!(before < 5, "{before} more than were sent");
        let times = &heard[usize::try_from(before).unwrap()..];
        // 16 every 10 ms. Half a pause is longer than anything between those of one burst, unless the
        // machine was away; most bursts are whole.
        let bursts = times.chunk_by(|a, b| b.saturating_sub(*a) < 5_000_000);
        let sizes: Vec<usize> = bursts.map(<[u64]>::len).collect();
        let whole = sizes.iter().filter(|size| **size == 16).count();
        assert!(sizes.len() >= 25 && whole * 10 >= sizes.len() * 8, "{kind:?}: {sizes:?}");
    }
}
