//! Which addresses and ports a load's flows go between, so that receive hashing has something to spread
//! by.

use std::net::{IpAddr, SocketAddr};

use vioperf_model::wire::Spread;
use vioperf_model::workload::Workload;

use super::parameter;
use crate::load::LoadError;

/// The most addresses at an end: as many as a workload may ask for.
const MOST_ADDRESSES: usize = 64;

/// Where a receiver listens: at so many ports in a row of every address.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ports: u16,
}

impl Places {
    /// Those of a receiver whose first address is `bind`.
    pub(super) fn of(
        bind: IpAddr,
        workload: &Workload,
        spread: &Spread,
    ) -> Result<Self, LoadError> {
        let addresses = or_first(&spread.destinations, bind);
        check("destination_addresses", workload.destination_addresses, addresses.len())?;
        Ok(Self { addresses, ports: workload.destination_ports.unwrap_or(1).max(1) })
    }
}

/// The flows of a sender, each between two addresses and to a port.
#[derive(Debug)]
pub(super) struct Routes {
    /// None where the routing table chooses.
    sources: Vec<Option<IpAddr>>,
    places: Places,
    first_port: u16,
}

impl Routes {
    /// Those to a receiver whose first address and port are `peer`.
    pub(super) fn of(
        peer: SocketAddr,
        workload: &Workload,
        spread: &Spread,
    ) -> Result<Self, LoadError> {
        let sources = match &spread.sources[..] {
            [] => vec![None],
            sources => sources.iter().copied().map(Some).collect(),
        };
        check("source_addresses", workload.source_addresses, sources.len())?;
        let places = Places::of(peer.ip(), workload, spread)?;
        Ok(Self { sources, places, first_port: peer.port() })
    }

    /// In turn: all source addresses first, then the next destination address, then the next port.
    pub(super) fn of_flow(&self, flow: u16) -> (Option<IpAddr>, SocketAddr) {
        let (flow, sources) = (usize::from(flow), self.sources.len().max(1));
        let destinations = self.places.addresses.len().max(1);
        let at = |list: usize, each: usize| flow / each % list;
        let source = self.sources.get(at(sources, 1)).copied().flatten();
        let destination = self.places.addresses.get(at(destinations, sources));
        let port = at(self.places.ports.into(), sources * destinations);
        let port = self.first_port.saturating_add(u16::try_from(port).unwrap_or(0));
        let unspecified = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        (source, SocketAddr::new(destination.copied().unwrap_or(unspecified), port))
    }
}

fn or_first(addresses: &[IpAddr], first: IpAddr) -> Vec<IpAddr> {
    if addresses.is_empty() { vec![first] } else { addresses.to_vec() }
}

/// As many as are asked for have to be there, and no more than a bound.
fn check(what: &'static str, asked: Option<u16>, given: usize) -> Result<(), LoadError> {
    let asked = asked.unwrap_or(1);
    if usize::from(asked) == given && given <= MOST_ADDRESSES {
        return Ok(());
    }
    let advice = format!(
        "this end was told of {given}; in a lab they are configured, between two machines there is one \
         (spread by workload.destination_ports there)"
    );
    Err(parameter(what, &asked, &advice))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn flows_use_every_combination_in_turn() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let spread = Spread {
            greets: false,
            sources: vec![address("10.0.0.1"), address("10.0.0.2")],
            destinations: vec![address("10.0.1.1"), address("10.0.1.2"), address("10.0.1.3")],
        };
        let workload = Workload {
            source_addresses: Some(2),
            destination_addresses: Some(3),
            destination_ports: Some(2),
            ..Workload::new(WorkloadKind::PacketRate)
        };
        let peer = "10.0.1.1:700".parse().unwrap();
        let routes = Routes::of(peer, &workload, &spread).unwrap();
        let all: BTreeSet<_> = (0..12).map(|flow| routes.of_flow(flow)).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(routes.of_flow(0), routes.of_flow(12));
        let first: BTreeSet<_> = (0..2).map(|flow| routes.of_flow(flow).0).collect();
        assert_eq!(first.len(), 2);
        let error = Routes::of(peer, &workload, &Spread::default()).unwrap_err().to_string();
        assert!(error.contains("source_addresses") && error.contains("was told of 1"), "{error}");
        let plain = Routes::of(peer, &Workload::new(WorkloadKind::UdpStream), &Spread::default());
        assert_eq!(plain.unwrap().of_flow(7), (None, peer));
    }
}
