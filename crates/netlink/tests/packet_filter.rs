//! Rules that nft(8) planted are read as what they are: needs root and nftables.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use vioperf_netlink::packet_filter;

const RULES: &str = "table inet t {
    chain in {
        type filter hook input priority 0;
        ip saddr 203.0.113.9 drop;
        ct state established,related accept;
        ct state new tcp dport 22 accept;
        ct state vmap { established : accept, invalid : drop };
        jump more;
        counter accept;
    }
    chain more { tcp dport { 1, 2 } counter drop; }
}
table ip6 u { chain out { type filter hook output priority 0; }; }
table netdev v { chain early { }; }";

#[test]
fn rules_are_read_as_nft_made_them() {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
            assert_eq!(packet_filter(10).unwrap(), (Vec::new(), Vec::new(), false));
            let planted = Command::new("nft").arg(RULES).status();
            assert!(planted.expect("nft (install nftables)").success());
            let (chains, rules, incomplete) = packet_filter(100).unwrap();
            assert!(!incomplete);
            let mut names: Vec<_> = chains
                .iter()
                .map(|chain| (chain.family, chain.name.as_str(), chain.hook))
                .collect();
            names.sort_unstable();
            let expected = [
                ("inet", "in", Some("input")),
                ("inet", "more", None),
                ("ip6", "out", Some("output")),
                ("netdev", "early", None),
            ];
            assert_eq!(names, expected);
            let told: Vec<_> = rules
                .iter()
                .map(|rule| {
                    assert_eq!((rule.family, rule.table.as_str()), ("inet", "t"));
                    let leads_to = rule.leads_to.as_deref().unwrap_or_default();
                    (&*rule.chain, rule.unconditional, rule.of_established, rule.ends, leads_to)
                })
                .collect();
            let expected = [
                ("in", false, false, true, ""),
                ("in", false, true, true, ""),
                ("in", false, false, true, ""),
                ("in", false, true, true, ""),
                ("in", true, false, false, "more"),
                ("in", true, false, true, ""),
                ("more", false, false, true, ""),
            ];
            assert_eq!(told, expected);
            let (_, few, incomplete) = packet_filter(3).unwrap();
            assert!(incomplete && few.len() == 3);
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}
