//! The server: one thread that listens and answers, and two that make pages.

use std::convert::Infallible;
use std::net::TcpListener as Listener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

pub use super::answer::Viewer;
use crate::interrupt::{Interrupt, Urgency};

/// Connections at once; a browser opens six. Further ones are closed.
const MOST_CONNECTIONS: usize = 32;
/// Pages that are made at once; further ones wait.
const MOST_AT_WORK: usize = 2;
/// Within this a request has been sent, and another one follows on the same connection.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// No connection lasts longer, not that of somebody who does not read the answer either.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// What a request may have of bytes and lines before its body; it must have no body.
const MOST_HEAD_BYTES: usize = 16 << 10;
const MOST_HEAD_LINES: usize = 64;
/// How often it is looked whether the user has had enough.
const LOOK: Duration = Duration::from_millis(100);

/// Answers until it is interrupted.
///
/// # Errors
/// When the system refuses what a server needs.
pub fn serve(listener: Listener, viewer: &Arc<Viewer>, interrupt: &Interrupt) -> Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(MOST_AT_WORK)
        .build()
        .context("cannot start the server")?;
    let done = runtime.block_on(async {
        listener.set_nonblocking(true)?;
        listen(TcpListener::from_std(listener)?, viewer, interrupt).await;
        Ok(())
    });
    // A page that is being made is of no use to anybody any more.
    runtime.shutdown_background();
    done
}

async fn listen(listener: TcpListener, viewer: &Arc<Viewer>, interrupt: &Interrupt) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while interrupt.urgency() == Urgency::None {
        match timeout(LOOK, listener.accept()).await {
            Ok(Ok((stream, _))) => {
                if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                    tokio::spawn(converse(stream, Arc::clone(viewer), place));
                }
            }
            // Too many files are open, or the other one has gone: both pass.
            Ok(Err(_)) => sleep(LOOK).await,
            Err(_) => {}
        }
    }
}

async fn converse(stream: TcpStream, viewer: Arc<Viewer>, _place: OwnedSemaphorePermit) {
    let service = service_fn(move |request| {
        let viewer = Arc::clone(&viewer);
        async move { Ok::<_, Infallible>(viewer.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MOST_HEAD_BYTES)
        .max_headers(MOST_HEAD_LINES)
        .serve_connection(TokioIo::new(stream), service);
    // However it ended, there is nobody to tell.
    let _ = timeout(CONNECTION_TIME, connection).await;
}
