//! TCP connections, each for one transaction: connect, request, response, close, over and over.
//!
//! Each stream is a thread that has one connection at a time. **The receiver closes first**, right
//! after its response, and the sender waits for that: so TIME_WAIT stays with the receiver, whose
//! port is always the same, and the sender's ports are free again at once. (netperf's TCP_CRR has its
//! client close its half first; the work is alike, the order is not.) Should the ports run out
//! nevertheless, that ends the stream with a word on what to do.
//!
//! Latency counts from before `connect` until the whole response was received.

mod serving;
mod visiting;

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use vioperf_model::sample::{LoadOutcome, StreamOutcome};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Transport, Workload};

use super::connections::{connect_all, listen, reset};
use super::histogram::export;
use super::request_response::{Sizes, stream_buffer};
use super::socket_options::{SocketOptions, smallest_buffers};
use super::threads::{Threads, join_all};
use super::{Load, LoadControl, LoadError};
use crate::clock::monotonic_ns;
use crate::open_files::allow_open_files;
use serving::{Hosts, Serving};
use visiting::{Visited, Visiting};

/// How long a sender tries to reach its receiver.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// This load at one end.
pub(crate) struct ConnectRate {
    control: Arc<LoadControl>,
    plan: Plan,
    threads: Threads,
    port: Option<u16>,
    stage: Stage,
}

/// What the threads of both sides need to know.
#[derive(Debug, Clone)]
struct Plan {
    streams: usize,
    sizes: Sizes,
    buffer_bytes: usize,
    warmup_ns: u64,
    socket_options: SocketOptions,
}

enum Stage {
    Ready {
        role: Role,
        listener: Option<Arc<TcpListener>>,
    },
    Visiting(Vec<JoinHandle<Visited>>),
    Serving {
        threads: Vec<JoinHandle<StreamOutcome>>,
        listener: Option<Arc<TcpListener>>,
    },
    /// The port stays open until the load is dropped: until then the sender is not refused.
    Ended {
        _listener: Option<Arc<TcpListener>>,
    },
}

impl ConnectRate {
    pub(crate) fn prepare(role: &Role, workload: &Workload) -> Result<Self, LoadError> {
        let streams = usize::from(workload.streams);
        let refused = |what, value: &str, advice: &str| {
            let (value, advice) = (value.to_owned(), advice.to_owned());
            LoadError::Parameter { what, value, advice }
        };
        if streams == 0 {
            return Err(refused("streams", "0", "at least 1 is needed"));
        }
        let sizes = Sizes::of(workload, Transport::Tcp)?;
        let warmup_ns = u64::try_from(workload.warmup.as_duration().as_nanos());
        let plan = Plan {
            streams,
            sizes,
            buffer_bytes: stream_buffer(sizes, streams),
            warmup_ns: warmup_ns.unwrap_or(u64::MAX),
            socket_options: SocketOptions::of(workload),
        };
        allow_open_files(streams);
        let control = Arc::new(LoadControl::new(streams)?.counting_transactions());
        let (port, listener) = match *role {
            Role::Sender { peer } => {
                // Only to know that somebody is there: it is taken back at once.
                let probes = connect_all(peer, 1, &plan.socket_options, CONNECT_WITHIN)?;
                probes.iter().for_each(|probe: &TcpStream| reset(probe));
                (None, None)
            }
            Role::Receiver { bind } => {
                // Accepted connections inherit all of it: that costs no system call a connection.
                let options = plan.socket_options.clone().without_delay();
                let (listener, port) = listen(bind, streams + 1, &options)?;
                serving::adopt(&listener)?;
                (Some(port), Some(Arc::new(listener)))
            }
            Role::Observer | Role::Disk => {
                return Err(refused("role", "observer", "it connects to nobody"));
            }
        };
        let threads = Threads::of(role, workload)?;
        Ok(Self { control, plan, threads, port, stage: Stage::Ready { role: *role, listener } })
    }

    fn spawn_all(
        &self,
        role: Role,
        listener: Option<&Arc<TcpListener>>,
    ) -> Result<Stage, LoadError> {
        let numbers = 0..self.plan.streams;
        if let Role::Sender { peer } = role {
            let measured_from_ns = monotonic_ns().saturating_add(self.plan.warmup_ns);
            let visiting = numbers.map(|number| {
                let plan = self.plan.clone();
                let stream = Visiting::new(number, peer, plan, measured_from_ns)?;
                self.threads.spawn(number, &self.control, move |control| stream.run(control))
            });
            return visiting.collect::<Result<_, _>>().map(Stage::Visiting);
        }
        let hosts = Arc::new(Hosts::default());
        let serving = numbers.flat_map(|number| {
            let listener = listener?.clone();
            let stream = Serving::new(number, listener, self.plan.clone(), hosts.clone());
            Some(self.threads.spawn(number, &self.control, move |control| stream.run(control)))
        });
        let threads = serving.collect::<Result<_, _>>()?;
        Ok(Stage::Serving { threads, listener: listener.cloned() })
    }
}

impl Load for ConnectRate {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    /// Connections are the load itself: none has to stand before it.
    fn await_peer(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        let Stage::Ready { role, listener } = &self.stage else { return Ok(()) };
        match self.spawn_all(*role, listener.as_ref()) {
            Ok(stage) => self.stage = stage,
            Err(error) => {
                // Those threads that there are end by themselves.
                self.control.stop();
                return Err(error);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let mut streams = vec![StreamOutcome::default(); self.plan.streams];
        let (mut latency, mut socket_buffers) = (None, None);
        match std::mem::replace(&mut self.stage, Stage::Ended { _listener: None }) {
            Stage::Visiting(threads) => {
                let all = join_all(threads, &self.control);
                latency = Some(export(all.iter().map(|one| &one.latencies)));
                for (place, one) in streams.iter_mut().zip(all) {
                    place.bytes = one.bytes;
                }
            }
            Stage::Serving { threads, listener } => {
                for (place, one) in streams.iter_mut().zip(join_all(threads, &self.control)) {
                    *place = one;
                }
                socket_buffers = smallest_buffers(listener.iter().map(|listener| listener.as_fd()));
                self.stage = Stage::Ended { _listener: listener };
            }
            other => self.stage = other,
        }
        let ended_early = self.control.ended_early();
        LoadOutcome { streams, latency, socket_buffers, ended_early, ..LoadOutcome::default() }
    }
}

impl Drop for ConnectRate {
    fn drop(&mut self) {
        self.control.stop();
        match std::mem::replace(&mut self.stage, Stage::Ended { _listener: None }) {
            Stage::Visiting(threads) => drop(join_all(threads, &self.control)),
            Stage::Serving { threads, .. } => drop(join_all(threads, &self.control)),
            Stage::Ready { .. } | Stage::Ended { .. } => {}
        }
    }
}
