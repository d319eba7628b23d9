//! Packets are held against so many rules of a packet filter that it takes a good part of the time.

use vioperf_model::record::Place;
use vioperf_model::sample::PacketFilter;
use vioperf_model::wire::Role;

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::{Confidence, Fact};
use crate::wording::three_digits;

pub(super) const RULE: Rule = Rule {
    name: "firewall-rules",
    title: "Every packet is held against many rules of a packet filter",
    check,
};

/// What a rule of nftables that does not match costs at least about, in nanoseconds: between 5 and 40
/// were measured, by processor, its mitigations, and what the rule asks for.
const RULE_NS: f64 = 10.0;
/// Fewer rules than that are not worth a word.
const NOTICED_RULES: f64 = 50.0;
/// So many cost more than the rest of a packet's way.
const MANY_RULES: f64 = 500.0;
/// Part of a thread's time from which they limit, in percent: of so many, and of fewer.
const MANY_PERCENT: f64 = 15.0;
const NOTICED_PERCENT: f64 = 25.0;
/// A thread that uses less than that, in percent, is not who packets wait for.
const LEAST_ON_CPU_PERCENT: f64 = 50.0;
/// Part of its time from which a thread of a load that is held back is short of it, in percent.
const BUSY_PERCENT: f64 = 75.0;

/// Places that packets pass on their way in, and out.
const IN: [&str; 3] = ["ingress", "prerouting", "input"];
const OUT: [&str; 3] = ["output", "postrouting", "egress"];
/// And those of packets that are only handed on.
const THROUGH: [&str; 1] = ["forward"];

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let is_busy = || symptoms.busiest_thread().is_some_and(|busy| busy >= BUSY_PERCENT);
    if symptoms.is_paced() && !is_busy() {
        return None;
    }
    // Whichever thread does the work of the kernel on the way: where others use the cores too, it gets
    // but a part of one.
    let on_cpu = symptoms.ends().into_iter().filter_map(|end| Some(end.threads()?.on_cpu));
    let on_cpu = on_cpu.fold(LEAST_ON_CPU_PERCENT, f64::max);
    let version = symptoms.ends().into_iter().any(is_of_version_6);
    let between = [Place::Forwarder, Place::Host].into_iter().filter_map(|p| symptoms.party(p));
    let between = between.filter_map(|end| Cost::of_handing_on(end, version));
    let costs = symptoms.ends().into_iter().filter_map(|end| Cost::of(end, on_cpu));
    let cost = costs.chain(between).max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let least = if cost.rules >= MANY_RULES { MANY_PERCENT } else { NOTICED_PERCENT };
    if cost.rules < NOTICED_RULES || cost.percent < least {
        return None;
    }
    let confidence = match cost.rules {
        _ if cost.is_guessed => Confidence::Possible,
        rules if rules >= MANY_RULES => Confidence::Certain,
        _ => Confidence::Likely,
    };
    let advice = "Put what the rules compare into a set or a map, which is looked up at once (nft: `tcp dport { 22, 80 } accept`, `vmap`; \
                  ipset), and the rule for established connections first (`ct state established,related accept`). Packets that are \
                  only handed on can pass by (`flow add @flowtable`), those of the load can be left untracked (`notrack`).";
    Some(Sign { confidence, evidence: cost.evidence, advice: advice.into() })
}

/// What the rules of one end's namespace cost.
struct Cost {
    /// That the dearer way of packets passes.
    rules: f64,
    /// Of the CPU time that each of the load's threads has.
    percent: f64,
    /// Whether it is not told which of the rules a packet comes to.
    is_guessed: bool,
    evidence: Vec<Fact>,
}

impl Cost {
    /// `on_cpu` is that of the busiest thread, in percent.
    fn of(end: &End<'_>, on_cpu: f64) -> Option<Self> {
        let filter = end.packet_filter()?;
        let seconds = end.seconds()?;
        let (family, protocol) = if is_of_version_6(end) { ("ip6", "Ip6") } else { ("ip", "Ip") };
        let per_second = |name: &str| Some(end.grown(&[&format!("{protocol}{name}")])? / seconds);
        let ways = [
            ("come in", per_second("InReceives")?, at_hooks(filter, family, &IN)),
            ("go out", per_second("OutRequests")?, at_hooks(filter, family, &OUT)),
        ];
        let older = f64::from(of_iptables(filter, family));
        let rules = ways.iter().map(|(.., rules)| *rules).fold(0.0, f64::max);
        let mut ns: f64 = ways.iter().map(|(_, packets, rules)| packets * rules * RULE_NS).sum();
        let is_guessed = rules < NOTICED_RULES && older >= NOTICED_RULES;
        if is_guessed {
            ns = ways[0].1.max(ways[1].1) * older * RULE_NS;
        }
        let threads = end.threads().map_or(1, |threads| threads.threads.max(1)) as f64;
        let percent = 100.0 * ns / 1e9 * 100.0 / on_cpu / threads;
        let mut evidence = Vec::new();
        for (way, packets, rules) in ways.iter().filter(|(.., rules)| *rules > 0.0) {
            evidence.push(end.setting(
                format!("rules of nftables that packets which {way} are held against"),
                format!("{rules:.0}"),
            ));
            evidence.push(end.counter(
                format!("packets of IP that {way}"),
                format!("{}/s", three_digits(*packets)),
            ));
        }
        if older > 0.0 {
            evidence.push(end.setting("rules of iptables, all tables", format!("{older:.0}")));
        }
        evidence.push(end.setting(
            format!("CPU time that they take at {RULE_NS:.0} ns each, of a thread's"),
            format!("about {} %", three_digits(percent.min(100.0))),
        ));
        if let Some(entries) = end.tracked_connections().filter(|entries| *entries > 0) {
            evidence.push(end.setting("connections tracked", entries.to_string()));
        }
        Some(Self {
            rules: rules.max(if is_guessed { older } else { 0.0 }),
            percent,
            is_guessed,
            evidence,
        })
    }
}

impl Cost {
    /// Of packets that a machine between the ends hands on, by a router or a bridge: interrupts of one core
    /// do that.
    fn of_handing_on(end: &End<'_>, is_ipv6: bool) -> Option<Self> {
        let filter = end.packet_filter()?;
        let (family, forwarded) =
            if is_ipv6 { ("ip6", "Ip6OutForwDatagrams") } else { ("ip", "IpForwDatagrams") };
        let routed = at_hooks(filter, family, &THROUGH);
        let bridged = at_hooks_of(filter, &["bridge"], &THROUGH);
        let rules = routed.max(bridged);
        // A bridge does not count what it hands on, but an access list counts what comes to it.
        let packets = end.held_against_list().or_else(|| end.grown(&[forwarded]))?;
        let packets = packets / end.seconds()?;
        let percent = 100.0 * packets * rules * RULE_NS / 1e9;
        let evidence = vec![
            end.setting(
                "rules of nftables that packets which are handed on are held against",
                format!("{rules:.0}"),
            ),
            end.counter("packets handed on", format!("{}/s", three_digits(packets))),
            end.setting(
                format!("CPU time that they take at {RULE_NS:.0} ns each, of a core's"),
                format!("about {} %", three_digits(percent.min(100.0))),
            ),
        ];
        Some(Self { rules, percent, is_guessed: false, evidence })
    }
}

fn is_of_version_6(end: &End<'_>) -> bool {
    match end.role() {
        Some(Role::Sender { peer }) => peer.is_ipv6(),
        Some(Role::Receiver { bind }) => bind.is_ipv6(),
        Some(Role::Disk | Role::Observer) | None => false,
    }
}

fn at_hooks(filter: &PacketFilter, family: &str, hooks: &[&str]) -> f64 {
    at_hooks_of(filter, &["inet", "netdev", family], hooks)
}

fn at_hooks_of(filter: &PacketFilter, families: &[&str], hooks: &[&str]) -> f64 {
    let here = filter.hooks.iter().filter(|place| {
        families.contains(&place.family.as_str()) && hooks.contains(&place.hook.as_str())
    });
    here.map(|place| f64::from(place.rules)).sum()
}

fn of_iptables(filter: &PacketFilter, family: &str) -> u32 {
    let tables = filter.iptables_rules.iter();
    let of_family = tables.filter(|(table, _)| table.split(' ').next() == Some(family));
    of_family.map(|(_, rules)| *rules).fold(0, u32::saturating_add)
}
