//! The message loop: reads a request, carries it out, answers it, until the channel ends.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::path::Path;

use nix::sys::utsname::uname;
use nix::unistd::{SysconfVar, sysconf};
use vioperf_model::wire::{
    NodeIdentity, PROTOCOL_VERSION, Prepare, Request, Response, SAMPLES_PER_REPORT, WireError,
    read_frame, write_frame,
};

use crate::clock::monotonic_ns;
use crate::disk;
use crate::guest_process;
use crate::interface::{configure, of_address, set_port};
use crate::machine::Machine;
use crate::sleeps::time_sleeps;
use crate::trial::{Finished, Prepared, Running};

/// Why [`serve`] came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The other side asked for it.
    Shutdown,
    /// The other side closed the channel.
    ChannelClosed,
}

/// Serves one conductor. Whatever was running is stopped when this returns.
///
/// # Errors
/// When the channel fails or what arrives on it are not frames. A frame that does not parse is
/// answered with [`Response::Failed`] and is no error.
pub fn serve<C: Read + Write, M: Machine>(
    channel: &mut C,
    machine: &mut M,
) -> Result<Ending, WireError> {
    let mut node = Node { machine, stage: Stage::Idle };
    loop {
        let request = match read_frame::<Request>(channel) {
            Ok(request) => request,
            Err(WireError::Malformed(error)) => {
                let message =
                    format!("this is no request: {error}; are conductor and node of one version?");
                match write_frame(channel, &failed(message)) {
                    Ok(()) => continue,
                    Err(error) => return closing_or(error),
                }
            }
            Err(error) => return closing_or(error),
        };
        let last = request == Request::Shutdown;
        if let Err(error) = node.answer(channel, &request) {
            return closing_or(error);
        }
        if last {
            return Ok(Ending::Shutdown);
        }
    }
}

/// A channel that was closed under our hands is an end like any other.
fn closing_or(error: WireError) -> Result<Ending, WireError> {
    match error {
        WireError::Closed => Ok(Ending::ChannelClosed),
        WireError::Io(error)
            if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
        {
            Ok(Ending::ChannelClosed)
        }
        other => Err(other),
    }
}

/// How far a trial has come on this node.
enum Stage {
    Idle,
    Prepared(Prepared),
    Running(Running),
    Finished(Finished),
}

struct Node<'m, M> {
    machine: &'m mut M,
    stage: Stage,
}

impl<M: Machine> Node<'_, M> {
    /// Carries a request out and writes its one answer.
    fn answer(&mut self, channel: &mut impl Write, request: &Request) -> Result<(), WireError> {
        let mut most = SAMPLES_PER_REPORT;
        let collects = matches!(request, Request::Collect { .. });
        let mut response = self.carry_out(request, most);
        loop {
            let announced = match write_frame(channel, &response) {
                Err(WireError::TooLong { announced, .. }) => announced,
                other => return other,
            };
            // A machine with very many cores or threads: fewer samples at a time.
            most /= 2;
            response = if collects && most > 0 {
                self.carry_out(request, most)
            } else {
                failed(format_args!(
                    "the answer would be {announced} bytes long, too much for a frame"
                ))
            };
        }
    }

    fn carry_out(&mut self, request: &Request, samples_at_most: usize) -> Response {
        match request {
            Request::Hello { version } => hello(*version),
            Request::ReadClock => Response::Clock { monotonic_ns: monotonic_ns() },
            Request::SetWallClock { unix_ns } => done(self.machine.set_wall_clock(*unix_ns)),
            Request::LoadModules { names, options } => {
                done(self.machine.load_modules(names, options))
            }
            Request::TimeSleeps { sleep, count } => match time_sleeps(*sleep, *count) {
                Ok(late_ns) => Response::SleptLate { late_ns },
                Err(error) => failed(error),
            },
            Request::Impair { interface, impairment } => {
                match self.machine.impair(interface, *impairment) {
                    Ok(dropped) => Response::Impaired { dropped },
                    Err(error) => failed(error),
                }
            }
            Request::Forward(config) => match self.machine.forward(config) {
                Ok(facts) => Response::Forwarding(facts),
                Err(error) => failed(error),
            },
            Request::ConfigureInterface(config) => match configure(config) {
                Ok(facts) => Response::Interface(facts),
                Err(error) => failed(error),
            },
            Request::ReadInterface { address } => match of_address(*address) {
                Ok(facts) => Response::Interface(facts),
                Err(error) => failed(error),
            },
            Request::SetPort { interface, settings } => match set_port(interface, settings) {
                Ok(facts) => Response::Interface(facts),
                Err(error) => failed(error),
            },
            Request::FindDisk { serial, timeout } => {
                match disk::find(Path::new("/"), serial, timeout.as_duration()) {
                    Ok(facts) => Response::Disk(facts),
                    Err(error) => failed(error),
                }
            }
            Request::FindGuest { uuid } => match guest_process::find(Path::new("/proc"), uuid) {
                Ok(found) => {
                    Response::Guest { pid: found.pid, kernel_threads: found.kernel_threads }
                }
                Err(error) => failed(error),
            },
            Request::Prepare(part) => self.prepare(part),
            Request::Start => self.start(),
            Request::Stop => self.stop(),
            Request::Progress => self.progress(),
            Request::Collect { from_sample } => self.collect(*from_sample, samples_at_most),
            Request::Shutdown => {
                self.stage = Stage::Idle;
                done(Ok::<_, &str>(()))
            }
        }
    }

    fn prepare(&mut self, part: &Prepare) -> Response {
        match &mut self.stage {
            // A further load beside those that are ready.
            Stage::Prepared(prepared) => {
                return match prepared.add(part) {
                    Ok(()) => Response::Ready { port: prepared.port() },
                    Err(error) => failed(error),
                };
            }
            Stage::Running(_) => return failed("a load is running: send Stop first"),
            // What an earlier trial left (open connections) goes before new ones are made.
            Stage::Idle | Stage::Finished(_) => self.stage = Stage::Idle,
        }
        match Prepared::new(part) {
            Ok(prepared) => {
                let port = prepared.port();
                self.stage = Stage::Prepared(prepared);
                Response::Ready { port }
            }
            Err(error) => failed(error),
        }
    }

    fn start(&mut self) -> Response {
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Prepared(prepared) => done(prepared.start().map(|running| {
                self.stage = Stage::Running(running);
            })),
            other => {
                let message = match other {
                    Stage::Running(_) => "the load is running already: send Stop when it shall end",
                    _ => "nothing is prepared: send Prepare first",
                };
                self.stage = other;
                failed(message)
            }
        }
    }

    fn stop(&mut self) -> Response {
        match mem::replace(&mut self.stage, Stage::Idle) {
            // Prepared but never started: dropping it closes its connections.
            Stage::Prepared(_) => done(Ok::<_, &str>(())),
            Stage::Running(running) => {
                self.stage = Stage::Finished(running.stop());
                done(Ok::<_, &str>(()))
            }
            Stage::Finished(finished) => {
                self.stage = Stage::Finished(finished);
                failed("the load was stopped already: send Collect, or Prepare for a new one")
            }
            Stage::Idle => failed("nothing is running: send Prepare and Start first"),
        }
    }

    fn progress(&mut self) -> Response {
        match &mut self.stage {
            Stage::Running(running) => Response::Progress(running.progress()),
            _ => failed("nothing is running: send Prepare and Start first"),
        }
    }

    fn collect(&mut self, from_sample: usize, samples_at_most: usize) -> Response {
        match &mut self.stage {
            Stage::Finished(finished) => {
                let (report, next_sample) = finished.page(from_sample, samples_at_most);
                Response::Report { report: Box::new(report), next_sample }
            }
            Stage::Running(_) => failed("the load is still running: send Stop first"),
            Stage::Idle | Stage::Prepared(_) => {
                failed("nothing was measured: send Prepare, Start and Stop first")
            }
        }
    }
}

fn done<E: Display>(outcome: Result<(), E>) -> Response {
    match outcome {
        Ok(()) => Response::Done { monotonic_ns: monotonic_ns() },
        Err(error) => failed(error),
    }
}

fn failed(reason: impl Display) -> Response {
    Response::Failed { message: reason.to_string() }
}

fn hello(version: u32) -> Response {
    if version != PROTOCOL_VERSION {
        return failed(format_args!(
            "the conductor speaks version {version}, this node {PROTOCOL_VERSION}: build both from one source"
        ));
    }
    let kernel_release = match uname() {
        Ok(name) => name.release().to_string_lossy().into_owned(),
        Err(errno) => return failed(format_args!("cannot tell the kernel's release: {errno}")),
    };
    let cores = match sysconf(SysconfVar::_NPROCESSORS_ONLN) {
        Ok(Some(cores)) => u32::try_from(cores).unwrap_or(1),
        _ => return failed("cannot tell how many cores are online (sysconf)"),
    };
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let boot_id = boot_id.map(|id| id.trim().to_owned());
    let is_virtual = crate::virtual_machine::is_virtual(Path::new("/"));
    Response::Hello(NodeIdentity {
        version: PROTOCOL_VERSION,
        kernel_release,
        cores,
        boot_id,
        is_virtual,
    })
}
