//! An access list is what nft(8) reads it to be, and goes again: needs root and nftables.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use vioperf_netlink::{AccessCounters, AccessFamily, AccessList, access_counters, packet_filter};

fn in_a_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
            test();
        });
        thread.join().unwrap();
    });
}

fn listed() -> String {
    let listed = Command::new("nft").args(["list", "ruleset"]).output();
    let listed = listed.expect("nft (install nftables)");
    String::from_utf8(listed.stdout).unwrap()
}

#[test]
fn nft_reads_the_rules_as_they_are_meant() {
    let cases = [
        (AccessFamily::Bridge, false, "table bridge", "@nh,96,32 0xcb007107 drop", 3),
        (AccessFamily::Forwarded, false, "table ip ", "ip saddr 203.0.113.7 drop", 1),
        (AccessFamily::Forwarded, true, "table ip6", "@nh,72,32 0x10db807 drop", 1),
    ];
    for (family, is_ipv6, table, rule, hooks) in cases {
        in_a_namespace(|| {
            let list = AccessList { family, is_ipv6, rules: 600 };
            list.install().unwrap();
            let text = listed();
            assert!(text.contains(table) && text.contains(rule), "{text}");
            assert_eq!(text.matches(" drop\n").count(), 600, "{family:?}");
            assert_eq!(access_counters().unwrap(), Some(AccessCounters::default()));
            let (chains, rules, _) = packet_filter(10_000).unwrap();
            assert_eq!(chains.iter().filter(|chain| chain.hook.is_some()).count(), hooks);
            let ends = rules.iter().filter(|rule| rule.ends).count();
            assert_eq!((ends, rules.len()), (600, 600 + hooks + 2));
            list.remove().unwrap();
            assert!(!listed().contains("table"));
            assert_eq!(access_counters().unwrap(), None);
        });
    }
}

#[test]
fn what_is_not_there_cannot_be_taken_away() {
    in_a_namespace(|| {
        let list = AccessList { family: AccessFamily::Forwarded, is_ipv6: false, rules: 0 };
        assert!(list.remove().is_err());
        list.install().unwrap();
        list.remove().unwrap();
        assert!(list.remove().is_err());
    });
}
