//! Operations by `pread` and `pwrite`, where the kernel has no io_uring: a thread for each that may be
//! under way. Every operation costs two switches of threads more than a ring.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::queue::{Ended, Order};
use crate::load::LoadError;
use crate::scheduling::normal_priority;

const STACK_BYTES: usize = 64 << 10;

/// The threads of one worker. They end when it is dropped, each after the operation that it is at: one
/// that never ends is not waited for.
pub(super) struct Helpers {
    orders: Vec<Sender<Order>>,
    ended: Receiver<Ended>,
}

impl Helpers {
    pub(super) fn start(file: &Arc<File>, depth: u16) -> Result<Self, LoadError> {
        let (tell, ended) = channel();
        let mut orders = Vec::new();
        for number in 0..depth {
            let (order, to_do) = channel();
            let (file, tell) = (file.clone(), tell.clone());
            std::thread::Builder::new()
                .name(format!("disk-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    normal_priority();
                    help(&file, &to_do, &tell);
                })
                .map_err(LoadError::system("create a thread"))?;
            orders.push(order);
        }
        Ok(Self { orders, ended })
    }

    pub(super) fn push(&mut self, order: Order) -> io::Result<()> {
        let helper = self.orders.get(order.number);
        helper
            .and_then(|helper| helper.send(order).ok())
            .ok_or_else(|| io::Error::other("a thread that reads and writes has ended"))
    }

    pub(super) fn wait(&mut self, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        match self.ended.recv_timeout(most) {
            Ok(one) => ended.push(one),
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the threads that read and write have ended"));
            }
        }
        ended.extend(self.ended.try_iter());
        Ok(())
    }
}

fn help(file: &File, to_do: &Receiver<Order>, tell: &Sender<Ended>) {
    for order in to_do {
        let Order { number, .. } = order;
        if tell.send(Ended { number, moved: carry_out(file, order) }).is_err() {
            return;
        }
    }
}

fn carry_out(file: &File, order: Order) -> Result<usize, i32> {
    let (fd, memory) = (file.as_raw_fd(), order.memory.as_ptr());
    let offset = libc::off64_t::try_from(order.operation.offset).map_err(|_| libc::EINVAL)?;
    let moved = if order.operation.writes {
        // SAFETY: so many bytes from there are mapped until the operation has ended, which is told
        // only after this.
        unsafe { libc::pwrite64(fd, memory.cast_const().cast(), order.bytes, offset) }
    } else {
        // SAFETY: as above, and writable; nobody else uses them meanwhile.
        unsafe { libc::pread64(fd, memory.cast(), order.bytes, offset) }
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
