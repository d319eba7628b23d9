//! Linux's own bridge. Its ports forward at once: without spanning tree there is no forward delay.

use vioperf_netlink::Socket;

use super::{
    Backing, GuestEnd, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError, Wire, lack,
    ports,
};

pub(super) const ROW: Row = Row {
    name: "bridge",
    lacks: |_, _| {
        lack::kernel(|socket| socket.create_bridge(NAME), "bridge", "`sudo modprobe bridge`")
    },
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    room: Room::LINUX_BRIDGE,
    open: |_| Box::new(Bridge::default()),
};

pub(super) const NAME: &str = "vioperf0";

/// The bridge between a guest that forwards and the far end.
pub(super) const FAR_NAME: &str = "vioperf1";

/// A bridge named `vioperf0`; the name is free, the namespace is our own.
#[derive(Debug)]
pub(super) struct Bridge {
    name: &'static str,
    index: Option<u32>,
    ports: Vec<String>,
}

impl Default for Bridge {
    fn default() -> Self {
        Self { name: NAME, index: None, ports: Vec::new() }
    }
}

impl Switch for Bridge {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        site.socket.create_bridge(self.name)?;
        self.adopt(site)
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let port = ports::veth(site, &end)?;
        self.attach(site, &port)?;
        Ok(Some(port))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let wire = ports::tap(guest)?;
        self.attach(site, &wire.name)?;
        Ok(wire)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        let link = site.socket.link_by_name(wire)?;
        if link.master.is_none() || link.master != self.index {
            let what = format!("{wire} is no port of the bridge {}", self.name);
            return Err(SwitchError::NotInForce { switch: ROW.name, what });
        }
        Ok("a tap on a Linux bridge".to_owned())
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let mut errors = ports::delete(socket, self.ports.drain(..));
        if let Some(index) = self.index.take()
            && let Err(error) = socket.delete(index)
        {
            errors.push(error.into());
        }
        errors
    }
}

impl Bridge {
    /// The one behind a guest that forwards.
    pub(super) fn far() -> Self {
        Self { name: FAR_NAME, ..Self::default() }
    }

    /// Takes the bridge that was just created as its own and brings it up.
    pub(super) fn adopt(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let index = site.socket.link_by_name(self.name)?.index;
        self.index = Some(index);
        ports::silence(self.name);
        site.socket.set_mtu(index, site.mtu)?;
        Ok(site.socket.set_up(index)?)
    }

    /// Makes an interface a port and brings it up.
    pub(super) fn attach(&mut self, site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
        if !self.ports.iter().any(|known| known == port) {
            self.ports.push(port.to_owned());
        }
        let index = ports::prepare(site, port)?;
        site.socket.set_master(index, self.index)?;
        Ok(site.socket.set_up(index)?)
    }
}
