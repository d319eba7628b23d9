//! A bridge of the Open vSwitch that runs on the host. Its database is changed in nothing but our ports.

use std::path::{Path, PathBuf};

use vioperf_netlink::Socket;

use super::outside::{self, Outside};
use super::vsctl::{Vsctl, VsctlError};
use super::{
    Backing, GuestEnd, Lack, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError, Wire,
    lack, open_vswitch,
};
use crate::host_ports::BridgeKind;

pub(super) const ROW: Row = Row {
    name: open_vswitch::ROW.name,
    lacks: |root, interface| lacks(root, interface?),
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    room: Room::ON_HOST,
    open: |_| Box::new(HostOpenVswitch::default()),
};

/// The userspace datapath, as a bridge's `datapath_type` has it.
const USERSPACE: &str = "netdev";

fn lacks(root: &Path, interface: &str) -> Option<Lack> {
    if let Some(lack) = lack::programs(root, &["ovs-vsctl"], open_vswitch::INSTALL) {
        return Some(lack);
    }
    let Some(vsctl) = Vsctl::of_host(root) else {
        return Some(Lack::new(
            format!("no Open vSwitch runs here that could have a bridge {interface}"),
            "start it (`sudo systemctl start openvswitch-switch`; OVS_RUNDIR names its directory where that is another), or \
             leave testbed.bridge out: then the lab has one of its own",
        ));
    };
    let in_words = |error: VsctlError| {
        Lack::new(error.to_string(), "does ovsdb-server answer, and may this user ask it?")
    };
    let bridges = match vsctl.bridges() {
        Ok(bridges) => bridges,
        Err(error) => return Some(in_words(error)),
    };
    if !bridges.iter().any(|bridge| bridge == interface) {
        let advice = match bridges.is_empty() {
            true => "it has none: `ovs-vsctl add-br NAME` makes one".to_owned(),
            false => format!("it has {}", bridges.join(", ")),
        };
        return Some(Lack::new(format!("Open vSwitch has no bridge {interface}"), advice));
    }
    if let Err(lack) = outside::find(interface) {
        return Some(lack);
    }
    datapath_lacks(&vsctl, interface).unwrap_or_else(|error| Some(in_words(error)))
}

/// The userspace datapath drops segments that the kernel has not finished, unless it was told otherwise.
fn datapath_lacks(vsctl: &Vsctl, bridge: &str) -> Result<Option<Lack>, VsctlError> {
    const KEY: &str = "other_config:userspace-tso-enable";
    if vsctl.get("Bridge", bridge, "datapath_type")? != USERSPACE
        || vsctl.get("Open_vSwitch", ".", KEY)? == "true"
    {
        return Ok(None);
    }
    let what = format!(
        "{bridge} is of the userspace datapath, which drops segments that are not finished by the sender's kernel"
    );
    let advice = format!(
        "`ovs-vsctl set Open_vSwitch . {KEY}=true`, then start ovs-vswitchd again; or leave testbed.bridge out"
    );
    Ok(Some(Lack::new(what, advice)))
}

#[derive(Debug, Default)]
struct HostOpenVswitch {
    made: Option<(Vsctl, Outside)>,
}

impl HostOpenVswitch {
    fn made(&mut self) -> Result<(&Vsctl, &mut Outside), SwitchError> {
        match &mut self.made {
            Some((vsctl, outside)) => Ok((vsctl, outside)),
            None => Err(failed("it is not set up".to_owned())),
        }
    }

    fn attach(&mut self, site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
        let (vsctl, outside) = self.made()?;
        let index = site.socket.link_by_name(port)?.index;
        site.socket.set_up(index)?;
        let bridge = &outside.bridge.name;
        vsctl.add_port(bridge, port, &[])?;
        outside.check_unchanged(site.socket)
    }
}

fn failed(what: String) -> SwitchError {
    SwitchError::Program { switch: ROW.name, what }
}

impl Switch for HostOpenVswitch {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let vsctl = Vsctl::of_host(Path::new("/"));
        let vsctl = vsctl.ok_or_else(|| failed("the host's does not run any more".to_owned()))?;
        let kind = BridgeKind::OpenVswitch { database: vsctl.database().to_owned() };
        self.made = Some((vsctl, Outside::take(ROW.name, site, kind)?));
        Ok(())
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let port = self.made()?.1.veth(site, &end)?;
        self.attach(site, &port)?;
        Ok(Some(port))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let (vsctl, outside) = self.made()?;
        // The database still has the ports of guests that have gone.
        for port in outside.gone(site.socket) {
            vsctl.delete_port(&outside.bridge.name, &port)?;
        }
        let wire = outside.tap(site, guest)?;
        self.attach(site, &wire.name)?;
        Ok(wire)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        let (vsctl, outside) = self.made()?;
        let name = &outside.bridge.name;
        let place = vsctl.place_of(wire)?;
        if place.bridge != *name || !place.is_in_force() {
            let what = format!("{wire} is port {} of {}", place.number, place.bridge);
            return Err(SwitchError::NotInForce { switch: ROW.name, what });
        }
        outside.check_unchanged(site.socket)?;
        let datapath = match vsctl.get("Bridge", name, "datapath_type")?.as_str() {
            USERSPACE => "userspace",
            _ => "kernel",
        };
        let version = vsctl.get("Open_vSwitch", ".", "ovs_version")?;
        Ok(format!(
            "a tap on {name} of the host's Open vSwitch {version} with its {datapath} datapath"
        ))
    }

    fn database(&self) -> Option<PathBuf> {
        self.made.as_ref().map(|(vsctl, _)| vsctl.database().to_owned())
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let Some((vsctl, mut outside)) = self.made.take() else { return Vec::new() };
        let bridge = &outside.bridge.name;
        let off = outside.ports().iter().map(|port| vsctl.delete_port(bridge, port));
        let mut errors: Vec<SwitchError> =
            off.filter_map(|done| done.err().map(SwitchError::from)).collect();
        errors.extend(outside.delete(socket));
        errors
    }
}
