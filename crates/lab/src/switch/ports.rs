//! The ports that switches of several kinds have: one end of a veth pair, a tap.

use std::fs;
use std::path::Path;

use vioperf_netlink::{NetlinkError, Socket, VethEnd};

use super::{Backend, GuestEnd, NamespaceEnd, Site, SwitchError, Wire};
use crate::tap::Tap;

/// A veth pair to an endpoint's namespace; the near end, down, is called as the endpoint is.
pub(super) fn veth(site: &mut Site<'_>, end: &NamespaceEnd<'_>) -> Result<String, SwitchError> {
    let port = end.part.name();
    let near = VethEnd { mtu: Some(site.mtu), ..VethEnd::new(port) };
    site.socket.create_veth(&near, &far(site, end))?;
    Ok(port.to_owned())
}

/// The same with the near end up, in no bridge: its name and index.
pub(super) fn veth_up(
    site: &mut Site<'_>,
    end: &NamespaceEnd<'_>,
) -> Result<(String, u32), SwitchError> {
    let port = veth(site, end)?;
    let index = prepare(site, &port)?;
    site.socket.set_up(index)?;
    Ok((port, index))
}

/// The end of a veth pair in an endpoint's namespace.
pub(super) fn far<'a>(site: &Site<'_>, end: &NamespaceEnd<'a>) -> VethEnd<'a> {
    VethEnd {
        name: end.interface,
        mac: Some(end.mac),
        mtu: Some(site.mtu),
        namespace: Some(end.namespace()),
    }
}

/// A tap for a guest, down. It goes with its last descriptor.
pub(super) fn tap(guest: &GuestEnd<'_>) -> Result<Wire, SwitchError> {
    let Tap { name, queues } = Tap::create(&format!("tap{}", guest.number), guest.queues)?;
    Ok(Wire::of_port(name, Backend::Tap(queues)))
}

/// An interface made fit for a port: its index.
pub(super) fn prepare(site: &mut Site<'_>, port: &str) -> Result<u32, SwitchError> {
    let index = site.socket.link_by_name(port)?.index;
    silence(port);
    site.socket.set_mtu(index, site.mtu)?;
    Ok(index)
}

/// Keeps the kernel from sending IPv6's own packets (router solicitations, multicast reports) out of
/// a port, where they would be counted among the load's. Ports carry IPv6 all the same; a kernel
/// without IPv6 has nothing to silence.
pub(super) fn silence(interface: &str) {
    let settings = Path::new("/proc/sys/net/ipv6/conf").join(interface);
    let _ = fs::write(settings.join("disable_ipv6"), "1");
}

/// Deletes interfaces. A tap goes with its guest and a veth with its endpoint: gone already is fine.
pub(super) fn delete(socket: &mut Socket, names: impl Iterator<Item = String>) -> Vec<SwitchError> {
    let delete = |name: String| match socket
        .link_by_name(&name)
        .and_then(|link| socket.delete(link.index))
    {
        Ok(()) | Err(NetlinkError::NoSuchLink { .. }) => None,
        Err(error) => Some(error.into()),
    };
    names.filter_map(delete).collect()
}
