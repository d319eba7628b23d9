//! Linux's own bridge. Its ports forward at once: without spanning tree there is no forward delay.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use vioperf_model::scenario::SwitchKind;
use vioperf_netlink::{NetlinkError, Socket, VethEnd};

use super::{FarEnd, Switch, SwitchError};
use crate::tap::Tap;

const NAME: &str = "vioperf0";

/// A bridge named `vioperf0`; the name is free, the namespace is our own.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    index: Option<u32>,
    ports: Vec<String>,
}

impl Switch for Bridge {
    fn validate(&mut self, socket: &mut Socket) -> Result<(), SwitchError> {
        // The one sure way to ask: make one in the sandbox and take it away again.
        match socket.create_bridge(NAME) {
            Ok(()) => {
                let index = socket.link_by_name(NAME)?.index;
                Ok(socket.delete(index)?)
            }
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Err(SwitchError::Missing {
                kind: SwitchKind::Bridge,
                what: "the kernel's bridge".to_owned(),
                advice: "`modprobe bridge` as root".to_owned(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    fn set_up(&mut self, socket: &mut Socket, mtu: u32) -> Result<(), SwitchError> {
        socket.create_bridge(NAME)?;
        let index = socket.link_by_name(NAME)?.index;
        self.index = Some(index);
        silence(NAME);
        socket.set_mtu(index, mtu)?;
        Ok(socket.set_up(index)?)
    }

    fn attach_veth(
        &mut self,
        socket: &mut Socket,
        port: &str,
        far: FarEnd<'_>,
        mtu: u32,
    ) -> Result<(), SwitchError> {
        let near = VethEnd { mtu: Some(mtu), ..VethEnd::new(port) };
        let there = VethEnd {
            name: far.name,
            mac: Some(far.mac),
            mtu: Some(mtu),
            namespace: Some(far.namespace),
        };
        socket.create_veth(&near, &there)?;
        self.attach(socket, port, None)
    }

    fn attach_tap(&mut self, socket: &mut Socket, tap: &Tap, mtu: u32) -> Result<(), SwitchError> {
        self.attach(socket, &tap.name, Some(mtu))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let mut errors = Vec::new();
        for name in self.ports.drain(..) {
            // A tap goes with its guest and a veth with its endpoint: gone already is fine.
            match socket.link_by_name(&name).and_then(|link| socket.delete(link.index)) {
                Ok(()) | Err(NetlinkError::NoSuchLink { .. }) => {}
                Err(error) => errors.push(error.into()),
            }
        }
        if let Some(index) = self.index.take()
            && let Err(error) = socket.delete(index)
        {
            errors.push(error.into());
        }
        errors
    }
}

impl Bridge {
    fn attach(
        &mut self,
        socket: &mut Socket,
        port: &str,
        mtu: Option<u32>,
    ) -> Result<(), SwitchError> {
        let index = socket.link_by_name(port)?.index;
        if !self.ports.iter().any(|known| known == port) {
            self.ports.push(port.to_owned());
        }
        silence(port);
        if let Some(mtu) = mtu {
            socket.set_mtu(index, mtu)?;
        }
        socket.set_master(index, self.index)?;
        Ok(socket.set_up(index)?)
    }
}

/// Keeps the kernel from sending IPv6's own packets (router solicitations, multicast reports) out of
/// a port, where they would be counted among the load's. Ports carry IPv6 all the same; a kernel
/// without IPv6 has nothing to silence.
fn silence(interface: &str) {
    let settings = Path::new("/proc/sys/net/ipv6/conf").join(interface);
    let _ = fs::write(settings.join("disable_ipv6"), "1");
}
