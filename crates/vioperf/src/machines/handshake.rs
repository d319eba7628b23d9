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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use proptest::prelude::*;
    use vioperf_model::testing::{edits, mutated};

    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text.repeat(16).as_bytes()).unwrap()
    }

    type Met = Result<(), HandshakeError>;

    /// Both sides, each with its token and binding.
    fn meet(client: (Option<&Token>, Binding), server: (Option<&Token>, Binding)) -> (Met, Met) {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let server = scope.spawn(move || as_server(&mut theirs, server.0, &server.1));
            let client = as_client(&mut ours, client.0, &client.1);
            drop(ours);
            (client, server.join().unwrap())
        })
    }

    #[test]
    fn those_who_know_the_same_meet() {
        let (same, other) = (token("a"), token("b"));
        let plain = [0; 32];
        assert!(matches!(meet((Some(&same), plain), (Some(&same), plain)), (Ok(()), Ok(()))));
        assert!(matches!(meet((None, plain), (None, plain)), (Ok(()), Ok(()))));
        let (client, server) = meet((Some(&other), plain), (Some(&same), plain));
        assert!(matches!(client, Err(HandshakeError::WrongProof)), "{client:?}");
        assert!(matches!(server, Err(HandshakeError::WrongProof)), "{server:?}");
        let (client, _) = meet((None, plain), (Some(&same), plain));
        assert!(matches!(client, Err(HandshakeError::TokenWanted)), "{client:?}");
        let (client, _) = meet((Some(&same), plain), (None, plain));
        assert!(matches!(client, Err(HandshakeError::TokenUnknown)), "{client:?}");
    }

    #[test]
    fn somebody_in_between_of_two_tls_channels_is_found_out() {
        let token = token("a");
        let (client, server) = meet((Some(&token), [1; 32]), (Some(&token), [2; 32]));
        assert!(client.is_err() && matches!(server, Err(HandshakeError::WrongProof)));
    }

    #[test]
    fn a_proof_cannot_be_reflected_nor_used_again() {
        let token = token("a");
        let hello = |side| Hello::new(true).unwrap().encode(side);
        let (client, server) = (hello(Side::Client), hello(Side::Server));
        let proof = |client, server, side| {
            let mut proof = Vec::new();
            let meeting = Meeting { client, server, binding: &[0; 32] };
            meeting.prove(&mut proof, &token, side).unwrap();
            proof
        };
        let own = proof(client, server, Side::Client);
        assert_ne!(own, proof(client, server, Side::Server));
        assert_ne!(own, proof(client, hello(Side::Server), Side::Client));
        assert_ne!(own, proof(hello(Side::Client), server, Side::Client));
    }

    /// Says what it was told to, whatever it hears.
    struct Deaf(std::io::Cursor<Vec<u8>>, Vec<u8>);

    impl Deaf {
        fn saying(bytes: Vec<u8>) -> Self {
            Self(std::io::Cursor::new(bytes), Vec::new())
        }
    }

    impl Read for Deaf {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Deaf {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn a_stranger_learns_nothing_and_does_not_get_in(
            edits in edits(),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let token = token("a");
            let hello = Hello::new(true).unwrap().encode(Side::Client);
            let with_proof = [hello.as_slice(), &[7; PROOF_BYTES]].concat();
            for said in [mutated(&with_proof, &edits), noise] {
                let mut stranger = Deaf::saying(said);
                prop_assert!(as_server(&mut stranger, Some(&token), &[0; 32]).is_err());
                // At most the hello, which depends on no secret.
                prop_assert!([0, HELLO_BYTES].contains(&stranger.1.len()));
            }
        }

        #[test]
        fn a_false_server_is_not_believed(edits in edits(), wants_proof: bool) {
            let token = token("a");
            let hello = Hello::new(wants_proof).unwrap().encode(Side::Server);
            let with_proof = [hello.as_slice(), &[7; PROOF_BYTES]].concat();
            let mut server = Deaf::saying(mutated(&with_proof, &edits));
            prop_assert!(as_client(&mut server, Some(&token), &[0; 32]).is_err());
        }
    }
}
