//! Two "machines" with something between them, and what is planted there.

use std::any::Any;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use vioperf_netlink::{Address, VethEnd};

use crate::delay_line::{DelayLine, tap};
use crate::namespace::Namespace;

/// The server's address. Those of RFC 2544's range for benchmarks.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 19, 1, 1);
/// The client's.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
/// Length of a prefix that both have.
const ONE_NETWORK: u8 = 15;
/// What each end's interface is called.
pub const WIRE: &str = "wire";

/// What is between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middle {
    /// A wire.
    Wire,
    /// A router, which neither end can look into. Its interfaces are `client` and `server`.
    Router,
    /// Each end's interface is a tap; who reads both stands still for so long between two looks.
    Taps {
        /// How long.
        pause: Duration,
    },
    /// A wire on which every frame takes so long, and one of so many is lost (none where 0).
    Slow {
        /// How long it takes each way.
        delay: Duration,
        /// One of so many is lost.
        one_lost_of: u32,
    },
}

/// The two machines, what is between them, and what was planted. Nothing of it outlives this value.
pub struct Testbed {
    /// Where `vioperf test` runs.
    pub client: Namespace,
    /// Where `vioperf serve` runs.
    pub server: Namespace,
    /// What is between them; absent where that is a wire.
    pub middle: Option<Namespace>,
    /// Whether the server's node is stopped most of the time.
    pub stops_receiver: bool,
    /// Goes with the testbed, the last first.
    kept: Vec<Box<dyn Any>>,
    /// Where the client's processes are put.
    client_group: Option<File>,
    /// Where the server's are.
    server_group: Option<File>,
}

/// One of the two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where `vioperf test` runs.
    Client,
    /// Where `vioperf serve` runs.
    Server,
}

impl Testbed {
    /// Makes one.
    ///
    /// # Errors
    /// Where the kernel refuses: this takes root.
    pub fn new(middle: Middle) -> Result<Self> {
        let mut testbed = Self {
            client: Namespace::new()?,
            server: Namespace::new()?,
            middle: None,
            stops_receiver: false,
            kept: Vec::new(),
            client_group: None,
            server_group: None,
        };
        match middle {
            Middle::Wire => {
                connect((&testbed.client, WIRE), (&testbed.server, WIRE))?;
                address(&testbed.client, WIRE, CLIENT, ONE_NETWORK)?;
                address(&testbed.server, WIRE, SERVER, ONE_NETWORK)?;
            }
            Middle::Taps { pause } => {
                let line = testbed.with_taps(pause)?;
                testbed.kept.push(Box::new(line));
            }
            Middle::Router => testbed.middle = Some(testbed.with_router()?),
            Middle::Slow { delay, one_lost_of } => {
                let (middle, line) = testbed.with_delay(delay, one_lost_of)?;
                testbed.kept.push(Box::new(line));
                testbed.middle = Some(middle);
            }
        }
        Ok(testbed)
    }

    fn with_router(&self) -> Result<Namespace> {
        let router = Namespace::new()?;
        for (end, own, name, gateway) in [
            (&self.client, CLIENT, "client", Ipv4Addr::new(198, 18, 1, 254)),
            (&self.server, SERVER, "server", Ipv4Addr::new(198, 19, 1, 254)),
        ] {
            connect((end, WIRE), (&router, name))?;
            address(end, WIRE, own, 24)?;
            address(&router, name, gateway, 24)?;
            end.tell("ip", &format!("route add default via {gateway}"))?;
        }
        router.set("net.ipv4.ip_forward", "1")?;
        Ok(router)
    }

    fn with_taps(&self, pause: Duration) -> Result<DelayLine> {
        let mut taps = Vec::new();
        for (end, own) in [(&self.client, CLIENT), (&self.server, SERVER)] {
            taps.push(end.inside(|| tap(WIRE))?);
            address(end, WIRE, own, ONE_NETWORK)?;
        }
        let taps = <[File; 2]>::try_from(taps).ok().context("two taps were to be made")?;
        DelayLine::start(taps, Duration::ZERO, 0, pause)
    }

    fn with_delay(&self, delay: Duration, one_lost_of: u32) -> Result<(Namespace, DelayLine)> {
        let middle = Namespace::new()?;
        let mut taps = Vec::new();
        for (end, own, name) in [(&self.client, CLIENT, "client"), (&self.server, SERVER, "server")]
        {
            connect((end, WIRE), (&middle, name))?;
            address(end, WIRE, own, ONE_NETWORK)?;
            let (tap_name, bridge) = (format!("{name}-tap"), format!("{name}-br"));
            taps.push(middle.inside(|| tap(&tap_name))?);
            let mut socket = middle.netlink()?;
            socket.create_bridge(&bridge)?;
            let bridge = socket.link_by_name(&bridge)?.index;
            for port in [name, &tap_name] {
                let port = socket.link_by_name(port)?.index;
                socket.set_master(port, Some(bridge))?;
                socket.set_up(port)?;
            }
            socket.set_up(bridge)?;
        }
        let taps = <[File; 2]>::try_from(taps).ok().context("two taps were to be made")?;
        Ok((middle, DelayLine::start(taps, delay, one_lost_of, Duration::ZERO)?))
    }

    /// One of the machines.
    #[must_use]
    pub fn end(&self, end: End) -> &Namespace {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    /// What is between the machines.
    ///
    /// # Errors
    /// Where there is nothing.
    pub fn between(&self) -> Result<&Namespace> {
        self.middle.as_ref().context("there is nothing between the machines")
    }

    /// Keeps something until the testbed goes.
    pub fn keep(&mut self, thing: impl Any) {
        self.kept.push(Box::new(thing));
    }

    /// The processes of an end are to be put into a control group: a file `cgroup.procs`.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn put_into(&mut self, end: End, group: &Path) -> Result<()> {
        let path = group.join("cgroup.procs");
        let file = File::options().write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match end {
            End::Client => self.client_group = Some(file),
            End::Server => self.server_group = Some(file),
        }
        Ok(())
    }

    /// Where the processes of an end are put.
    #[must_use]
    pub fn group(&self, end: End) -> Option<&File> {
        match end {
            End::Client => self.client_group.as_ref(),
            End::Server => self.server_group.as_ref(),
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        while let Some(thing) = self.kept.pop() {
            drop(thing);
        }
    }
}

fn connect((one, name): (&Namespace, &str), (other, peer): (&Namespace, &str)) -> Result<()> {
    let end = VethEnd { namespace: Some(one.reference()), ..VethEnd::new(name) };
    let peer = VethEnd { namespace: Some(other.reference()), ..VethEnd::new(peer) };
    // From an end's own namespace: the machine's never sees the pair.
    Ok(one.netlink()?.create_veth(&end, &peer)?)
}

fn address(at: &Namespace, interface: &str, own: Ipv4Addr, prefix_length: u8) -> Result<()> {
    let mut socket = at.netlink()?;
    let index = socket.link_by_name(interface)?.index;
    socket.add_address(index, Address { address: IpAddr::V4(own), prefix_length })?;
    Ok(socket.set_up(index)?)
}
