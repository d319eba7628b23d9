//! From an accepted connection to a client: until it has proved what it has to, it costs a thread
//! and a hundred bytes, for a bounded time.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use vioperf_model::wire::write_frame;

use super::session::Session;
use super::{Counted, Shared, Stranger};
use crate::conductor::channel::{Channel, Patience};
use crate::interrupt::Urgency;
use crate::machines::client::Verdict;
use crate::machines::handshake::{self, HandshakeError};
use crate::machines::tls;

/// How long a stranger may take to become a client.
const PROVE_WITHIN: Duration = Duration::from_secs(10);
/// How long somebody with a wrong proof waits for the end: guessing shall take time.
const WRONG_PROOF_WAITS: Duration = Duration::from_secs(1);

/// Receives one connection and serves it to its end.
pub(super) fn receive(shared: &Shared, stream: TcpStream, from: SocketAddr) {
    let Some(stranger) = Stranger::receive(&shared.strangers, from.ip()) else {
        shared.turn_away(from, &"too many connections that have proved nothing yet");
        return;
    };
    // Small messages that are waited for (RFC 896); it is only slower where that is refused.
    let _ = stream.set_nodelay(true);
    let local = match stream.local_addr() {
        Ok(local) => local,
        Err(error) => return shared.turn_away(from, &error),
    };
    let (mut channel, proved) = match admit(shared, stream) {
        Ok(admitted) => admitted,
        Err(error) => return shared.turn_away(from, &error),
    };
    if let Err(error) = proved {
        if matches!(error, HandshakeError::WrongProof) {
            let end = Instant::now() + WRONG_PROOF_WAITS;
            shared.interrupt.sleep_until(end, Urgency::AfterTrial);
        }
        return shared.turn_away(from, &error);
    }
    let most = shared.config.max_clients;
    let Some(client) = Counted::below(&shared.clients, most) else {
        refuse(shared, channel.as_mut(), most);
        return shared.turn_away(from, &format_args!("{most} clients are being served already"));
    };
    drop(stranger);
    let session = Session::new(shared, channel, from, local);
    session.serve();
    drop(client);
}

/// TLS, if it is spoken here, then the token.
fn admit(
    shared: &Shared,
    stream: TcpStream,
) -> io::Result<(Box<dyn Channel>, Result<(), HandshakeError>)> {
    let patience = Patience::until(Instant::now() + PROVE_WITHIN, &shared.interrupt);
    let (mut channel, binding): (Box<dyn Channel>, _) = match &shared.config.identity {
        Some(identity) => tls::accept(stream, identity, patience)?,
        None => (Box::new(stream), handshake::Binding::default()),
    };
    let token = shared.config.token.as_ref();
    let proved = handshake::as_server(&mut patience.on(channel.as_mut()), token, &binding);
    Ok((channel, proved))
}

fn refuse(shared: &Shared, channel: &mut dyn Channel, most: usize) {
    let message = format!(
        "the server serves {most} clients at once, and so many are there: try again when one has \
         finished, at the latest in {} (or raise --max-clients there)",
        shared.config.limits.longest_trial()
    );
    let patience = Patience::until(Instant::now() + PROVE_WITHIN, &shared.interrupt);
    // Who does not listen any more need not know.
    let _ = write_frame(&mut patience.on(channel), &Verdict::Refused { message });
}
