//! The requests, tried in network namespaces of their own: needs root or user namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use vioperf_netlink::{Address, Mac, NamespaceRef, NetlinkError, OperState, Socket, VethEnd};

/// Runs a test on a thread of its own in a new network namespace; both are gone when it returns.
fn in_new_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn address(text: &str, prefix_length: u8) -> Address {
    Address { address: text.parse::<IpAddr>().unwrap(), prefix_length }
}

#[test]
fn a_bridge_with_a_veth_port_comes_up() {
    in_new_namespace(|| {
        let mut socket = Socket::open().unwrap();
        let mac = Mac([0x52, 0x54, 0, 1, 2, 3]);
        socket.create_bridge("br0").unwrap();
        let end = VethEnd { mac: Some(mac), mtu: Some(9000), ..VethEnd::new("left") };
        socket.create_veth(&end, &VethEnd::new("right")).unwrap();
        let bridge = socket.link_by_name("br0").unwrap();
        let left = socket.link_by_mac(mac).unwrap();
        let right = socket.link_by_name("right").unwrap();
        assert_eq!((left.name.as_str(), left.mtu), ("left", 9000));
        assert_eq!((left.kind.as_deref(), left.up), (Some("veth"), false));
        assert_eq!(bridge.kind.as_deref(), Some("bridge"));

        socket.set_master(left.index, Some(bridge.index)).unwrap();
        for link in [&bridge, &left, &right] {
            socket.set_up(link.index).unwrap();
        }
        let left = socket.link_by_index(left.index).unwrap();
        assert!(left.up && left.carrier && left.running, "{left:?}");
        assert_eq!((left.oper_state, left.master), (OperState::Up, Some(bridge.index)));
        assert!(left.counters.is_some());

        socket.set_down(right.index).unwrap();
        assert!(!socket.link_by_name("left").unwrap().carrier);
        socket.set_mtu(left.index, 1400).unwrap();
        socket.set_mac(right.index, Mac([2, 0, 0, 0, 0, 9])).unwrap();
        socket.rename(right.index, "eth0").unwrap();
        assert_eq!(socket.link_by_name("left").unwrap().mtu, 1400);
        assert_eq!(socket.link_by_name("eth0").unwrap().mac, Some(Mac([2, 0, 0, 0, 0, 9])));
        socket.set_master(left.index, None).unwrap();
        assert_eq!(socket.link_by_name("left").unwrap().master, None);

        socket.delete(left.index).unwrap();
        assert!(matches!(socket.link_by_name("eth0"), Err(NetlinkError::NoSuchLink { .. })));
        assert_eq!(socket.links().unwrap().len(), 2, "loopback and the bridge remain");
    });
}

#[test]
fn links_are_created_in_and_moved_to_another_namespace() {
    in_new_namespace(|| {
        let (tell, told) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let mut socket = Socket::open().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                let namespace = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
                tell.send((namespace, Socket::open().unwrap())).unwrap();
                let _ = wait.recv();
            });
            let (namespace, mut there) = told.recv().unwrap();
            let peer = VethEnd {
                namespace: Some(NamespaceRef::Fd(namespace.as_fd())),
                ..VethEnd::new("eth0")
            };
            socket.create_veth(&VethEnd::new("port"), &peer).unwrap();
            let eth0 = there.link_by_name("eth0").unwrap();
            assert_eq!(eth0.kind.as_deref(), Some("veth"));

            socket.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
            let b = socket.link_by_name("b").unwrap();
            socket.move_to(b.index, NamespaceRef::Fd(namespace.as_fd())).unwrap();
            assert!(there.link_by_name("b").is_ok() && socket.link_by_name("b").is_err());
            let a = socket.link_by_name("a").unwrap().index;
            let to = NamespaceRef::Fd(namespace.as_fd());
            socket.move_as(a, to, "c").unwrap();
            assert_eq!(there.link_by_name("c").unwrap().kind.as_deref(), Some("veth"));
            drop(done);
        });
    });
}

#[test]
fn addresses_and_neighbours_come_and_go() {
    in_new_namespace(|| {
        let mut socket = Socket::open().unwrap();
        socket.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
        let index = socket.link_by_name("a").unwrap().index;
        socket.set_up(index).unwrap();
        let peer = socket.link_by_name("b").unwrap().index;
        socket.set_up(peer).unwrap();
        let wanted = [address("10.9.8.1", 24), address("10.9.8.2", 24), address("fd00:7::1", 64)];
        for one in wanted {
            socket.add_address(index, one).unwrap();
        }
        let found = socket.addresses(index).unwrap();
        assert!(wanted.iter().all(|one| found.contains(one)), "{found:?}");
        // No duplicate address detection: it can be bound at once.
        std::net::UdpSocket::bind("[fd00:7::1]:0").unwrap();

        let sender = std::net::UdpSocket::bind("10.9.8.1:0").unwrap();
        sender.send_to(b"x", "10.9.8.77:9").unwrap();
        assert_eq!(socket.neighbour_count(index).unwrap(), 1);
        socket.flush_neighbours(index).unwrap();
        assert_eq!(socket.neighbour_count(index).unwrap(), 0);

        socket.flush_addresses(index).unwrap();
        let left = socket.addresses(index).unwrap();
        assert!(wanted.iter().all(|one| !left.contains(one)), "{left:?}");
    });
}

#[test]
fn errors_name_operation_interface_and_errno() {
    in_new_namespace(|| {
        let mut socket = Socket::open().unwrap();
        socket.create_bridge("br0").unwrap();
        let error = socket.create_bridge("br0").unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EEXIST));
        let text = error.to_string();
        assert!(text.contains("create the bridge `br0`") && text.contains("EEXIST"), "{text}");

        let index = socket.link_by_name("br0").unwrap().index;
        let text = socket.set_mtu(index, 10_000_000).unwrap_err().to_string();
        assert!(text.contains("set the MTU of `br0`: EINVAL"), "{text}");
        assert!(text.contains("kernel: "), "the kernel's own words are kept: {text}");

        assert!(matches!(socket.create_bridge("a/b"), Err(NetlinkError::BadName { .. })));
        assert!(matches!(
            socket.create_bridge("sixteen-bytes-xx"),
            Err(NetlinkError::BadName { .. })
        ));
        assert!(matches!(socket.link_by_name("none"), Err(NetlinkError::NoSuchLink { .. })));
    });
}
