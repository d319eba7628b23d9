//! A list of rules that packets are held against one after the other and none of which matches, as a
//! long access list is for the packets that it lets pass. Written by batches of nfnetlink
//! (`linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`), so that it takes no program beside.
//!
//! Each rule compares four bytes of the source address, as `ip saddr 203.0.113.9 drop` does,
//! with addresses that are given to documentation (RFC 5737, RFC 3849) and so to nobody. Two counters stand in the
//! same chain, one before and one behind the rules: what both have counted was held against them all.

use std::io;

use crate::packet_filter::{
    self, ACK, HEADER, NEW_CHAIN, NEW_OBJECT, NEW_RULE, NFTABLES, Reply, netfilter_socket,
};
use crate::{NetlinkError, Result};

const NEW_TABLE: u16 = NFTABLES;
const DELETE_TABLE: u16 = NFTABLES | 2;
/// `NFNL_MSG_BATCH_BEGIN` and `_END`: between them stands what is made as one.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// `NLM_F_REQUEST`, `NLM_F_CREATE`, `NLM_F_APPEND`.
const REQUEST: u16 = 0x1;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// A batch is one datagram, and where it is refused each of its requests is answered with an error: all of
/// them have to fit into the socket's buffer (200 KiB).
const RULES_A_BATCH: u32 = 64;

/// The table, and the chain with the rules.
const TABLE: &str = "vioperf-acl";
const CHAIN: &str = "acl";
/// The counters before and behind the rules.
const ENTERED: &str = "entered";
const PASSED: &str = "passed";

/// Verdicts.
const DROP: i32 = 0;
const JUMP: i32 = -3;

/// Which packets come to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFamily {
    /// What a bridge hands on, and what goes to or comes from the machine by it.
    Bridge,
    /// What is forwarded from network to network.
    Forwarded,
}

/// What an access list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessList {
    /// Which packets come to it.
    pub family: AccessFamily,
    /// Whether its rules are about IPv6, or else IPv4.
    pub is_ipv6: bool,
    /// How many rules.
    pub rules: u32,
}

/// Packets that the counters of an access list have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessCounters {
    /// Before the first rule.
    pub entered: u64,
    /// Behind the last.
    pub passed: u64,
}

impl AccessList {
    /// Puts the rules in place, in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] without CAP_NET_ADMIN over the namespace, or where the kernel has no
    /// nftables, or none for bridges.
    pub fn install(self) -> Result<()> {
        let mut batch = Batch::of(self.number());
        batch.add(NEW_TABLE, CREATE, &[text(1, TABLE)]);
        for name in [ENTERED, PASSED] {
            let object = [text(1, TABLE), text(2, name), number(3, 1), attribute(4, &[])];
            batch.add(NEW_OBJECT, CREATE, &object);
        }
        batch.add(NEW_CHAIN, CREATE, &[text(1, TABLE), text(3, CHAIN)]);
        for (hook, name) in self.hooks() {
            let at = [number(1, *hook), number(2, 0)].concat();
            let base = [text(1, TABLE), text(3, name), attribute(4, &at), text(7, "filter")];
            batch.add(NEW_CHAIN, CREATE, &base);
            batch.add_rule(name, &[verdict(JUMP, Some(CHAIN))]);
        }
        batch.add_rule(CHAIN, &[counter(ENTERED)]);
        batch.send("write a packet filter's rules in table")?;
        let mut next = 0;
        while next < self.rules {
            let mut batch = Batch::of(self.number());
            let until = self.rules.min(next + RULES_A_BATCH);
            (next..until).for_each(|rule| batch.add_rule(CHAIN, &self.rule(rule)));
            batch.send("write a packet filter's rules in table")?;
            next = until;
        }
        let mut batch = Batch::of(self.number());
        batch.add_rule(CHAIN, &[counter(PASSED)]);
        batch.send("write a packet filter's rules in table")
    }

    /// Takes the rules away.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`], also where there are none.
    pub fn remove(self) -> Result<()> {
        let mut batch = Batch::of(self.number());
        batch.add(DELETE_TABLE, 0, &[text(1, TABLE)]);
        batch.send("take a packet filter's rules away from table")
    }

    /// The number of its family (`NFPROTO_`).
    fn number(self) -> u8 {
        match (self.family, self.is_ipv6) {
            (AccessFamily::Bridge, _) => 7,
            (AccessFamily::Forwarded, false) => 2,
            (AccessFamily::Forwarded, true) => 10,
        }
    }

    /// Where packets enter it (`NF_BR_`, `NF_INET_`): each passes one of these and no other.
    fn hooks(self) -> &'static [(u32, &'static str)] {
        match self.family {
            AccessFamily::Bridge => &[(1, "input"), (2, "forward"), (3, "output")],
            AccessFamily::Forwarded => &[(2, "forward")],
        }
    }

    /// The expressions that nft(8) makes of `ip saddr ADDRESS drop` in a table of that protocol.
    fn rule(self, rule: u32) -> Vec<Vec<u8>> {
        let [.., low] = rule.to_be_bytes();
        let (offset, source) = match self.is_ipv6 {
            false => (12, [203, 0, 113, low]),
            // The bytes of 2001:db8::/32 that follow tell the rules apart.
            true => (9, [0x01, 0x0d, 0xb8, low]),
        };
        // Of the network's header (1), so many bytes from there.
        let place = [number(1, 1), number(2, 1), number(3, offset), number(4, 4)];
        vec![expression("payload", &place), compare(&source), verdict(DROP, None)]
    }
}

/// What the counters of the access list in the calling thread's network namespace have counted; nothing
/// where there is none.
///
/// # Errors
/// As [`packet_filter`](crate::packet_filter).
pub fn access_counters() -> Result<Option<AccessCounters>> {
    let mut counters = AccessCounters::default();
    let mut found = false;
    packet_filter::dump_objects("read the counters of table", &mut |object| {
        if object.table != TABLE {
            return;
        }
        found = true;
        match object.name.as_str() {
            ENTERED => counters.entered = object.packets,
            PASSED => counters.passed = object.packets,
            _ => {}
        }
    })?;
    Ok(found.then_some(counters))
}

/// Requests that the kernel carries out as one.
struct Batch {
    family: u8,
    bytes: Vec<u8>,
    requests: u32,
    /// Where the last request begins.
    last: usize,
}

impl Batch {
    fn of(family: u8) -> Self {
        let mut batch = Self { family, bytes: Vec::new(), requests: 0, last: 0 };
        batch.frame(BATCH_BEGIN);
        batch
    }

    fn frame(&mut self, kind: u16) {
        // Of the part of nfnetlink that they are for, in the network's byte order.
        let [part, _] = NFTABLES.to_be_bytes();
        self.message(kind, REQUEST, [0, 0, 0, part], &[]);
    }

    fn add(&mut self, kind: u16, flags: u16, attributes: &[Vec<u8>]) {
        self.requests += 1;
        self.last = self.bytes.len();
        self.message(kind, REQUEST | flags, [self.family, 0, 0, 0], &attributes.concat());
    }

    fn add_rule(&mut self, chain: &str, expressions: &[Vec<u8>]) {
        let expressions = attribute(NESTED | 4, &expressions.concat());
        self.add(NEW_RULE, CREATE | APPEND, &[text(1, TABLE), text(2, chain), expressions]);
    }

    fn message(&mut self, kind: u16, flags: u16, family: [u8; 4], body: &[u8]) {
        let length = u32::try_from(HEADER + family.len() + body.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.requests.to_ne_bytes());
        self.bytes.extend_from_slice(&0_u32.to_ne_bytes());
        self.bytes.extend_from_slice(&family);
        self.bytes.extend_from_slice(body);
    }

    /// Sends it and waits until the last of its requests is acknowledged: an acknowledgement of each would
    /// be more than a socket's buffer holds. An error is told of any, and nothing is changed then.
    fn send(mut self, operation: &'static str) -> Result<()> {
        let flags = self.last + 6..self.last + 8;
        if let Some(flags) = self.bytes.get_mut(flags).filter(|_| self.requests > 0) {
            let own = u16::from_ne_bytes([flags[0], flags[1]]) | ACK;
            flags.copy_from_slice(&own.to_ne_bytes());
        }
        self.frame(BATCH_END);
        let failed = |step| move |source| NetlinkError::Socket { step, source };
        let socket = netfilter_socket()?;
        socket.send(&self.bytes, 0).map_err(failed("send"))?;
        let mut is_done = self.requests == 0;
        while !is_done {
            let bytes = match socket.recv_from_full() {
                Ok((bytes, _)) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(failed("receive")(source)),
            };
            for reply in packet_filter::replies(&bytes) {
                match reply {
                    Reply::Done => is_done = true,
                    Reply::Refused(errno) => {
                        let interface = TABLE.to_owned();
                        return Err(NetlinkError::Refused {
                            operation,
                            interface,
                            errno,
                            said: None,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// `NFTA_LIST_ELEM`, in it `NFTA_EXPR_NAME` and `_DATA`.
fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    let data = attribute(NESTED | 2, &data.concat());
    attribute(NESTED | 1, &[text(1, name), data].concat())
}

/// The first register is that (`NFT_CMP_EQ`).
fn compare(value: &[u8]) -> Vec<u8> {
    let value = attribute(NESTED | 3, &attribute(1, value));
    expression("cmp", &[number(1, 1), number(2, 0), value])
}

fn verdict(code: i32, chain: Option<&str>) -> Vec<u8> {
    let code = number(1, code.cast_unsigned());
    let parts = [code, chain.map(|name| text(2, name)).unwrap_or_default()].concat();
    let data = attribute(NESTED | 2, &attribute(NESTED | 2, &parts));
    expression("immediate", &[number(1, 0), data])
}

/// Counts in a named counter (`NFT_OBJECT_COUNTER`).
fn counter(name: &str) -> Vec<u8> {
    expression("objref", &[number(1, 1), text(2, name)])
}
