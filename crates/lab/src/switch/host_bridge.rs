//! A Linux bridge that the host had before, in the host's own network namespace.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use vioperf_netlink::{BridgeSettings, Link, Socket};

use super::outside::{self, Outside};
use super::{
    Backing, GuestEnd, Lack, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError, Wire,
};
use crate::host_ports::BridgeKind;

pub(super) const ROW: Row = Row {
    name: super::bridge::ROW.name,
    lacks: |root, interface| lacks(root, interface?),
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    room: Room::ON_HOST,
    open: |_| Box::new(HostBridge::default()),
};

/// What a new port waits beyond the times of the spanning tree protocol.
const FORWARDS_WITHIN: Duration = Duration::from_secs(5);

/// `addr_assign_type` of an interface that was given its address (`NET_ADDR_SET`, linux/netdevice.h).
const ADDRESS_WAS_SET: &str = "3";

fn lacks(root: &Path, interface: &str) -> Option<Lack> {
    let (mut socket, link) = match outside::find(interface) {
        Ok(found) => found,
        Err(lack) => return Some(lack),
    };
    let kind = link.kind.as_deref().unwrap_or("a network card");
    let settings = match socket.bridge_settings(link.index) {
        Ok(settings) if kind == "bridge" => settings,
        _ => {
            let advice = match kind {
                "openvswitch" | "tun" => {
                    "where it is one of Open vSwitch: `switch = \"openvswitch\"`"
                }
                _ => "name a bridge; `ip link show type bridge` lists them",
            };
            return Some(Lack::new(format!("{interface} is no Linux bridge, but {kind}"), advice));
        }
    };
    let links = socket.links().unwrap_or_default();
    let has_ports = links.iter().any(|port| port.master == Some(link.index));
    let assigned = root.join("sys/class/net").join(interface).join("addr_assign_type");
    let has_address =
        || fs::read_to_string(assigned).is_ok_and(|kind| kind.trim() == ADDRESS_WAS_SET);
    in_the_way(&link, settings, has_ports || has_address())
}

fn in_the_way(link: &Link, settings: BridgeSettings, keeps_address: bool) -> Option<Lack> {
    let name = &link.name;
    if !link.up {
        return Some(Lack::new(format!("{name} is down"), format!("`ip link set {name} up`")));
    }
    if settings.vlan_filtering && settings.default_vlan.is_none() {
        return Some(Lack::new(
            format!("{name} filters VLANs, and new ports are in none (vlan_default_pvid 0)"),
            "take another bridge, or leave testbed.bridge out",
        ));
    }
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    (!keeps_address).then(|| {
        Lack::new(
            format!("{name} has no port, so its address would become that of vioperf's"),
            format!("give it one that stays: `ip link set {name} address {mac}`"),
        )
    })
}

#[derive(Debug, Default)]
struct HostBridge {
    outside: Option<Outside>,
    /// How long a new port may take until it forwards.
    patience: Duration,
}

impl HostBridge {
    fn outside(&mut self) -> Result<&mut Outside, SwitchError> {
        let what = "it is not set up".to_owned();
        self.outside.as_mut().ok_or(SwitchError::Program { switch: ROW.name, what })
    }

    /// Puts an interface on the bridge, and waits until it forwards.
    fn attach(&mut self, site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
        let index = site.socket.link_by_name(port)?.index;
        let deadline = Instant::now() + self.patience;
        let outside = self.outside()?;
        site.socket.set_master(index, Some(outside.bridge.index))?;
        site.socket.set_up(index)?;
        outside.check_unchanged(site.socket)?;
        // A tap has a carrier only with its guest, and forwards from then on.
        let has_carrier =
            |socket: &mut Socket| socket.link_by_index(index).map(|link| link.carrier);
        while has_carrier(site.socket)? && !site.socket.port_forwards(index)? {
            if Instant::now() >= deadline {
                let what = format!("{port} does not forward, as the spanning tree protocol has it");
                return Err(SwitchError::NotInForce { switch: ROW.name, what });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Switch for HostBridge {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let outside = Outside::take(ROW.name, site, BridgeKind::Linux)?;
        let settings = site.socket.bridge_settings(outside.bridge.index)?;
        if settings.spanning_tree {
            // It listens for that time, then learns for it.
            let hundredths = u64::from(settings.forward_delay).saturating_mul(2);
            self.patience = Duration::from_millis(hundredths.saturating_mul(10));
        }
        self.patience = self.patience.saturating_add(FORWARDS_WITHIN);
        self.outside = Some(outside);
        Ok(())
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let port = self.outside()?.veth(site, &end)?;
        self.attach(site, &port)?;
        Ok(Some(port))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let outside = self.outside()?;
        // Those of guests that have gone went from the bridge with them.
        outside.gone(site.socket);
        let wire = outside.tap(site, guest)?;
        self.attach(site, &wire.name)?;
        Ok(wire)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        let link = site.socket.link_by_name(wire)?;
        let outside = self.outside()?;
        let name = &outside.bridge.name;
        if link.master != Some(outside.bridge.index) || !link.up {
            let what = format!("{wire} is no port of the host's bridge {name}, or is down");
            return Err(SwitchError::NotInForce { switch: ROW.name, what });
        }
        outside.check_unchanged(site.socket)?;
        Ok(format!("a tap on the host's bridge {name}"))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        self.outside.take().map(|mut outside| outside.delete(socket)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use vioperf_netlink::OperState;

    use super::*;

    fn bridge() -> Link {
        Link {
            index: 3,
            name: "br0".into(),
            mac: "52:54:00:00:00:07".parse().ok(),
            mtu: 1500,
            up: true,
            carrier: true,
            running: true,
            oper_state: OperState::Up,
            kind: Some("bridge".into()),
            ..Link::default()
        }
    }

    #[test]
    fn what_would_not_work_or_alter_the_bridge_is_told_with_what_to_do() {
        let plain = BridgeSettings { default_vlan: Some(1), ..BridgeSettings::default() };
        assert_eq!(in_the_way(&bridge(), plain, true), None);
        let said =
            |link: &Link, settings, keeps| in_the_way(link, settings, keeps).unwrap().to_string();
        let down = Link { up: false, ..bridge() };
        assert!(said(&down, plain, true).contains("`ip link set br0 up`"));
        let filtering = BridgeSettings {
            vlan_filtering: true,
            default_vlan: None,
            ..BridgeSettings::default()
        };
        assert!(said(&bridge(), filtering, true).contains("vlan_default_pvid 0"));
        let unset = said(&bridge(), plain, false);
        assert!(unset.contains("`ip link set br0 address 52:54:00:00:00:07`"), "{unset}");
    }
}
