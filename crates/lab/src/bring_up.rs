//! The composition that a conductor works with: switch, endpoints, guests.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::unistd::Pid;
use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::SwitchKind;
use vioperf_model::units::BitRate;
use vioperf_netlink::{Mac, NamespaceRef, NetlinkError, Socket};

use crate::namespace::{self, Place, Process, ProcessCommand, SpawnError};
use crate::placement::{self, PlacementError};
use crate::qemu::{
    BootImage, Booted, Guest, GuestError, GuestSource, Hypervisor, NicSpec, Shape, guest, snapshot,
};
use crate::sandbox::Sandbox;
use crate::shaped_link::{self, ShapedLinkError};
use crate::switch::{
    self, GuestEnd, NamespaceEnd, NearEnd, NearEnds, Part, Site, Switch, SwitchError,
};

/// Name of an endpoint's interface in its namespace.
pub const ENDPOINT_INTERFACE: &str = "eth0";

/// What a lab is made of.
#[derive(Debug, Clone)]
pub struct LabSpec {
    /// What connects the endpoints.
    pub switch: SwitchKind,
    /// The interface of the host that it is made of, if it is.
    pub interface: Option<String>,
    /// What is at the near end, where the switch has room for one kind alone.
    pub near: NearEnd,
    /// MTU of the switch and of the endpoints, in bytes.
    pub mtu: u32,
    /// Rate that the link of the peer is held to, each way; none leaves it as fast as it goes.
    pub rate: Option<BitRate>,
    /// Which cores its threads are held to; none leaves them to the scheduler.
    pub placement: Option<CorePlacement>,
    /// The far end of every load, in a namespace of its own.
    pub peer: ProcessCommand,
    /// The other end of the baseline, in a namespace of its own.
    pub second: ProcessCommand,
    /// Samples the host's counters, in the sandbox's namespace.
    pub observer: ProcessCommand,
}

/// A running lab; its processes end and its links go when it is dropped.
#[derive(Debug)]
pub struct Lab {
    /// The far end of every load.
    pub peer: Endpoint,
    /// The other end of the baseline.
    pub second: Endpoint,
    /// Samples the host's counters.
    pub observer: Observer,
    switch: Box<dyn Switch>,
    kind: SwitchKind,
    near: NearEnd,
    socket: Socket,
    mtu: u32,
    interface: Option<String>,
    placement: Option<CorePlacement>,
    guests: u32,
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

/// A process in the sandbox's network namespace.
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
    #[error(transparent)]
    ShapedLink(#[from] ShapedLinkError),
    /// There is nothing that could be held to a rate.
    #[error(
        "testbed.rate: the switch `{0}` has no port for the peer that could be held to a rate: leave the rate out"
    )]
    NoPort(SwitchKind),
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
        let mut socket = Socket::open()?;
        let mut switch = switch::open(spec.switch, spec.near);
        let (mtu, interface) = (spec.mtu, spec.interface.as_deref());
        let mut site = Site { sandbox, socket: &mut socket, mtu, interface };
        match Self::assemble(spec, &mut *switch, &mut site) {
            Ok((peer, second, observer)) => {
                let LabSpec { switch: kind, near, mtu, .. } = *spec;
                let placement = spec.placement.clone();
                let guests = 0;
                Ok(Self {
                    peer,
                    second,
                    observer,
                    switch,
                    kind,
                    near,
                    socket,
                    mtu,
                    interface: spec.interface.clone(),
                    placement,
                    guests,
                })
            }
            Err(error) => {
                // The first error is the one to tell; the namespace takes what is left.
                let _ = switch.tear_down(&mut socket);
                Err(error)
            }
        }
    }

    fn assemble(
        spec: &LabSpec,
        switch: &mut dyn Switch,
        site: &mut Site<'_>,
    ) -> Result<(Endpoint, Endpoint, Observer), LabError> {
        switch.set_up(site)?;
        let mut endpoint = |part: Part, command: &ProcessCommand, number: u8| {
            let name = part.name();
            let (process, channel) =
                namespace::spawn(site.sandbox, name, command, Place::OwnNamespace)?;
            let mac = mac_of(Kind::Endpoint, u32::from(number));
            let (pid, interface) = (process.pid(), ENDPOINT_INTERFACE);
            let port =
                switch.connect_namespace(site, NamespaceEnd { part, pid, interface, mac })?;
            let interface = interface.to_owned();
            Ok::<_, LabError>(Endpoint { process, channel, interface, mac, port })
        };
        let peer = endpoint(Part::Peer, &spec.peer, 1)?;
        let second = endpoint(Part::Second, &spec.second, 2)?;
        if let Some(CorePlacement { near, others }) = &spec.placement {
            for (endpoint, cores) in [(&peer, others), (&second, near)] {
                let process = &endpoint.process;
                placement::place_process(process.name(), process.pid(), cores)?;
            }
            for (name, pid) in switch.processes() {
                placement::place_process(&name, pid, others)?;
            }
        }
        if let Some(rate) = spec.rate {
            let there = NamespaceRef::Pid(peer.process.pid());
            let port = peer.port.as_ref().ok_or(LabError::NoPort(spec.switch))?;
            shaped_link::shape(site.socket, port, there, &peer.interface, rate)?;
        }
        let (process, channel) =
            namespace::spawn(site.sandbox, "observer", &spec.observer, Place::Sandbox)?;
        Ok((peer, second, Observer { process, channel }))
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

    /// Starts a guest with a NIC on the switch. When this returns the NIC is plugged, its backend is
    /// the one that was asked for, the switch has it, and the guest runs; that its driver has bound and its
    /// carrier is up is the agent's to say.
    ///
    /// # Errors
    /// [`LabError`]; nothing of the guest is left then.
    pub fn start_guest(
        &mut self,
        sandbox: &Sandbox,
        source: GuestSource<'_>,
        nic: &NicSpec,
    ) -> Result<Guest, LabError> {
        let number = self.guests;
        self.guests = self.guests.wrapping_add(1);
        let mac = mac_of(Kind::Guest, number);
        let end = GuestEnd {
            number,
            mac,
            queues: nic.queues,
            addresses: &nic.addresses,
            prefix_length: nic.prefix_length,
        };
        let interface = self.interface.as_deref();
        let mut site = Site { sandbox, socket: &mut self.socket, mtu: self.mtu, interface };
        let wire = self.switch.connect_guest(&mut site, &end)?;
        let mut guest = guest::start(source, nic, wire, mac)?;
        let path = self.switch.verify(&mut site, guest.wire())?;
        guest.set_path(path);
        if let Some(placement) = &self.placement {
            let virtual_cpus = guest.virtual_cpu_threads()?;
            placement::place_guest(guest.qemu_pid(), &virtual_cpus, placement)?;
            for (name, pid) in self.switch.processes().into_iter().chain(guest.processes()) {
                placement::place_process(&name, pid, &placement.others)?;
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
        match self.port_of(guest)? {
            Some(port) => Ok(self.socket.set_down(port)?),
            None => Ok(()),
        }
    }

    /// Lets a guest that rests go on. Its clock is late by the time of its rest.
    ///
    /// # Errors
    /// [`LabError`]; the guest is of no use then.
    pub fn wake_guest(&mut self, guest: &mut Guest) -> Result<(), LabError> {
        if let Some(port) = self.port_of(guest)? {
            self.socket.set_up(port)?;
        }
        Ok(guest.go_on()?)
    }

    /// The index of the interface that a guest's NIC is on; a backend without one has none.
    fn port_of(&mut self, guest: &Guest) -> Result<Option<u32>, NetlinkError> {
        let links = self.socket.links()?;
        Ok(links.iter().find(|link| link.name == guest.wire()).map(|link| link.index))
    }

    /// Which cores its threads are held to, if they are.
    #[must_use]
    pub fn placement(&self) -> Option<&CorePlacement> {
        self.placement.as_ref()
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
    }
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
