//! A receiver of datagrams before and after its load: its sockets, and who answers on them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use vioperf_model::sample::SocketBuffers;
use vioperf_model::workload::{Receivers, Workload};

use super::hello::Guests;
use super::spread::Places;
use super::{Shape, sockets};
use crate::load::socket_options::{SocketOptions, drops, smallest_buffers};
use crate::load::{LoadControl, LoadError};

/// A receiver's sockets, and who answers on them.
pub(super) struct Listening {
    pub(super) sockets: Arc<Sockets>,
    pub(super) buffer_bytes: usize,
    pub(super) guests: Arc<Guests>,
    pub(super) threads: usize,
    answering: Option<JoinHandle<()>>,
    drops_before: Option<u64>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

/// How often so many ports in a row are looked for.
const PORT_TRIES: usize = 16;

/// Opens the sockets of so many threads; each flow that shows up is answered from now on. Gives the
/// first port.
pub(super) fn listen(
    places: &Places,
    workload: &Workload,
    shape: &Shape,
    threads: usize,
    control: &Arc<LoadControl>,
) -> Result<(Listening, u16), LoadError> {
    let options = SocketOptions::of(workload);
    let mut tries = 0;
    let (sockets, port) = loop {
        tries += 1;
        match bind_all(places, shape, threads) {
            // The first port is the kernel's choice, and another's may follow.
            Err(LoadError::Listen { source, .. })
                if places.ports > 1
                    && source.kind() == ErrorKind::AddrInUse
                    && tries < PORT_TRIES => {}
            other => break other?,
        }
    };
    let mut buffer_bytes = usize::MAX;
    for socket in &sockets {
        buffer_bytes = buffer_bytes.min(sockets::set_on_receiver(socket, &options)?);
        if shape.segmentation {
            sockets::join_segments(socket)?;
        }
        if shape.stamps {
            sockets::stamp_arrivals(socket)?;
        }
    }
    let mut listening = Listening {
        sockets: Arc::new(Sockets { sockets, of_each_place: of_each_place(shape, threads) }),
        buffer_bytes,
        guests: Arc::new(Guests::new(workload.streams)?),
        threads,
        answering: None,
        drops_before: None,
    };
    listening.answer_in_background(control)?;
    Ok((listening, port))
}

/// A receiver's sockets: those of one address and port lie together.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) sockets: Vec<UdpSocket>,
    of_each_place: usize,
}

/// Those that a thread reads: one of each address and port.
pub(super) fn of_thread(sockets: &Sockets, thread: usize) -> Vec<&UdpSocket> {
    let places = sockets.sockets.chunks(sockets.of_each_place);
    places.filter_map(|place| place.get(thread % place.len())).collect()
}

/// Sockets that share an address and a port.
fn of_each_place(shape: &Shape, threads: usize) -> usize {
    if shape.receivers == Receivers::Reuseport { threads.max(1) } else { 1 }
}

fn bind_all(
    places: &Places,
    shape: &Shape,
    threads: usize,
) -> Result<(Vec<UdpSocket>, u16), LoadError> {
    let of_each = of_each_place(shape, threads);
    let many = shape.receivers == Receivers::Reuseport;
    let mut first: u16 = 0;
    let mut sockets = Vec::new();
    for number in 0..places.ports {
        for address in &places.addresses {
            for _ in 0..of_each {
                // The first port is the kernel's choice; all further sockets go by it.
                let port = if first == 0 { 0 } else { first.saturating_add(number) };
                let socket = sockets::receiving(SocketAddr::new(*address, port), many)?;
                let local = socket.local_addr();
                let local = local.map_err(LoadError::system("ask for a socket's port"))?;
                if first == 0 {
                    first = local.port();
                }
                sockets.push(socket);
            }
        }
    }
    Ok((sockets, first))
}

impl Listening {
    fn answer_in_background(&mut self, control: &Arc<LoadControl>) -> Result<(), LoadError> {
        let (guests, sockets) = (self.guests.clone(), self.sockets.clone());
        let control = control.clone();
        let thread = std::thread::Builder::new()
            .name("answer".to_owned())
            .spawn(move || guests.welcome(&sockets.sockets, control.wake()))
            .map_err(LoadError::system("create a thread"))?;
        self.answering = Some(thread);
        Ok(())
    }

    fn stop_answering(&mut self) {
        self.guests.close_door();
        if let Some(thread) = self.answering.take() {
            drop(thread.join());
        }
    }

    /// Remembers what was dropped before the load begins.
    pub(super) fn begin(&mut self) {
        self.stop_answering();
        self.drops_before = self.drops();
    }

    /// Datagrams that there was no room for since the load began.
    pub(super) fn drops_of_load(&self) -> Option<u64> {
        let drops = self.drops().zip(self.drops_before);
        drops.map(|(now, before)| now.saturating_sub(before))
    }

    /// What the kernel gave as buffers.
    pub(super) fn buffers(&self) -> Option<SocketBuffers> {
        smallest_buffers(self.sockets.sockets.iter().map(AsFd::as_fd))
    }

    /// Datagrams that there was no room for, in all sockets together.
    fn drops(&self) -> Option<u64> {
        let each = self.sockets.sockets.iter().map(|socket| drops(socket.as_fd()));
        each.map(|drops| drops.map(u64::from)).sum()
    }
}
