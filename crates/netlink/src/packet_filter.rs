//! The rules of nftables in a network namespace, as far as it takes to tell how many of them a packet
//! passes: dumps of nfnetlink (`linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`). iptables is
//! nftables on most systems (`iptables-nft`), and its rules are among them.

use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::attributes::{self, Attributes, number, text};
use crate::{NetlinkError, Result};

/// `NFNL_SUBSYS_NFTABLES`, with which every type begins.
pub(crate) const NFTABLES: u16 = 10 << 8;
const GET_CHAINS: u16 = NFTABLES | 4;
const GET_RULES: u16 = NFTABLES | 7;
const GET_OBJECTS: u16 = NFTABLES | 19;
pub(crate) const NEW_CHAIN: u16 = NFTABLES | 3;
pub(crate) const NEW_RULE: u16 = NFTABLES | 6;
pub(crate) const NEW_OBJECT: u16 = NFTABLES | 18;

/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const ASK_FOR_ALL: u16 = 0x1 | 0x300;
/// `struct nlmsghdr` and `struct nfgenmsg`.
pub(crate) const HEADER: usize = 16;
/// `NLM_F_ACK`.
pub(crate) const ACK: u16 = 0x4;
const FAMILY_HEADER: usize = 4;

/// The state that established connections have in a bit mask of states (`NF_CT_STATE_BIT`).
const ESTABLISHED: u32 = 2;

/// A dump is made within this time; only a bug takes longer.
const ANSWER_BOUND: Duration = Duration::from_secs(10);

/// A chain of rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterChain {
    /// Which packets its table is for: `ip`, `ip6`, `inet` (both), `bridge`, `netdev` or `arp`.
    pub family: &'static str,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Where packets enter it (`prerouting`, `input`, …); absent of a chain that others lead to.
    pub hook: Option<&'static str>,
}

/// A rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterRule {
    /// As of its chain.
    pub family: &'static str,
    /// As of its chain.
    pub table: String,
    /// Its chain.
    pub chain: String,
    /// Whether it is about every packet.
    pub unconditional: bool,
    /// Whether it asks for the state of the packet's connection, that of established ones included.
    pub of_established: bool,
    /// Whether packets end there: accepted, dropped or handed elsewhere.
    pub ends: bool,
    /// The chain that it leads to.
    pub leads_to: Option<String>,
}

/// Every chain and rule of the calling thread's network namespace, rules in their order; no more rules
/// than `most`, and whether there are more.
///
/// # Errors
/// [`NetlinkError::Refused`] without CAP_NET_ADMIN over the namespace, or without nftables in the kernel.
pub fn packet_filter(most: usize) -> Result<(Vec<FilterChain>, Vec<FilterRule>, bool)> {
    let mut chains = Vec::new();
    dump(GET_CHAINS, "read the packet filter's chains of table", &mut |family, message| {
        chains.extend(chain_of(family, message));
        true
    })?;
    let mut rules = Vec::new();
    let complete =
        dump(GET_RULES, "read the packet filter's rules of table", &mut |family, message| {
            rules.extend(rule_of(family, message));
            rules.len() < most
        })?;
    Ok((chains, rules, !complete))
}

/// Asks for all objects of a kind, and hands each over until `take` has enough: then it is false.
fn dump(
    kind: u16,
    operation: &'static str,
    take: &mut dyn FnMut(u8, &[u8]) -> bool,
) -> Result<bool> {
    let socket = netfilter_socket()?;
    let sent = socket.send(&request(kind), 0);
    sent.map_err(|source| NetlinkError::Socket { step: "send", source })?;
    loop {
        let bytes = match socket.recv_from_full() {
            Ok((bytes, _)) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(NetlinkError::Socket { step: "receive", source }),
        };
        match answers(&bytes, take) {
            Answers::More => {}
            Answers::Done => return Ok(true),
            Answers::Enough => return Ok(false),
            Answers::Refused(errno) => {
                let interface = "*".to_owned();
                return Err(NetlinkError::Refused { operation, interface, errno, said: None });
            }
        }
    }
}

/// A socket of the calling thread's network namespace that waits no longer than an answer may take.
pub(crate) fn netfilter_socket() -> Result<netlink_sys::Socket> {
    let failed = |step| move |source| NetlinkError::Socket { step, source };
    let mut socket = netlink_sys::Socket::new(NETLINK_NETFILTER).map_err(failed("open"))?;
    socket.bind_auto().map_err(failed("bind"))?;
    let seconds = i64::try_from(ANSWER_BOUND.as_secs()).unwrap_or(i64::MAX);
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(seconds))
        .map_err(|errno| failed("set a time-out")(errno.into()))?;
    Ok(socket)
}

/// A named counter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Counter {
    pub table: String,
    pub name: String,
    pub packets: u64,
}

/// Hands every named counter over.
pub(crate) fn dump_objects(operation: &'static str, take: &mut dyn FnMut(Counter)) -> Result<()> {
    let mut each = |_, message: &[u8]| {
        take(counter_of(message));
        true
    };
    dump(GET_OBJECTS, operation, &mut each).map(drop)
}

/// `NFTA_OBJ_`: table 1, name 2, data 4 (of a counter: packets 2).
fn counter_of(message: &[u8]) -> Counter {
    let mut counter = Counter::default();
    for (kind, value) in Attributes(message) {
        match kind {
            1 => counter.table = text(value),
            2 => counter.name = text(value),
            4 => {
                let packets = Attributes(value).find(|(kind, _)| *kind == 2);
                let packets = packets.and_then(|(_, value)| value.get(..8)?.try_into().ok());
                counter.packets = packets.map_or(0, u64::from_be_bytes);
            }
            _ => {}
        }
    }
    counter
}

/// What became of a request of a batch.
pub(crate) enum Reply {
    Done,
    Refused(Errno),
}

/// Takes one datagram of acknowledgements apart.
pub(crate) fn replies(bytes: &[u8]) -> Vec<Reply> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((header, body, next)) = attributes::message(rest, HEADER) {
        rest = next;
        if header == ERROR {
            found.push(match number(body).map(u32::cast_signed) {
                Some(0) => Reply::Done,
                code => Reply::Refused(code.map_or(Errno::EINVAL, errno)),
            });
        }
    }
    found
}

fn request(kind: u16) -> Vec<u8> {
    let length = u32::try_from(HEADER + FAMILY_HEADER).unwrap_or_default();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&ASK_FOR_ALL.to_ne_bytes());
    bytes.extend_from_slice(&1_u32.to_ne_bytes());
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    // Of every family.
    bytes.extend_from_slice(&[0; FAMILY_HEADER]);
    bytes
}

enum Answers {
    More,
    Done,
    Enough,
    Refused(Errno),
}

/// Takes one datagram of answers apart.
fn answers(bytes: &[u8], take: &mut dyn FnMut(u8, &[u8]) -> bool) -> Answers {
    let mut rest = bytes;
    while let Some((header, body, next)) = attributes::message(rest, HEADER) {
        rest = next;
        match header {
            // An acknowledgement is an error of 0.
            ERROR => match number(body).map(u32::cast_signed) {
                Some(0) => return Answers::Done,
                code => return Answers::Refused(code.map_or(Errno::EINVAL, errno)),
            },
            // It ends with an errno where the dump failed.
            DONE => match number(body).map(u32::cast_signed) {
                Some(code) if code < 0 => return Answers::Refused(errno(code)),
                _ => return Answers::Done,
            },
            NEW_CHAIN | NEW_RULE | NEW_OBJECT => {
                let family = body.first().copied().unwrap_or_default();
                let attributes = body.get(FAMILY_HEADER..).unwrap_or_default();
                if !take(family, attributes) {
                    return Answers::Enough;
                }
            }
            _ => {}
        }
    }
    Answers::More
}

fn errno(code: i32) -> Errno {
    Errno::from_raw(code.saturating_neg())
}

/// By the numbers of `NFPROTO_`.
fn family(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => return None,
    })
}

/// By the numbers of `NF_INET_`, `NF_BR_` and `NF_NETDEV_`.
fn hook(family: &str, number: u32) -> Option<&'static str> {
    let names: &[&str] = match family {
        "netdev" => &["ingress", "egress"],
        "arp" => &["input", "output", "forward"],
        _ => &["prerouting", "input", "forward", "output", "postrouting", "ingress"],
    };
    names.get(usize::try_from(number).ok()?).copied()
}

/// `NFTA_CHAIN_`: table 1, name 3, hook 4 (its number 1).
fn chain_of(number_of_family: u8, message: &[u8]) -> Option<FilterChain> {
    let mut chain = FilterChain { family: family(number_of_family)?, ..FilterChain::default() };
    for (kind, value) in Attributes(message) {
        match kind {
            1 => chain.table = text(value),
            3 => chain.name = text(value),
            4 => {
                let at = Attributes(value).find(|(kind, _)| *kind == 1);
                let at = at.and_then(|(_, value)| attributes::network_number(value));
                chain.hook = at.and_then(|at| hook(chain.family, at));
            }
            _ => {}
        }
    }
    Some(chain)
}

/// `NFTA_RULE_`: table 1, chain 2, expressions 4.
fn rule_of(number_of_family: u8, message: &[u8]) -> Option<FilterRule> {
    let mut rule = FilterRule {
        family: family(number_of_family)?,
        unconditional: true,
        ..FilterRule::default()
    };
    let mut asks_for_state = false;
    let mut of_others_only = false;
    let mut asks_for_more = false;
    for (kind, value) in Attributes(message) {
        match kind {
            1 => rule.table = text(value),
            2 => rule.chain = text(value),
            4 => {
                for (_, expression) in Attributes(value) {
                    let expression = Expression::of(expression);
                    rule.unconditional &= expression.is_about_every_packet();
                    asks_for_state |= expression.asks_for_state();
                    asks_for_more |= expression.asks_for_more();
                    of_others_only |= expression.leaves_out_established();
                    // A map of verdicts by states has one for established connections.
                    rule.ends |= expression.name == "lookup" && expression.maps_to_verdicts();
                    if let Some((code, chain)) = expression.verdict() {
                        rule.ends |= code >= 0;
                        rule.leads_to = rule.leads_to.or(chain);
                    }
                    rule.ends |= expression.name == "target" && !expression.goes_on();
                }
            }
            _ => {}
        }
    }
    rule.of_established = asks_for_state && !of_others_only && !asks_for_more;
    Some(rule)
}

/// One part of a rule: `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`.
struct Expression<'a> {
    name: String,
    data: &'a [u8],
}

impl<'a> Expression<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut expression = Self { name: String::new(), data: &[] };
        for (kind, value) in Attributes(bytes) {
            match kind {
                1 => expression.name = text(value),
                2 => expression.data = value,
                _ => {}
            }
        }
        expression
    }

    fn attribute(&self, wanted: u16) -> Option<&'a [u8]> {
        Attributes(self.data).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    /// It counts, decides or remarks, and leaves no packet out.
    fn is_about_every_packet(&self) -> bool {
        let is_remark = || self.name == "match" && self.own_name().is_some_and(|n| n == "comment");
        ["immediate", "counter", "log", "notrack", "target"].contains(&self.name.as_str())
            || is_remark()
    }

    /// `NFTA_MATCH_NAME`, `NFTA_TARGET_NAME`: what iptables-nft takes from iptables.
    fn own_name(&self) -> Option<String> {
        self.attribute(1).map(text)
    }

    /// `ct state`: `NFTA_CT_KEY` is `NFT_CT_STATE`, or a match of iptables.
    fn asks_for_state(&self) -> bool {
        match self.name.as_str() {
            "ct" => self.attribute(2).and_then(attributes::network_number) == Some(0),
            "match" => {
                self.own_name().is_some_and(|n| ["conntrack", "state"].contains(&n.as_str()))
            }
            _ => false,
        }
    }

    /// What is neither a remark nor about the state, nor compares what was asked for before.
    fn asks_for_more(&self) -> bool {
        let compares = ["bitwise", "cmp", "lookup"].contains(&self.name.as_str());
        !compares && !self.is_about_every_packet() && !self.asks_for_state()
    }

    /// A bit mask of states (`NFTA_BITWISE_MASK`) without that of established connections.
    fn leaves_out_established(&self) -> bool {
        let mask = || {
            let mask = self.attribute(4).filter(|_| self.name == "bitwise")?;
            number(Attributes(mask).find(|(kind, _)| *kind == 1)?.1)
        };
        mask().is_some_and(|mask| mask & ESTABLISHED == 0)
    }

    /// `NFTA_LOOKUP_DREG` is the register of verdicts (0).
    fn maps_to_verdicts(&self) -> bool {
        self.attribute(3).and_then(attributes::network_number) == Some(0)
    }

    /// A target that only changes or counts the packet.
    fn goes_on(&self) -> bool {
        let ends = ["REJECT", "DNAT", "SNAT", "MASQUERADE", "REDIRECT", "NFQUEUE", "TPROXY"];
        self.own_name().is_none_or(|name| !ends.contains(&name.as_str()))
    }

    /// `NFTA_IMMEDIATE_DATA`, in it `NFTA_DATA_VERDICT`, in it code and chain.
    fn verdict(&self) -> Option<(i32, Option<String>)> {
        let data = self.attribute(2).filter(|_| self.name == "immediate")?;
        let (_, verdict) = Attributes(data).find(|(kind, _)| *kind == 2)?;
        let (mut code, mut chain) = (None, None);
        for (kind, value) in Attributes(verdict) {
            match kind {
                1 => code = attributes::network_number(value).map(u32::cast_signed),
                2 => chain = Some(text(value)),
                _ => {}
            }
        }
        Some((code?, chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
        let parts = [attribute(1, format!("{name}\0").as_bytes()), attribute(2, &data.concat())];
        attribute(1, &parts.concat())
    }

    fn verdict(code: i32, chain: Option<&str>) -> Vec<u8> {
        let mut parts = attribute(1, &code.to_be_bytes());
        parts.extend(chain.map(|name| attribute(2, name.as_bytes())).unwrap_or_default());
        expression("immediate", &[attribute(1, &[0; 4]), attribute(2, &attribute(2, &parts))])
    }

    fn state(mask: u32) -> Vec<u8> {
        let mask = attribute(4, &attribute(1, &mask.to_ne_bytes()));
        let load = expression("ct", &[attribute(2, &0_u32.to_be_bytes())]);
        [load, expression("bitwise", &[mask]), expression("cmp", &[])].concat()
    }

    fn rule(expressions: &[Vec<u8>]) -> FilterRule {
        let message = [
            attribute(1, b"t\0"),
            attribute(2, b"c\0"),
            attribute(0x8000 | 4, &expressions.concat()),
        ];
        rule_of(1, &message.concat()).unwrap()
    }

    #[test]
    fn a_rule_tells_whom_it_is_about_and_where_it_leads() {
        let read = rule(&[expression("counter", &[]), verdict(1, None)]);
        assert_eq!((read.family, read.table.as_str(), read.chain.as_str()), ("inet", "t", "c"));
        assert!(read.unconditional && read.ends && !read.of_established);
        let port = || expression("payload", &[]);
        let read = rule(&[port(), expression("cmp", &[]), verdict(0, None)]);
        assert!(!read.unconditional && read.ends);
        let read = rule(&[verdict(-3, Some("other\0"))]);
        assert!(read.unconditional && !read.ends && read.leads_to.as_deref() == Some("other"));
        // `ct state established,related accept`, `ct state new accept`, and the first of one port.
        assert!(rule(&[state(6), verdict(1, None)]).of_established);
        assert!(!rule(&[state(8), verdict(1, None)]).of_established);
        assert!(!rule(&[port(), state(6), verdict(1, None)]).of_established);
    }

    #[test]
    fn a_chain_tells_its_hook() {
        let number = attribute(1, &1_u32.to_be_bytes());
        let message = [attribute(1, b"t\0"), attribute(3, b"in\0"), attribute(4, &number)];
        let read = chain_of(2, &message.concat()).unwrap();
        assert_eq!((read.family, read.name.as_str(), read.hook), ("ip", "in", Some("input")));
        assert_eq!(chain_of(2, &message[..2].concat()).unwrap().hook, None);
        assert_eq!(chain_of(99, &message.concat()), None);
    }

    #[test]
    fn damaged_answers_are_refused_or_left_out() {
        let whole = {
            let body = [vec![2, 0, 0, 0], attribute(1, b"t\0"), attribute(3, b"in\0")].concat();
            let mut bytes = u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes().to_vec();
            bytes.extend_from_slice(&NEW_CHAIN.to_ne_bytes());
            bytes.extend_from_slice(&[0; 10]);
            bytes.extend_from_slice(&body);
            bytes
        };
        for length in 0..=whole.len() {
            let mut seen = Vec::new();
            answers(&whole[..length], &mut |family, message| {
                seen.extend(chain_of(family, message));
                true
            });
            assert_eq!(seen.len(), usize::from(length == whole.len()), "{length}");
        }
        assert_eq!(Attributes(&[0; 16]).next(), None, "an attribute has a header at least");
    }
}
