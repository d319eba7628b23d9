//! Counters of IP, UDP and TCP of the network namespace: `/proc/net/snmp`, `/proc/net/netstat` and
//! `/proc/net/snmp6` (proc_pid_net(5); Documentation/networking/snmp_counter.rst).

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use super::{ReadError, parsed};

/// Those that tell where packets went, by the names that nstat(8) gives them.
const WANTED: &[&str] = &[
    "IpInReceives",
    "IpInHdrErrors",
    "IpInDiscards",
    "IpInDelivers",
    "IpOutRequests",
    "IpOutDiscards",
    "IpOutNoRoutes",
    "IpReasmReqds",
    "IpReasmFails",
    "IpFragOKs",
    "IpFragFails",
    "IpFragCreates",
    "UdpInDatagrams",
    "UdpNoPorts",
    "UdpInErrors",
    "UdpOutDatagrams",
    "UdpRcvbufErrors",
    "UdpSndbufErrors",
    "UdpInCsumErrors",
    "UdpMemErrors",
    "IpExtInOctets",
    "TcpInSegs",
    "TcpOutSegs",
    "TcpRetransSegs",
    "TcpInErrs",
    "TcpInCsumErrors",
    "TcpOutRsts",
    "TcpAttemptFails",
    "TcpEstabResets",
    "TcpExtTCPTimeouts",
    "TcpExtTCPLossProbes",
    "TcpExtTCPLossProbeRecovery",
    "TcpExtTCPFastRetrans",
    "TcpExtTCPSlowStartRetrans",
    "TcpExtTCPLostRetransmit",
    "TcpExtTCPSpuriousRTOs",
    "TcpExtTCPSackRecovery",
    "TcpExtTCPDSACKRecv",
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPRcvQDrop",
    "TcpExtTCPZeroWindowDrop",
    "TcpExtTCPOFOQueue",
    "TcpExtTCPOFODrop",
    "TcpExtTCPOFOMerge",
    "TcpExtTCPRcvCollapsed",
    "TcpExtTCPRcvCoalesce",
    "TcpExtTCPMemoryPressures",
    "TcpExtTCPFromZeroWindowAdv",
    "TcpExtTCPToZeroWindowAdv",
    "TcpExtTCPWantZeroWindowAdv",
    "TcpExtTCPAutoCorking",
    "TcpExtPruneCalled",
    "TcpExtListenOverflows",
    "TcpExtListenDrops",
    "TcpExtPFMemallocDrop",
    "Ip6InReceives",
    "Ip6InOctets",
    "Ip6InHdrErrors",
    "Ip6InDiscards",
    "Ip6InDelivers",
    "Ip6OutRequests",
    "Ip6OutDiscards",
    "Ip6OutNoRoutes",
    "Ip6ReasmReqds",
    "Ip6ReasmFails",
    "Ip6FragOKs",
    "Ip6FragFails",
    "Ip6FragCreates",
    "Udp6InDatagrams",
    "Udp6NoPorts",
    "Udp6InErrors",
    "Udp6OutDatagrams",
    "Udp6RcvbufErrors",
    "Udp6SndbufErrors",
    "Udp6InCsumErrors",
    "Udp6MemErrors",
];

/// The same to be looked up: a slow guest feels five hundred names compared with each of them.
static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| WANTED.iter().copied().collect());

/// A counter that this kernel does not have is not in the map.
pub(super) fn read(proc: &Path) -> Result<BTreeMap<String, u64>, ReadError> {
    let net = proc.join("thread-self/net");
    let mut counters = parsed(&net.join("snmp"), parse_pairs)?;
    counters.extend(parsed(&net.join("netstat"), parse_pairs)?);
    // Absent where IPv6 is switched off.
    if let Ok(of_ipv6) = parsed(&net.join("snmp6"), parse_lines) {
        counters.extend(of_ipv6);
    }
    Ok(counters)
}

/// Two lines a protocol, both beginning with its name: the columns' names, then their values.
fn parse_pairs(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let mut counters = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (protocol, names) = names.split_once(':').ok_or_else(|| names.to_owned())?;
        let same = values.split_once(':').filter(|(name, _)| *name == protocol);
        let (_, values) = same.ok_or_else(|| values.to_owned())?;
        let columns = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        for (name, value) in columns {
            // Some that are not wanted are negative.
            add(&mut counters, format!("{protocol}{name}"), value)?;
        }
    }
    Ok(counters)
}

/// A line a counter.
fn parse_lines(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        add(&mut counters, name.to_owned(), value)?;
    }
    Ok(counters)
}

fn add(counters: &mut BTreeMap<String, u64>, name: String, value: &str) -> Result<(), String> {
    if SET.contains(name.as_str()) {
        let value = value.parse().map_err(|_| format!("{name} {value}"))?;
        counters.insert(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_three_files_by_nstats_names() {
        let proc = tempfile::tempdir().unwrap();
        let net = proc.path().join("thread-self/net");
        std::fs::create_dir_all(&net).unwrap();
        let snmp =
            "Tcp: MaxConn InSegs\nTcp: -1 5\nUdp: InDatagrams NoPorts InErrors\nUdp: 7 8 9\n";
        std::fs::write(net.join("snmp"), snmp).unwrap();
        std::fs::write(net.join("netstat"), "TcpExt: TCPTimeouts Other\nTcpExt: 3 4\n").unwrap();
        let without = read(proc.path()).unwrap();
        assert_eq!((without["TcpInSegs"], without["UdpNoPorts"]), (5, 8));
        assert_eq!(without["TcpExtTCPTimeouts"], 3);
        assert!(!without.contains_key("TcpMaxConn") && !without.contains_key("Udp6InErrors"));
        std::fs::write(net.join("snmp6"), "Ip6InReceives   \t2\nUdp6InErrors \t11\n").unwrap();
        assert_eq!(read(proc.path()).unwrap()["Udp6InErrors"], 11);
    }

    #[test]
    fn says_which_line_it_does_not_understand() {
        assert_eq!(parse_pairs("Udp: InErrors\nTcp: 1\n").unwrap_err(), "Tcp: 1");
        assert!(parse_pairs("Udp: InErrors\nUdp: x\n").unwrap_err().contains("UdpInErrors x"));
        assert!(parse_lines("Udp6InErrors -1\n").is_err());
        assert!(parse_lines("\nUdp6InErrors\n").unwrap().is_empty());
    }
}
