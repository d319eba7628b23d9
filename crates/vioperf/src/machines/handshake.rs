//! How two machines meet: which protocol, and that both know the same token, without sending it.
//!
//! ```text
//! client                                     server
//!   hello: "vioperfC", version, nonce   ->
//!                                       <-   hello: "vioperfS", version, wants a proof, nonce
//!   proof: HMAC(token, "client" …)      ->
//!                                       <-   proof: HMAC(token, "server" …)
//! ```
//!
//! A proof is HMAC-SHA256 (RFC 2104) under the token over the role of the one who proves, both hellos
//! and, where the channel is TLS, its exporter (RFC 9266). So a proof is of no use in any other
//! meeting (both nonces), for the other role (no reflection), or on another TLS channel (nobody
//! stands between). The client proves first: whoever only listens at a server's door learns nothing
//! that depends on the token. Every message is of a fixed length, so that the other side decides
//! over no memory.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::token::Token;

/// Raised when the meeting itself changes.
const VERSION: u8 = 1;
const CLIENT: [u8; 8] = *b"vioperfC";
const SERVER: [u8; 8] = *b"vioperfS";
const NONCE_BYTES: usize = 32;
/// The length of a hello: whose, version, whether a proof is wanted, six zeros, nonce.
pub const HELLO_BYTES: usize = 16 + NONCE_BYTES;
/// The length of a proof.
pub const PROOF_BYTES: usize = 32;

/// What ties a meeting to its TLS channel: its exporter; zeros without TLS.
pub type Binding = [u8; 32];

/// Why two machines did not meet.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The channel failed.
    #[error("{0}")]
    Io(io::Error),
    /// The other side ended before it was over.
    #[error("the other side closed the connection")]
    Closed,
    /// It is no vioperf.
    #[error("the other side is neither `vioperf serve` nor `vioperf test`")]
    Foreign,
    /// It is another vioperf.
    #[error("it speaks version {found} of the handshake, this vioperf {VERSION}: update both")]
    Version {
        /// Its version.
        found: u8,
    },
    /// The server wants a proof and there is nothing to prove with.
    #[error(
        "the server wants a token: give --token-file FILE (or VIOPERF_TOKEN) with the one that it \
         was started with"
    )]
    TokenWanted,
    /// There is a token, but the server proves nothing.
    #[error(
        "the server does not ask for a token, so it cannot prove that it is the right one: leave \
         the token away, or start the server with it"
    )]
    TokenUnknown,
    /// The proof is wrong.
    #[error("the other side does not know the same token: give both the same --token-file")]
    WrongProof,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Io(error),
        }
    }
}

/// Which side proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The first word of either side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    wants_proof: bool,
    nonce: [u8; NONCE_BYTES],
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("wants_proof", &self.wants_proof).finish_non_exhaustive()
    }
}

impl Hello {
    fn new(wants_proof: bool) -> Result<Self, HandshakeError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| HandshakeError::Io(io::Error::other(error)))?;
        Ok(Self { wants_proof, nonce })
    }

    fn encode(self, side: Side) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let magic = if side == Side::Client { CLIENT } else { SERVER };
        bytes[..8].copy_from_slice(&magic);
        bytes[8] = VERSION;
        bytes[9] = u8::from(self.wants_proof);
        bytes[16..].copy_from_slice(&self.nonce);
        bytes
    }

    fn decode(bytes: &[u8; HELLO_BYTES], side: Side) -> Result<Self, HandshakeError> {
        let magic = if side == Side::Client { CLIENT } else { SERVER };
        let (head, rest) = bytes.split_at(magic.len());
        let (&[version, wants_proof, 0, 0, 0, 0, 0, 0], nonce_bytes) = rest.split_at(8) else {
            return Err(HandshakeError::Foreign);
        };
        if head != magic || wants_proof > 1 {
            return Err(HandshakeError::Foreign);
        }
        if version != VERSION {
            return Err(HandshakeError::Version { found: version });
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(nonce_bytes);
        Ok(Self { wants_proof: wants_proof == 1, nonce })
    }
}

/// Both hellos and what ties them to the channel.
struct Meeting<'a> {
    client: [u8; HELLO_BYTES],
    server: [u8; HELLO_BYTES],
    binding: &'a Binding,
}

impl Meeting<'_> {
    fn mac(&self, token: &Token, side: Side) -> Result<Hmac<Sha256>, HandshakeError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(token.secret())
            .map_err(|error| HandshakeError::Io(io::Error::other(error)))?;
        mac.update(match side {
            Side::Client => b"vioperf token proof of the client",
            Side::Server => b"vioperf token proof of the server",
        });
        for part in [self.client.as_slice(), &self.server, self.binding] {
            mac.update(part);
        }
        Ok(mac)
    }

    fn prove(
        &self,
        channel: &mut impl Write,
        token: &Token,
        side: Side,
    ) -> Result<(), HandshakeError> {
        channel.write_all(&self.mac(token, side)?.finalize().into_bytes())?;
        Ok(channel.flush()?)
    }

    /// In constant time, whatever the proof.
    fn verify(
        &self,
        channel: &mut impl Read,
        token: &Token,
        side: Side,
    ) -> Result<(), HandshakeError> {
        let mut proof = [0; PROOF_BYTES];
        channel.read_exact(&mut proof)?;
        self.mac(token, side)?.verify_slice(&proof).map_err(|_| HandshakeError::WrongProof)
    }
}

/// The client's side of it.
///
/// # Errors
/// When the channel ends or fails, or the server is not the one that is meant.
pub fn as_client(
    channel: &mut (impl Read + Write),
    token: Option<&Token>,
    binding: &Binding,
) -> Result<(), HandshakeError> {
    let client = Hello::new(token.is_some())?.encode(Side::Client);
    channel.write_all(&client)?;
    channel.flush()?;
    let mut server = [0; HELLO_BYTES];
    channel.read_exact(&mut server)?;
    let hello = Hello::decode(&server, Side::Server)?;
    let meeting = Meeting { client, server, binding };
    match (hello.wants_proof, token) {
        (false, None) => Ok(()),
        (true, None) => Err(HandshakeError::TokenWanted),
        (false, Some(_)) => Err(HandshakeError::TokenUnknown),
        (true, Some(token)) => {
            meeting.prove(channel, token, Side::Client)?;
            match meeting.verify(channel, token, Side::Server) {
                // A server says nothing to those whose proof is wrong.
                Err(HandshakeError::Closed) => Err(HandshakeError::WrongProof),
                verified => verified,
            }
        }
    }
}

/// The server's side of it.
///
/// # Errors
/// When the channel ends or fails, or the client is none or does not know the token. The caller
/// says nothing to it then.
pub fn as_server(
    channel: &mut (impl Read + Write),
    token: Option<&Token>,
    binding: &Binding,
) -> Result<(), HandshakeError> {
    let mut client = [0; HELLO_BYTES];
    channel.read_exact(&mut client)?;
    Hello::decode(&client, Side::Client)?;
    let server = Hello::new(token.is_some())?.encode(Side::Server);
    channel.write_all(&server)?;
    channel.flush()?;
    let Some(token) = token else { return Ok(()) };
    let meeting = Meeting { client, server, binding };
    meeting.verify(channel, token, Side::Client)?;
    meeting.prove(channel, token, Side::Server)
}
