//! The composition that a conductor works with: switch, endpoints, guests.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::unistd::Pid;
use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::{Chain, FarEnd, IpVersion, SwitchKind};
use vioperf_netlink::{AccessFamily, AccessList, Mac, NamespaceRef, NetlinkError, Socket};

use crate::lab_spec::{GuestPart, GuestSpec, LabSpec};
use crate::namespace::{self, Place, Process, ProcessCommand, SpawnError};
use crate::placement::{Cores, PlacementError, Thread};
use crate::qemu::guest::Plug;
use crate::qemu::{
    BootImage, Booted, Guest, GuestError, GuestSource, Hypervisor, NicSpec, Shape, guest, snapshot,
};
use crate::sandbox::Sandbox;
use crate::shaped_link;
use crate::switch::{
    self, GuestEnd, Lack, NamespaceEnd, NearEnd, NearEnds, Part, Site, Switch, SwitchError,
};

/// Name of an endpoint's interface in its namespace.
pub const ENDPOINT_INTERFACE: &str = "eth0";

/// A running lab; its processes end and its links go when it is dropped.
#[derive(Debug)]
pub struct Lab {
    /// The far end of every load.
    pub peer: Endpoint,
    /// The other end of the baseline.
    pub second: Endpoint,
    /// The far end where that is the host itself.
    pub host_end: Option<HostEnd>,
    /// Samples the host's counters.
    pub observer: Observer,
    switch: Box<dyn Switch>,
    /// What is between a guest that forwards and the far end.
    far_switch: Option<Box<dyn Switch>>,
    /// Rules that what the switch hands on is held against.
    rules: Option<AccessList>,
    kind: SwitchKind,
    near: NearEnd,
    socket: Socket,
    mtu: u32,
    interface: Option<String>,
    guests: u32,
    /// The last to go: whoever is alone on cores has ended by then.
    cores: Option<Cores>,
}

/// A process in a network namespace of its own, connected to the switch.
#[derive(Debug)]
pub struct Endpoint {
    /// The process.
    pub process: Process,
    /// The byte channel to it.
    pub channel: UnixStream,
    /// Its interface, in its namespace.
    pub interface: String,
    /// Hardware address of that interface.
    pub mac: Mac,
    /// The switch's port that it is on, in the sandbox's namespace; a switch without ports there has
    /// none.
    pub port: Option<String>,
}

/// A process in the sandbox's network namespace, at an address on the switch.
#[derive(Debug)]
pub struct HostEnd {
    /// The process.
    pub process: Process,
    /// The byte channel to it.
    pub channel: UnixStream,
    /// The interface that the address is for.
    pub interface: &'static str,
}

/// A process in the network namespace of the switch's ports: the sandbox's, or the host's.
#[derive(Debug)]
pub struct Observer {
    /// The process.
    pub process: Process,
    /// The byte channel to it.
    pub channel: UnixStream,
}

/// Why a lab could not be brought up.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A process did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The switch could not be made.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The link could not be held to its rate.
    #[error("testbed.rate: {0}")]
    Rate(#[source] NetlinkError),
    /// There is no such switch with that far end, chain, neighbour, rules or rate.
    #[error("switch `{switch}`: {lack}")]
    NoRoom {
        /// The kind of switch.
        switch: SwitchKind,
        /// What is missing.
        lack: Lack,
    },
    /// The kernel refused a request about links.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A guest did not start.
    #[error(transparent)]
    Guest(#[from] Box<GuestError>),
    /// Threads could not be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A channel could not be made.
    #[error("lab: {0}")]
    Io(#[from] io::Error),
}

impl Lab {
    /// Makes the switch, starts the endpoints and connects them. Addresses are theirs to take.
    ///
    /// # Errors
    /// [`LabError`]; what was made until then is gone again.
    pub fn bring_up(sandbox: &Sandbox, spec: &LabSpec) -> Result<Self, LabError> {
        let interface = spec.interface.as_deref();
        let refuses_rate = || spec.rate.and_then(|_| switch::refuses_rate(spec.switch, interface));
        let lack = switch::refuses(spec.switch, interface, spec.topology).or_else(refuses_rate);
        if let Some(lack) = lack {
            return Err(LabError::NoRoom { switch: spec.switch, lack });
        }
        let place = switch::place(spec.switch, interface);
        let mut socket = match place {
            Place::Host => Socket::open_in(sandbox.host().network())?,
            Place::Sandbox | Place::OwnNamespace => Socket::open()?,
        };
        let mut switch = switch::open(spec.switch, interface, spec.near);
        let mut far_switch = match spec.topology.chain {
            Chain::None => None,
            Chain::Bridge | Chain::Router => Some(switch::open_far()),
        };
        let mtu = spec.mtu;
        let mut site = Site { sandbox, socket: &mut socket, mtu, interface };
        let far = far_switch.as_deref_mut();
        match Self::assemble(spec, &mut *switch, far, &mut site) {
            Ok(Ends { peer, second, host_end, observer, cores }) => {
                let LabSpec { switch: kind, near, mtu, .. } = *spec;
                let guests = 0;
                Ok(Self {
                    peer,
                    second,
                    host_end,
                    observer,
                    switch,
                    far_switch,
                    rules: rules_of_switch(spec),
                    kind,
                    near,
                    socket,
                    mtu,
                    interface: spec.interface.clone(),
                    guests,
                    cores,
                })
            }
            Err(error) => {
                // The first error is the one to tell; the namespace takes what is left.
                let _ = switch.tear_down(&mut socket);
                let _ = far_switch.map(|mut far| far.tear_down(&mut socket));
                let _ = rules_of_switch(spec).map(AccessList::remove);
                Err(error)
            }
        }
    }

    fn assemble<'s>(
        spec: &LabSpec,
        switch: &'s mut (dyn Switch + 'static),
        mut far_switch: Option<&'s mut (dyn Switch + 'static)>,
        site: &mut Site<'_>,
    ) -> Result<Ends, LabError> {
        switch.set_up(site)?;
        if let Some(far) = &mut far_switch {
            far.set_up(site)?;
        }
        let mut endpoint = |part: Part, command: &ProcessCommand, number: u8| {
            let name = part.name();
            let (process, channel) =
                namespace::spawn(site.sandbox, name, command, Place::OwnNamespace)?;
            let mac = mac_of(Kind::Endpoint, u32::from(number));
            let (pid, interface) = (process.pid(), ENDPOINT_INTERFACE);
            let switch = match (&mut far_switch, part) {
                (Some(far), Part::Peer) => &mut **far,
                _ => &mut *switch,
            };
            let port =
                switch.connect_namespace(site, NamespaceEnd { part, pid, interface, mac })?;
            let interface = interface.to_owned();
            Ok::<_, LabError>(Endpoint { process, channel, interface, mac, port })
        };
        let peer = endpoint(Part::Peer, &spec.peer, 1)?;
        let second = endpoint(Part::Second, &spec.second, 2)?;
        if let Some(rules) = rules_of_switch(spec) {
            rules.install()?;
        }
        let host_end = match spec.topology.far_end {
            FarEnd::Host => Some(host_end(spec, site)?),
            FarEnd::Remote | FarEnd::Guest => None,
        };
        let cores = Cores::take(site.sandbox, spec.placement.as_ref())?;
        if let Some(cores) = &cores {
            let far = host_end.iter().map(|end| (&end.process, Thread::Node));
            for (process, what) in
                [(&peer.process, Thread::Node), (&second.process, Thread::NearNode)]
                    .into_iter()
                    .chain(far)
            {
                cores.place_process(process.name(), process.pid(), what)?;
            }
            for (name, pid) in switch.processes() {
                cores.place_process(&name, pid, Thread::Other)?;
            }
        }
        if let Some(rate) = spec.rate {
            let there = NamespaceRef::Pid(peer.process.pid());
            let port = peer.port.as_ref().ok_or_else(|| SwitchError::NotInForce {
                switch: spec.switch.name(),
                what: "the peer has no port to hold to a rate, which this switch has room for"
                    .into(),
            })?;
            shaped_link::shape(site.socket, port, there, &peer.interface, rate)
                .map_err(LabError::Rate)?;
        }
        // It sees the ports where they are.
        let place = switch::place(spec.switch, spec.interface.as_deref());
        let (process, channel) = namespace::spawn(site.sandbox, "observer", &spec.observer, place)?;
        Ok(Ends { peer, second, host_end, observer: Observer { process, channel }, cores })
    }

    /// Boots a guest without a NIC. Talk to its agent ([`Booted::answer_within`]), then keep it
    /// ([`Booted::into_snapshot`]).
    ///
    /// # Errors
    /// [`LabError::Guest`].
    pub fn boot_template(
        &self,
        hypervisor: &Hypervisor,
        image: &BootImage,
        shape: Shape,
    ) -> Result<Booted, LabError> {
        Ok(snapshot::boot(hypervisor, image, shape)?)
    }

    /// Starts a guest with its NICs on the switches. When this returns each NIC is plugged, its backend is
    /// the one that was asked for, the switch has it, and the guest runs; that its driver has bound and its
    /// carrier is up is the agent's to say.
    ///
    /// # Errors
    /// [`LabError`]; nothing of the guest is left then.
    pub fn start_guest(
        &mut self,
        sandbox: &Sandbox,
        source: GuestSource<'_>,
        spec: GuestSpec<'_>,
    ) -> Result<Guest, LabError> {
        let interface = self.interface.as_deref();
        let mut site = Site { sandbox, socket: &mut self.socket, mtu: self.mtu, interface };
        let nics: Vec<(&NicSpec, bool)> =
            (spec.nic.iter().map(|nic| (*nic, spec.part == GuestPart::FarEnd)))
                .chain(spec.far_nic.map(|nic| (nic, true)))
                .collect();
        let mut plugs = Vec::new();
        for &(nic, is_far) in &nics {
            let number = self.guests;
            self.guests = self.guests.wrapping_add(1);
            let mac = mac_of(Kind::Guest, number);
            let end = GuestEnd {
                number,
                mac,
                queues: nic.queues,
                is_passed_through: nic.model.row().is_passed_through(),
                addresses: &nic.addresses,
                prefix_length: nic.prefix_length,
            };
            let segment = segment(&mut self.switch, &mut self.far_switch, is_far);
            let wire = segment.connect_guest(&mut site, &end)?;
            plugs.push(Plug { nic, wire, mac });
        }
        let mut guest = guest::start(source, plugs, spec.disk)?;
        let mut ways = Vec::new();
        for (wire, &(_, is_far)) in guest.wires().zip(&nics) {
            let segment = segment(&mut self.switch, &mut self.far_switch, is_far);
            ways.push(segment.verify(&mut site, wire)?);
        }
        guest.set_path(ways.join(" and "));
        if let Some(cores) = &self.cores {
            if spec.part == GuestPart::UnderTest {
                cores.place_guest(guest.qemu_pid(), &guest.virtual_cpu_threads()?)?;
            } else {
                cores.place_process("qemu", guest.qemu_pid(), Thread::Other)?;
            }
            for (name, pid) in self.switch.processes().into_iter().chain(guest.processes()) {
                cores.place_process(&name, pid, Thread::Other)?;
            }
        }
        Ok(guest)
    }

    /// Whether it has room for that near end.
    #[must_use]
    pub fn serves(&self, near: NearEnd) -> bool {
        self.near == near || switch::near_ends(self.kind) == NearEnds::Both
    }

    /// Whether it has room for guests that rest beside the one under test.
    #[must_use]
    pub fn has_room_for_resting(&self) -> bool {
        switch::near_ends(self.kind) == NearEnds::Both
    }

    /// The processes of the switch itself, with what they are called in reports.
    #[must_use]
    pub fn switch_processes(&self) -> Vec<(String, Pid)> {
        self.switch.processes()
    }

    /// The socket of the switch's OVSDB, if it is an Open vSwitch, as every process of the sandbox
    /// reaches it.
    #[must_use]
    pub fn switch_database(&self) -> Option<PathBuf> {
        self.switch.database()
    }

    /// Lets a guest rest: it takes no part of a CPU until [`Self::wake_guest`], and its port is down, so that
    /// nothing piles up there that it would find later.
    ///
    /// # Errors
    /// [`LabError`]; the guest is of no use then.
    pub fn rest_guest(&mut self, guest: &mut Guest) -> Result<(), LabError> {
        guest.pause()?;
        for port in self.ports_of(guest)? {
            self.socket.set_down(port)?;
        }
        Ok(())
    }

    /// Lets a guest that rests go on. Its clock is late by the time of its rest.
    ///
    /// # Errors
    /// [`LabError`]; the guest is of no use then.
    pub fn wake_guest(&mut self, guest: &mut Guest) -> Result<(), LabError> {
        for port in self.ports_of(guest)? {
            self.socket.set_up(port)?;
        }
        Ok(guest.go_on()?)
    }

    /// The indices of the interfaces that a guest's NICs are on; a backend without one has none.
    fn ports_of(&mut self, guest: &Guest) -> Result<Vec<u32>, NetlinkError> {
        let links = self.socket.links()?;
        let of_guest = links.iter().filter(|link| guest.wires().any(|wire| wire == link.name));
        Ok(of_guest.map(|link| link.index).collect())
    }

    /// Which cores its threads are held to, if they are.
    #[must_use]
    pub fn placement(&self) -> Option<&CorePlacement> {
        self.cores.as_ref().map(Cores::placement)
    }

    /// MTU of the switch, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Every process id of the lab but the guests', with its name.
    #[must_use]
    pub fn processes(&self) -> [(&str, Pid); 3] {
        [&self.peer.process, &self.second.process, &self.observer.process]
            .map(|process| (process.name(), process.pid()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // What cannot be undone here goes with the sandbox's namespace.
        let _ = self.switch.tear_down(&mut self.socket);
        let _ = self.far_switch.as_mut().map(|far| far.tear_down(&mut self.socket));
        let _ = self.rules.map(AccessList::remove);
    }
}

/// What a lab has beside its switches.
struct Ends {
    peer: Endpoint,
    second: Endpoint,
    host_end: Option<HostEnd>,
    observer: Observer,
    cores: Option<Cores>,
}

/// The switch on that side of a guest that forwards, where there is one.
fn segment<'a>(
    near: &'a mut Box<dyn Switch>,
    far: &'a mut Option<Box<dyn Switch>>,
    is_far: bool,
) -> &'a mut dyn Switch {
    match far {
        Some(far) if is_far => far.as_mut(),
        _ => near.as_mut(),
    }
}

/// The rules that stand on the host.
fn rules_of_switch(spec: &LabSpec) -> Option<AccessList> {
    let rules = spec.topology.rules_of_switch();
    let is_ipv6 = spec.ip == IpVersion::Ipv6;
    (rules > 0).then_some(AccessList { family: AccessFamily::Bridge, is_ipv6, rules })
}

/// Starts what loads the host's own end, and makes the switch's interface there fit for an address.
fn host_end(spec: &LabSpec, site: &mut Site<'_>) -> Result<HostEnd, LabError> {
    let interface = match spec.topology.chain {
        Chain::None => switch::host_interface(spec.switch, spec.interface.as_deref()),
        Chain::Bridge | Chain::Router => Some(switch::FAR_BRIDGE),
    };
    let no_interface = || io::Error::other("the switch has no interface on the host");
    let interface = interface.ok_or_else(no_interface)?;
    // Ports are kept from sending IPv6's own packets; an end has to speak it.
    let settings = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
    let _ = fs::write(settings, "0");
    let (process, channel) =
        namespace::spawn(site.sandbox, "host-end", &spec.host_end, Place::Sandbox)?;
    Ok(HostEnd { process, channel, interface })
}

/// Whom an address is for.
#[derive(Clone, Copy)]
enum Kind {
    Endpoint,
    Guest,
}

/// Locally administered addresses (IEEE 802: second bit of the first byte), told apart by a byte.
fn mac_of(kind: Kind, number: u32) -> Mac {
    let [_, high, middle, low] = number.to_be_bytes();
    let kind = match kind {
        Kind::Endpoint => 0xe0,
        Kind::Guest => 0xc0,
    };
    Mac([0x52, 0x54, kind, high, middle, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unicast_local_and_distinct() {
        let macs = [mac_of(Kind::Endpoint, 1), mac_of(Kind::Guest, 1), mac_of(Kind::Guest, 70_000)];
        assert!(macs.iter().all(|mac| mac.0[0] & 3 == 2));
        assert!(macs[0] != macs[1] && macs[1] != macs[2]);
    }
}
