//! How many rules of packet filters stand on the way of packets: nftables by nfnetlink, and the tables of the older
//! iptables that are there (`linux/netfilter_ipv4/ip_tables.h`).

mod iptables;

use std::collections::BTreeMap;
use std::path::Path;

use nix::errno::Errno;
use vioperf_model::sample::{FilterHook, PacketFilter};
use vioperf_netlink::{FilterChain, FilterRule, NetlinkError};

/// More rules are not looked at: reading so many takes a tenth of a second.
const MOST_RULES: usize = 100_000;
/// The kernel follows no more jumps (`NFT_JUMP_STACK_SIZE`).
const DEEPEST: u32 = 16;

/// A kernel without nftables has no rules of it: it knows no such netlink, or nfnetlink no such part.
fn has_no_nftables(error: &NetlinkError) -> bool {
    match error {
        NetlinkError::Socket { source, .. } => {
            source.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32)
        }
        other => other.errno() == Some(Errno::EINVAL),
    }
}

/// Of the calling thread's network namespace. `proc` is `/proc` but in tests.
pub(super) fn read(proc: &Path) -> Result<PacketFilter, NetlinkError> {
    let (chains, rules, incomplete) = match vioperf_netlink::packet_filter(MOST_RULES) {
        Err(error) if has_no_nftables(&error) => (Vec::new(), Vec::new(), false),
        read => read?,
    };
    let flag = std::fs::read_to_string(proc.join("sys/net/bridge/bridge-nf-call-iptables"));
    Ok(PacketFilter {
        hooks: hooks(&chains, &rules),
        nftables_rules: u32::try_from(rules.len()).unwrap_or(u32::MAX),
        incomplete,
        iptables_rules: iptables::rules(proc),
        bridge_calls_ip: flag.is_ok_and(|flag| flag.trim() == "1"),
    })
}

/// A chain by its family, table and name.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The rules of each place, where there are any.
fn hooks(chains: &[FilterChain], rules: &[FilterRule]) -> Vec<FilterHook> {
    let mut of_chains: BTreeMap<Key<'_>, Vec<&FilterRule>> = BTreeMap::new();
    for rule in rules {
        of_chains.entry((rule.family, &rule.table, &rule.chain)).or_default().push(rule);
    }
    let mut hooks: BTreeMap<(&str, &str), FilterHook> = BTreeMap::new();
    for chain in chains {
        let Some(hook) = chain.hook.filter(|_| chain.family != "arp") else { continue };
        let mut passed = 0;
        pass(&of_chains, (chain.family, &chain.table, &chain.name), DEEPEST, &mut passed);
        if passed == 0 {
            continue;
        }
        let place = hooks.entry((chain.family, hook)).or_insert_with(|| FilterHook {
            family: chain.family.to_owned(),
            hook: hook.to_owned(),
            ..FilterHook::default()
        });
        place.chains = place.chains.saturating_add(1);
        place.rules = place.rules.saturating_add(passed);
    }
    hooks.into_values().collect()
}

/// Adds the rules of a chain that a packet is held against; true where one of them decides.
fn pass(
    chains: &BTreeMap<Key<'_>, Vec<&FilterRule>>,
    chain: Key<'_>,
    deeper: u32,
    passed: &mut u32,
) -> bool {
    for rule in chains.get(&chain).into_iter().flatten() {
        *passed = passed.saturating_add(1);
        if rule.ends && (rule.unconditional || rule.of_established) {
            return true;
        }
        // Chains that lead to each other without end are refused by the kernel, many ways are not.
        let led = rule.leads_to.as_deref().filter(|_| rule.unconditional && deeper > 0);
        let too_many = usize::try_from(*passed).is_ok_and(|passed| passed > MOST_RULES);
        if let Some(next) = led.filter(|_| !too_many)
            && pass(chains, (chain.0, chain.1, next), deeper - 1, passed)
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(name: &str, hook: Option<&'static str>) -> FilterChain {
        FilterChain { family: "inet", table: "t".into(), name: name.into(), hook }
    }

    fn rule(chain: &str) -> FilterRule {
        FilterRule {
            family: "inet",
            table: "t".into(),
            chain: chain.into(),
            ..FilterRule::default()
        }
    }

    fn counted(rules: &[FilterRule]) -> Vec<(String, u32, u32)> {
        let chains = [chain("in", Some("input")), chain("more", None), chain("in2", Some("input"))];
        let hooks = hooks(&chains, rules);
        hooks.into_iter().map(|hook| (hook.hook, hook.chains, hook.rules)).collect()
    }

    fn input(chains: u32, rules: u32) -> Vec<(String, u32, u32)> {
        vec![("input".to_owned(), chains, rules)]
    }

    #[test]
    fn rules_are_counted_up_to_the_one_that_decides() {
        assert!(counted(&[]).is_empty() && counted(&[rule("more")]).is_empty());
        let plain = || rule("in");
        assert_eq!(counted(&[plain(), plain()]), input(1, 2));
        let of_established = FilterRule { ends: true, of_established: true, ..rule("in") };
        assert_eq!(counted(&[plain(), of_established, plain()]), input(1, 2));
        // It decides for some packets alone.
        let of_some = FilterRule { ends: true, ..rule("in") };
        assert_eq!(counted(&[of_some, plain(), rule("in2")]), input(2, 3));
    }

    #[test]
    fn a_kernel_without_nftables_has_no_rules() {
        let open = |errno: Errno| NetlinkError::Socket { step: "open", source: errno.into() };
        assert!(has_no_nftables(&open(Errno::EPROTONOSUPPORT)));
        assert!(!has_no_nftables(&open(Errno::EMFILE)));
    }

    #[test]
    fn chains_that_all_packets_are_led_to_count() {
        let led = FilterRule { unconditional: true, leads_to: Some("more".into()), ..rule("in") };
        let all = [led.clone(), rule("in"), rule("more"), rule("more")];
        assert_eq!(counted(&all), input(1, 4));
        let some = FilterRule { unconditional: false, ..led.clone() };
        assert_eq!(counted(&[some, rule("in"), rule("more")]), input(1, 2));
        let accepts = FilterRule { ends: true, unconditional: true, ..rule("more") };
        assert_eq!(counted(&[led.clone(), rule("in"), accepts]), input(1, 2));
        // What leads back, which no kernel lets be, ends too.
        let back = FilterRule {
            leads_to: Some("in".into()),
            ..FilterRule { chain: "more".into(), ..led.clone() }
        };
        assert_eq!(counted(&[led, back]), input(1, DEEPEST + 1));
    }
}
