//! The table of contests: what is compared, and the bar.

use anyhow::{Result, bail};

/// One comparison of all who can do a thing.
#[derive(Debug)]
pub struct Contest {
    /// Chosen by it on the command line.
    pub name: &'static str,
    /// What is compared.
    pub title: &'static str,
    pub load: Load,
    /// The first one's metric decides who goes from the heat into the final.
    pub bars: &'static [Bar],
}

/// What everybody is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// TCP, as fast as it goes, from the client to the server.
    TcpStreams(u16),
    /// UDP datagrams of so many bytes, as many as it goes, from the client to the server.
    Datagrams(u16),
    /// A request of so many bytes and a response as long, one after the other.
    Requests(Transport, u16),
    /// The same, but for the time that each took.
    Latency(Transport, u16),
    /// Connect, request of a byte, response of a byte, close.
    Connections,
}

/// What carries requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Payload received, bit/s.
    Throughput,
    /// CPU time of both ends' processes by what they received, s/GB.
    CpuPerGigabyte,
    /// Time that all cores were busy by what was received, s/GB: what the kernel did for them on its
    /// own threads is in it, and whatever else ran.
    BusyPerGigabyte,
    /// Datagrams received a second.
    Datagrams,
    /// Transactions a second.
    Transactions,
    /// Round trip that half of the requests took no longer than, µs.
    MedianLatency,
    /// Round trip that 99 % of the requests took no longer than, µs.
    TailLatency,
}

/// What vioperf's number by the best peer's shall be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    AtLeast(f64),
    AtMost(f64),
    /// From 1 less this to 1 and this.
    Within(f64),
    /// Told, no bar.
    Told,
}

/// Whether datagrams pass the stack one by one or many as one (`UDP_SEGMENT`, `UDP_GRO`: udp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Ordinary,
    Joined,
}

/// A bar: vioperf's best mode of one class against the best peer's best mode of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub metric: Metric,
    pub demand: Demand,
    pub ours: Class,
    pub theirs: Class,
}

impl Bar {
    const fn new(metric: Metric, demand: Demand) -> Self {
        Self { metric, demand, ours: Class::Ordinary, theirs: Class::Ordinary }
    }

    const fn between(self, ours: Class, theirs: Class) -> Self {
        Self { ours, theirs, ..self }
    }
}

impl Metric {
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Datagrams | Self::Transactions)
    }
}

impl Demand {
    pub fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bar) => ratio >= bar,
            Self::AtMost(bar) => ratio <= bar,
            Self::Within(share) => (ratio - 1.0).abs() <= share,
            Self::Told => true,
        }
    }
}

const STREAMS: &[Bar] = &[
    Bar::new(Metric::Throughput, Demand::AtLeast(1.0)),
    Bar::new(Metric::CpuPerGigabyte, Demand::Told),
    Bar::new(Metric::BusyPerGigabyte, Demand::Told),
];
const LATENCY: &[Bar] = &[
    Bar::new(Metric::MedianLatency, Demand::Within(0.05)),
    Bar::new(Metric::TailLatency, Demand::Within(0.05)),
];

/// All contests, in the order in which they are held.
pub const ALL: &[Contest] = &[
    Contest {
        name: "tcp-1",
        title: "TCP, 1 stream",
        load: Load::TcpStreams(1),
        bars: &[
            Bar::new(Metric::Throughput, Demand::AtLeast(1.2)),
            Bar::new(Metric::CpuPerGigabyte, Demand::AtMost(0.8)),
            Bar::new(Metric::BusyPerGigabyte, Demand::Told),
        ],
    },
    Contest {
        name: "tcp-4",
        title: "TCP, 4 streams",
        load: Load::TcpStreams(4),
        bars: &[
            Bar::new(Metric::Throughput, Demand::AtLeast(1.1)),
            Bar::new(Metric::CpuPerGigabyte, Demand::Told),
            Bar::new(Metric::BusyPerGigabyte, Demand::Told),
        ],
    },
    Contest { name: "tcp-16", title: "TCP, 16 streams", load: Load::TcpStreams(16), bars: STREAMS },
    Contest { name: "tcp-64", title: "TCP, 64 streams", load: Load::TcpStreams(64), bars: STREAMS },
    Contest {
        name: "udp-18",
        title: "UDP, datagrams of 18 bytes",
        load: Load::Datagrams(18),
        bars: &[
            Bar::new(Metric::Datagrams, Demand::AtLeast(1.5)),
            Bar::new(Metric::Datagrams, Demand::AtLeast(20.0))
                .between(Class::Joined, Class::Ordinary),
            Bar::new(Metric::Datagrams, Demand::Told).between(Class::Joined, Class::Joined),
        ],
    },
    Contest {
        name: "udp-1470",
        title: "UDP, datagrams of 1470 bytes",
        load: Load::Datagrams(1470),
        bars: &[
            Bar::new(Metric::Throughput, Demand::AtLeast(1.5)),
            Bar::new(Metric::Throughput, Demand::AtLeast(1.5))
                .between(Class::Joined, Class::Joined),
        ],
    },
    Contest {
        name: "requests-tcp",
        title: "Requests and responses of 1 byte over TCP",
        load: Load::Requests(Transport::Tcp, 1),
        bars: &[Bar::new(Metric::Transactions, Demand::AtLeast(1.0))],
    },
    Contest {
        name: "requests-udp",
        title: "Requests and responses of 1 byte over UDP",
        load: Load::Requests(Transport::Udp, 1),
        bars: &[Bar::new(Metric::Transactions, Demand::AtLeast(1.0))],
    },
    Contest {
        name: "latency-udp",
        title: "Round trip of 14 bytes over UDP",
        load: Load::Latency(Transport::Udp, 14),
        bars: LATENCY,
    },
    Contest {
        name: "latency-tcp",
        title: "Round trip of 14 bytes over TCP",
        load: Load::Latency(Transport::Tcp, 14),
        bars: LATENCY,
    },
    Contest {
        name: "connections",
        title: "Connect, request, response, close",
        load: Load::Connections,
        bars: &[Bar::new(Metric::Transactions, Demand::AtLeast(1.0))],
    },
];

/// The contests whose names start with one of `starts`; all where there are none.
pub fn chosen(starts: &[String]) -> Result<Vec<&'static Contest>> {
    let names = || ALL.iter().map(|contest| contest.name).chain([crate::sampling::NAME]);
    for start in starts {
        if !names().any(|name| name.starts_with(start.as_str())) {
            let names: Vec<_> = names().collect();
            bail!("no contest's name starts with `{start}`; there are {}", names.join(", "));
        }
    }
    // `tcp-1` is a name, and not the start of `tcp-16`.
    let is_name = |start: &str| names().any(|name| name == start);
    let fits = |start: &str, name: &str| {
        if is_name(start) { name == start } else { name.starts_with(start) }
    };
    let wanted = |contest: &&Contest| {
        starts.is_empty() || starts.iter().any(|start| fits(start, contest.name))
    };
    Ok(ALL.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contests_are_chosen_by_the_start_of_their_names() {
        let names = |starts: &[&str]| -> Vec<&str> {
            let starts: Vec<String> = starts.iter().map(|start| (*start).to_owned()).collect();
            chosen(&starts).unwrap().iter().map(|contest| contest.name).collect()
        };
        assert_eq!(names(&[]).len(), ALL.len());
        assert_eq!(names(&["udp", "conn"]), ["udp-18", "udp-1470", "connections"]);
        assert_eq!(names(&["tcp-1"]), ["tcp-1"]);
        assert!(names(&["sampling"]).is_empty());
        let message = chosen(&["nonesuch".to_owned()]).unwrap_err().to_string();
        assert!(message.contains("tcp-1") && message.contains("sampling"), "{message}");
    }

    #[test]
    fn every_demand_knows_when_it_is_met() {
        assert!(Demand::AtLeast(1.2).is_met_by(1.2) && !Demand::AtLeast(1.2).is_met_by(1.19));
        assert!(Demand::AtMost(0.8).is_met_by(0.8) && !Demand::AtMost(0.8).is_met_by(0.81));
        assert!(Demand::Within(0.05).is_met_by(0.951) && !Demand::Within(0.05).is_met_by(1.06));
    }
}
