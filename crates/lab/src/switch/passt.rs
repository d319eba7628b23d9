//! passt: no switch and no tap. A program without privileges ends the guest's connections and makes sockets of
//! its own for them. It stands in the second namespace, which is the host here: a wire goes from there to the
//! peer, and the baseline is that host's own path. The guest's addresses are added to those of that namespace,
//! so that the peer reaches them, and a range of ports is forwarded, which the guest's ends keep to.
//!
//! Source: passt(1).

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::behind_host::{BehindHost, nobody_beside};
use super::lack::{self, find_program};
use super::{
    Backend, Backing, GuestEnd, Held, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError,
    Wire,
};
use crate::namespace::{Service, serve};

pub(super) const ROW: Row = Row {
    name: "passt",
    lacks: |root, _| lack::programs(root, &[PROGRAM], INSTALL),
    backing: Backing::Stream,
    // Two could not listen to the same ports, though one of their guests rests.
    near_ends: NearEnds::Either,
    room: Room::ONE_GUEST,
    open: |_| Box::new(Passt { host: BehindHost::of(ROW.name) }),
};

const PROGRAM: &str = "passt";
const INSTALL: &str = "Debian, Ubuntu, Fedora: install the package `passt`";

/// Below those that Linux gives to connections by itself, so that passt's own do not meet them; a socket is
/// opened for each, for TCP and for UDP.
const PORTS: std::ops::RangeInclusive<u16> = 28_672..=32_767;

/// A wire, and the namespace where passt stands.
#[derive(Debug)]
struct Passt {
    host: BehindHost,
}

impl Switch for Passt {
    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        self.host.connect(site, &end)
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let failed = |what: &str| SwitchError::Program { switch: ROW.name, what: what.to_owned() };
        let (pid, interface) = self.host.take_addresses(guest)?;
        let step = "make a socket for passt";
        let pair = UnixStream::pair().map_err(|source| SwitchError::Io { step, source })?;
        let (ours, theirs) = (OwnedFd::from(pair.0), OwnedFd::from(pair.1));
        let program = find_program(Path::new("/"), PROGRAM);
        let service = Service {
            name: PROGRAM,
            program: program.ok_or_else(|| failed(INSTALL))?.into(),
            arguments: arguments(&theirs, interface, site.mtu, guest).map(Into::into).collect(),
            inherited: vec![theirs.as_raw_fd()],
            beside: Some(pid),
            ..Service::default()
        };
        let held = Held::of_process(PROGRAM, serve(site.sandbox, service)?);
        let wire = Wire::without_port(PROGRAM.to_owned(), Backend::Stream(ours));
        Ok(Wire { ports: Some(PORTS), held, ..wire })
    }

    fn verify(&mut self, _: &mut Site<'_>, _: &str) -> Result<String, SwitchError> {
        let mut ask = Command::new(find_program(Path::new("/"), PROGRAM).unwrap_or_default());
        let output = ask.arg("--version").stdin(Stdio::null()).output();
        let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let said = said.unwrap_or_default();
        let version = said.lines().next().unwrap_or_default().trim_start_matches(PROGRAM).trim();
        Ok(format!("a socket to passt {version} in the second namespace"))
    }
}

fn arguments(
    socket: &OwnedFd,
    interface: &str,
    mtu: u32,
    guest: &GuestEnd<'_>,
) -> impl Iterator<Item = String> {
    // Bound to the address, so that answers to datagrams come from it.
    let first = guest.addresses.first();
    let at = first.map(|address| format!("{address}/")).unwrap_or_default();
    let ports = format!("{at}{}-{}", PORTS.start(), PORTS.end());
    let pairs = [
        ("--fd", socket.as_raw_fd().to_string()),
        ("--interface", interface.to_owned()),
        ("--mtu", mtu.to_string()),
        ("--tcp-ports", ports.clone()),
        ("--udp-ports", ports),
        // It would become nobody, who may not be had in a user namespace; here is nothing to lose.
        ("--runas", "0".to_owned()),
    ];
    let addresses = first.map(|&own| {
        // It wants a gateway where there is no route, and has no use for one.
        let mut pairs = vec![
            ("--address", own.to_string()),
            ("--gateway", nobody_beside(own, 254).to_string()),
        ];
        let netmask = ("--netmask", guest.prefix_length.to_string());
        pairs.extend(own.is_ipv4().then_some(netmask));
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value])
    });
    // The guest is told nothing: its agent gives it address, MTU and routes.
    let flags = [
        "--foreground",
        "--stderr",
        "--no-map-gw",
        "--no-dhcp",
        "--no-dhcpv6",
        "--no-ndp",
        "--no-ra",
    ];
    let pairs = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    flags.map(str::to_owned).into_iter().chain(pairs).chain(addresses.into_iter().flatten())
}
