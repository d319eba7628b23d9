//! Where contests are held: two network namespaces and a veth pair between them.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};
use vioperf_netlink::{Address, NamespaceRef, Socket, VethEnd};

/// The clients' end: an address of RFC 2544's range for benchmarks.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
/// The servers' end.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);

/// The two namespaces; they end with their last descriptor and process.
pub struct Arena {
    client: File,
    server: File,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Arena {
    /// Makes the namespaces, connects them and gives them their addresses. Offloads, MTU and queues
    /// stay as the kernel makes them.
    pub fn build() -> Result<Self> {
        let arena = Self { client: namespace()?, server: namespace()? };
        let end = |name, file: &'_ File| -> Result<()> {
            let namespace =
                file.try_clone().context("cannot duplicate a namespace's descriptor")?;
            in_namespace(namespace, move || bring_up(name))?
        };
        Socket::open()?.create_veth(
            &VethEnd {
                namespace: Some(NamespaceRef::Fd(arena.client.as_fd())),
                ..VethEnd::new("client0")
            },
            &VethEnd {
                namespace: Some(NamespaceRef::Fd(arena.server.as_fd())),
                ..VethEnd::new("server0")
            },
        )?;
        end(("client0", CLIENT), &arena.client)?;
        end(("server0", SERVER), &arena.server)?;
        Ok(arena)
    }

    /// The descriptor by which a process enters that side.
    pub fn descriptor(&self, side: Side) -> RawFd {
        match side {
            Side::Client => self.client.as_raw_fd(),
            Side::Server => self.server.as_raw_fd(),
        }
    }
}

/// A new network namespace with its loopback up.
fn namespace() -> Result<File> {
    let made = std::thread::spawn(|| -> Result<File> {
        unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
        let mut socket = Socket::open()?;
        let loopback = socket.link_by_name("lo")?.index;
        socket.set_up(loopback)?;
        File::open("/proc/thread-self/ns/net").context("cannot open the new network namespace")
    });
    made.join().map_err(|_| anyhow!("the thread that makes a namespace panicked"))?
}

fn in_namespace<T: Send + 'static>(
    namespace: File,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let thread = std::thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")?;
        Ok(work())
    });
    thread.join().map_err(|_| anyhow!("a thread in a namespace panicked"))?
}

fn bring_up((name, address): (&str, Ipv4Addr)) -> Result<()> {
    let mut socket = Socket::open()?;
    let index = socket.link_by_name(name)?.index;
    socket.add_address(index, Address { address: IpAddr::V4(address), prefix_length: 24 })?;
    socket.set_up(index)?;
    Ok(())
}
