//! A receiver of datagrams before and after its load: its sockets, and who answers on them.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use vioperf_model::sample::SocketBuffers;
use vioperf_model::workload::{Receivers, Workload};

use super::hello::Guests;
use super::{Shape, sockets};
use crate::load::socket_options::{SocketOptions, smallest_buffers};
use crate::load::{LoadControl, LoadError};

/// A receiver's sockets, and who answers on them.
pub(super) struct Listening {
    pub(super) sockets: Arc<Vec<UdpSocket>>,
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

/// Opens the sockets of so many threads; each flow that shows up is answered from now on.
pub(super) fn listen(
    address: SocketAddr,
    workload: &Workload,
    shape: &Shape,
    threads: usize,
    control: &Arc<LoadControl>,
) -> Result<(Listening, u16), LoadError> {
    let options = SocketOptions::of(workload);
    let many = shape.receivers == Receivers::Reuseport;
    let mut address = address;
    let mut sockets = Vec::new();
    let mut buffer_bytes = usize::MAX;
    for _ in 0..if many { threads } else { 1 } {
        let socket = sockets::receiving(address, many)?;
        let given = sockets::set_on_receiver(&socket, &options)?;
        buffer_bytes = buffer_bytes.min(given);
        if shape.segmentation {
            sockets::join_segments(&socket)?;
        }
        if shape.stamps {
            sockets::stamp_arrivals(&socket)?;
        }
        // The port is the kernel's choice; all further sockets share it.
        let local = socket.local_addr().map_err(LoadError::system("ask for a socket's port"))?;
        address.set_port(local.port());
        sockets.push(socket);
    }
    let mut listening = Listening {
        sockets: Arc::new(sockets),
        buffer_bytes,
        guests: Arc::new(Guests::new(workload.streams)?),
        threads,
        answering: None,
        drops_before: None,
    };
    listening.answer_in_background(control)?;
    Ok((listening, address.port()))
}

impl Listening {
    fn answer_in_background(&mut self, control: &Arc<LoadControl>) -> Result<(), LoadError> {
        let (guests, sockets) = (self.guests.clone(), self.sockets.clone());
        let control = control.clone();
        let thread = std::thread::Builder::new()
            .name("answer".to_owned())
            .spawn(move || guests.welcome(&sockets, control.wake()))
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
        smallest_buffers(self.sockets.iter().map(AsFd::as_fd))
    }

    /// Datagrams that there was no room for, in all sockets together.
    fn drops(&self) -> Option<u64> {
        let each = self.sockets.iter().map(|socket| sockets::drops(socket.as_fd()));
        each.map(|drops| drops.map(u64::from)).sum()
    }
}
