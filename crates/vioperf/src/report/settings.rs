//! How the ends of a path were set up, as facts for people: what they were is in the record, and what of it
//! matters to packets is told here.

use vioperf_analysis::result::{CellAnalysis, EndFacts, Fact};
use vioperf_model::sample::{InterfaceFacts, PacketFilter};

use super::values::{NO_VALUE, place};

/// Offloads that decide how much a packet costs, by the kernel's names and ethtool's.
const OFFLOADS: [(&str, &str); 7] = [
    ("tx-tcp-segmentation", "tso"),
    ("tx-generic-segmentation", "gso"),
    ("rx-gro", "gro"),
    ("rx-lro", "lro"),
    ("tx-udp-segmentation", "uso"),
    ("tx-checksum-ip-generic", "tx checksum"),
    ("rx-checksum", "rx checksum"),
];

/// Of every end of a cell.
pub fn of(cell: &CellAnalysis) -> Vec<Fact> {
    let placed = cell.threads_on.iter().map(|threads| Fact {
        place: "host".to_owned(),
        what: format!("{}, {}: may run on cores", threads.process, threads.thread),
        value: threads.cores.clone(),
        seconds: None,
    });
    cell.ends.iter().flat_map(of_end).chain(placed).collect()
}

fn of_end(end: &EndFacts) -> Vec<Fact> {
    let facts = &end.interface;
    let fact = |what: &str, value: String| Fact {
        place: place(end.place).to_owned(),
        what: what.to_owned(),
        value,
        seconds: None,
    };
    let mut told = vec![
        fact(&facts.name, card(facts)),
        fact("queues and rings, rx/tx", queues(facts)),
        fact("interrupts put off", coalescing(facts)),
        fact("offloads", offloads(facts)),
        fact("steered to cores (masks), RPS/XPS", steering(facts)),
    ];
    if let Some(entries) = &facts.hash_entries {
        let spread: Vec<String> = entries.iter().map(u32::to_string).collect();
        told.push(fact("entries of the receive hash (RSS) by queue", spread.join(" ")));
    }
    told.push(fact("packet filter", rules(end.packet_filter.as_ref())));
    told
}

fn card(facts: &InterfaceFacts) -> String {
    let driver = facts.driver.as_deref().unwrap_or("driver unknown");
    let speed = facts.speed_mbit_per_s.map(|speed| format!(", {speed} Mbit/s"));
    format!("{driver}, MTU {}{}", facts.mtu, speed.unwrap_or_default())
}

fn queues(facts: &InterfaceFacts) -> String {
    let or_none = |pair: Option<(u32, u32)>| {
        pair.map_or_else(|| NO_VALUE.to_owned(), |(rx, tx)| format!("{rx}/{tx}"))
    };
    let queues = or_none(facts.queues.map(|queues| (queues.rx, queues.tx)));
    let rings = or_none(facts.rings.map(|rings| (rings.rx, rings.tx)));
    format!("{queues}, {rings}")
}

fn coalescing(facts: &InterfaceFacts) -> String {
    let Some(set) = facts.coalescing else { return untold(facts, "coalescing") };
    let adaptive = match (set.adaptive_rx, set.adaptive_tx) {
        (true, true) => ", adaptive",
        (true, false) => ", adaptive rx",
        (false, true) => ", adaptive tx",
        (false, false) => "",
    };
    format!(
        "rx {} µs or {} frames, tx {} µs or {} frames{adaptive}",
        set.rx_us, set.rx_frames, set.tx_us, set.tx_frames
    )
}

fn offloads(facts: &InterfaceFacts) -> String {
    let of = |wanted: bool| -> Vec<&str> {
        let is_wanted = |kernel: &str| facts.offloads.get(kernel) == Some(&wanted);
        OFFLOADS.iter().filter(|(kernel, _)| is_wanted(kernel)).map(|(_, name)| *name).collect()
    };
    match (of(true), of(false)) {
        (on, off) if on.is_empty() && off.is_empty() => untold(facts, "offloads"),
        (on, off) if off.is_empty() => format!("on: {}", on.join(", ")),
        (on, off) if on.is_empty() => format!("off: {}", off.join(", ")),
        (on, off) => format!("on: {}; off: {}", on.join(", "), off.join(", ")),
    }
}

fn steering(facts: &InterfaceFacts) -> String {
    let Some(set) = &facts.steering else { return untold(facts, "steering") };
    let masks = |masks: &[String]| match masks {
        [] => NO_VALUE.to_owned(),
        masks => masks.join(" "),
    };
    format!("{} / {}", masks(&set.receive), masks(&set.transmit))
}

fn rules(filter: Option<&PacketFilter>) -> String {
    let Some(filter) = filter else { return "its rules could not be read".to_owned() };
    let hooks = filter.hooks.iter().map(|at| format!("{} {} {}", at.family, at.hook, at.rules));
    let tables = filter.iptables_rules.iter().filter(|(_, rules)| **rules > 0);
    let tables = tables.map(|(table, rules)| format!("iptables {table} {rules}"));
    let told: Vec<String> = hooks.chain(tables).collect();
    if told.is_empty() { "no rules".to_owned() } else { format!("rules: {}", told.join(", ")) }
}

/// Why a setting is not there.
fn untold(facts: &InterfaceFacts, what: &str) -> String {
    let reason = facts.absent.get(what).or_else(|| facts.absent.get("ethtool"));
    reason.map_or_else(|| NO_VALUE.to_owned(), |reason| format!("{NO_VALUE} ({reason})"))
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::Place;
    use vioperf_model::sample::{Coalescing, FilterHook, PacketSteering, QueueCounts, RingSizes};

    use super::*;

    fn end() -> EndFacts {
        let interface = InterfaceFacts {
            name: "eth0".into(),
            mtu: 1500,
            driver: Some("virtio_net".into()),
            queues: Some(QueueCounts { rx: 2, tx: 1 }),
            rings: Some(RingSizes { rx: 256, tx: 128 }),
            coalescing: Some(Coalescing { rx_us: 30, adaptive_rx: true, ..Coalescing::default() }),
            hash_entries: Some(vec![64, 64]),
            steering: Some(PacketSteering { receive: vec!["3".into()], transmit: vec![] }),
            offloads: [("rx-gro".to_owned(), true), ("tx-tcp-segmentation".to_owned(), false)]
                .into(),
            ..InterfaceFacts::default()
        };
        let hook = FilterHook { family: "inet".into(), hook: "input".into(), chains: 1, rules: 12 };
        EndFacts {
            place: Place::Guest,
            kernel_release: "6.12".into(),
            trials: 3,
            interface,
            packet_filter: Some(PacketFilter { hooks: vec![hook], ..PacketFilter::default() }),
        }
    }

    #[test]
    fn every_setting_is_told() {
        let told = of_end(&end());
        let value = |what: &str| {
            let found = told.iter().find(|fact| fact.what.starts_with(what));
            found.map(|fact| fact.value.as_str()).unwrap_or_default()
        };
        assert_eq!(value("eth0"), "virtio_net, MTU 1500");
        assert_eq!(value("queues"), "2/1, 256/128");
        assert_eq!(value("interrupts"), "rx 30 µs or 0 frames, tx 0 µs or 0 frames, adaptive rx");
        assert_eq!(value("offloads"), "on: gro; off: tso");
        assert_eq!(value("steered"), format!("3 / {NO_VALUE}"));
        assert_eq!(value("entries"), "64 64");
        assert_eq!(value("packet filter"), "rules: inet input 12");
    }

    #[test]
    fn what_is_absent_has_its_reason() {
        let mut end = end();
        (end.interface.coalescing, end.interface.steering) = (None, None);
        end.interface.absent.insert("coalescing".into(), "not supported".into());
        end.packet_filter = None;
        let told = of_end(&end);
        assert!(told.iter().any(|fact| fact.value.contains("not supported")), "{told:?}");
        assert!(told.iter().any(|fact| fact.value.contains("could not be read")), "{told:?}");
    }
}
