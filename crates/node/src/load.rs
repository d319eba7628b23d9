//! The loads: what they have in common, and the table that finds one by its kind.

mod connect_rate;
mod connections;
mod control;
mod datagram;
mod disk;
mod histogram;
mod packet_rate;
mod request_response;
mod schedule;
mod socket_options;
mod tcp_info;
mod tcp_stream;
mod threads;
mod udp_stream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vioperf_model::sample::LoadOutcome;
use vioperf_model::units::ByteSize;
use vioperf_model::wire::{Prepare, Role};
use vioperf_model::workload::WorkloadKind;

pub(crate) use control::LoadControl;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use udp_stream::hear_anything;

/// One node's part in a load. Made ready by its constructor; dropping it stops and closes everything.
pub(crate) trait Load {
    /// Where a receiver listens.
    fn port(&self) -> Option<u16>;

    /// Its counters, and the means to stop it from any thread.
    fn control(&self) -> &Arc<LoadControl>;

    /// Waits, bounded, until everything stands that the peer has to establish.
    fn await_peer(&mut self) -> Result<(), LoadError>;

    /// Sets it going.
    fn begin(&mut self) -> Result<(), LoadError>;

    /// Ends it, if it did not by itself, and says how it went.
    fn end(&mut self) -> LoadOutcome;
}

/// Makes the load ready that a workload asks for.
pub(crate) fn prepare(part: &Prepare) -> Result<Box<dyn Load>, LoadError> {
    let Prepare { role, workload, spread, .. } = part;
    if (*role == Role::Disk) != (workload.kind == WorkloadKind::Disk) {
        return Err(LoadError::Parameter {
            what: "role",
            value: format!("{role:?}").to_lowercase(),
            advice: format!("a disk has one end, and {} is another load", workload.kind.name()),
        });
    }
    match workload.kind {
        WorkloadKind::Disk if workload.is_by_fio() => {
            let disk = part.disk.as_deref();
            Ok(Box::new(disk::Fio::prepare(role, workload, disk, part.deadline)?))
        }
        WorkloadKind::Disk => {
            Ok(Box::new(disk::Disk::prepare(role, workload, part.disk.as_deref())?))
        }
        WorkloadKind::TcpStream => {
            Ok(Box::new(tcp_stream::TcpStreams::prepare(role, workload, spread.greets)?))
        }
        WorkloadKind::RequestResponse => {
            Ok(Box::new(request_response::RequestResponse::prepare(role, workload, spread.greets)?))
        }
        WorkloadKind::ConnectRate => {
            Ok(Box::new(connect_rate::ConnectRate::prepare(role, workload)?))
        }
        WorkloadKind::UdpStream => {
            Ok(Box::new(udp_stream::UdpStreams::prepare(role, workload, spread)?))
        }
        WorkloadKind::PacketRate => {
            Ok(Box::new(packet_rate::PacketRate::prepare(role, workload, spread)?))
        }
        WorkloadKind::RateSearch => Err(LoadError::Parameter {
            what: "kind",
            value: workload.kind.name().to_owned(),
            advice: "a search is made of many loads of packet-rate: ask for those".to_owned(),
        }),
    }
}

/// Why a load could not be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("{what} cannot be {value}: {advice}")]
    Parameter { what: &'static str, value: String, advice: String },
    #[error("cannot listen on {address}: {source}; is that an address of this machine?")]
    Listen { address: IpAddr, source: io::Error },
    #[error(
        "cannot connect stream {number} of {streams} to {peer}: {source}; \
         is the receiver ready, and does every firewall on the way let this port through?"
    )]
    Connect { peer: SocketAddr, number: usize, streams: usize, source: io::Error },
    #[error(
        "{arrived} of {streams} connections arrived within {waited:?}: did the sender prepare, with \
         the same number of streams?"
    )]
    Missing { arrived: usize, streams: usize, waited: Duration },
    #[error(
        "{arrived} of {streams} flows were heard of within {waited:?}: did the sender prepare, with \
         the same number of streams?"
    )]
    MissingFlows { arrived: usize, streams: usize, waited: Duration },
    #[error(
        "nobody at {peer} answers for flow {number} of {streams}: {source}; is the receiver ready, \
         for as many streams, and does every firewall on the way let this UDP port through?"
    )]
    NoAnswer { peer: SocketAddr, number: usize, streams: usize, source: io::Error },
    #[error(
        "the kernel refuses the socket option {option}: {source}; do without it, or use a newer kernel"
    )]
    Refused { option: &'static str, source: io::Error },
    #[error("the kernel refuses {option} = {value}: {source}; {advice}")]
    Option { option: &'static str, value: String, source: io::Error, advice: &'static str },
    #[error("cannot accept connection {number} of {streams}: {source}")]
    Accept { number: usize, streams: usize, source: io::Error },
    #[error(
        "{option} of {asked} was asked for, the kernel allows {given}: raise sysctl {sysctl} to at \
         least {}", .asked.as_bytes()
    )]
    SocketBuffer { option: &'static str, asked: ByteSize, given: ByteSize, sysctl: &'static str },
    #[error("disk {}: {why}", path.display())]
    Disk { path: PathBuf, why: String },
    #[error("cannot {step}: {source}{}", limit_hint(source))]
    System { step: &'static str, source: io::Error },
}

impl LoadError {
    /// For `map_err`: a system call that has no peer or address to name.
    fn system<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { step, source: source.into() }
    }

    /// For `map_err`: the kernel does not take an option.
    fn refused<E: Into<io::Error>>(option: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Refused { option, source: source.into() }
    }
}

fn limit_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "; ask for fewer streams or raise the limit of open files (ulimit -n)"
        }
        Some(libc::EAGAIN) => "; ask for fewer streams or raise the limit of processes (ulimit -u)",
        _ => "",
    }
}
