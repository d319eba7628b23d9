//! What a visitor and a shell in a lab's guest say to each other, over a channel of their own: a kind (1 byte), a length
//! (4 bytes, big endian) and so many bytes.
//!
//! A guest may be anybody's by then: a message is at most [`MOST_BYTES`] long, and one that is not understood ends the visit.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// Names of the ports over which shells are reached begin so, and end with a number.
pub const PORT_PREFIX: &str = "org.vioperf.shell.";

/// The longest message.
pub const MOST_BYTES: usize = 64 << 10;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The program and its arguments; none is a shell.
    pub command: Vec<String>,
    /// What the machine is called in its prompt.
    pub machine: String,
    /// The terminal that it is to have; without one it has pipes.
    pub terminal: Option<Terminal>,
}

/// The visitor's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Its kind (`TERM`).
    pub kind: String,
    /// Its size.
    pub size: Size,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub columns: u16,
}

/// From the visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToShell {
    /// Comes first, and once.
    Start(Start),
    /// What was typed, or read.
    Input(Vec<u8>),
    /// Nothing more will be.
    InputEnds,
    /// The terminal has another size.
    Size(Size),
}

/// From the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromShell {
    /// The program runs.
    Started,
    /// What it wrote; of one with a terminal, all that it wrote.
    Output(Vec<u8>),
    /// What it wrote to its standard error.
    Errors(Vec<u8>),
    /// It has ended with this code, as shells have it. Comes last.
    Ended(u8),
    /// It could not be run, for this reason. Comes last.
    Failed(String),
}

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The other side has gone.
    #[error("the other side has gone")]
    Gone,
    /// The channel failed.
    #[error("the channel to the shell: {0}")]
    Io(#[from] io::Error),
    /// What came is no message.
    #[error("what came of the shell is no message: {0}")]
    Malformed(String),
}

/// A message of one of the two sides.
pub trait Message: Sized {
    /// Its kind and its bytes.
    fn encode(&self) -> (u8, Vec<u8>);

    /// The other way; nothing where it is none of this side.
    fn decode(kind: u8, bytes: Vec<u8>) -> Option<Self>;

    /// Writes it in one piece.
    ///
    /// # Errors
    /// Of the channel.
    fn write(&self, channel: &mut impl Write) -> io::Result<()> {
        let (kind, bytes) = self.encode();
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MOST_BYTES);
        let length = length.ok_or_else(|| io::Error::other("a message of a shell is too long"))?;
        let mut whole = Vec::with_capacity(bytes.len() + 5);
        whole.push(kind);
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(&bytes);
        channel.write_all(&whole)?;
        channel.flush()
    }

    /// Waits for one.
    ///
    /// # Errors
    /// [`ShellError`].
    fn read(channel: &mut impl Read) -> Result<Self, ShellError> {
        let mut head = [0; 5];
        whole(channel, &mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if length > MOST_BYTES {
            return Err(ShellError::Malformed(format!("{length} bytes were announced")));
        }
        let mut bytes = vec![0; length];
        whole(channel, &mut bytes)?;
        Self::decode(kind, bytes)
            .ok_or_else(|| ShellError::Malformed(format!("of the kind {kind}")))
    }
}

fn whole(channel: &mut impl Read, buffer: &mut [u8]) -> Result<(), ShellError> {
    channel.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ShellError::Gone,
        _ => ShellError::Io(error),
    })
}

impl Message for ToShell {
    fn encode(&self) -> (u8, Vec<u8>) {
        // What is made of strings and numbers alone can be written.
        match self {
            Self::Start(start) => (1, serde_json::to_vec(start).unwrap_or_default()),
            Self::Input(bytes) => (2, bytes.clone()),
            Self::InputEnds => (3, Vec::new()),
            Self::Size(size) => (4, serde_json::to_vec(size).unwrap_or_default()),
        }
    }

    fn decode(kind: u8, bytes: Vec<u8>) -> Option<Self> {
        match kind {
            1 => serde_json::from_slice(&bytes).ok().map(Self::Start),
            2 => Some(Self::Input(bytes)),
            3 => Some(Self::InputEnds),
            4 => serde_json::from_slice(&bytes).ok().map(Self::Size),
            _ => None,
        }
    }
}

impl Message for FromShell {
    fn encode(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Started => (65, Vec::new()),
            Self::Output(bytes) => (66, bytes.clone()),
            Self::Errors(bytes) => (67, bytes.clone()),
            Self::Ended(code) => (68, vec![*code]),
            Self::Failed(reason) => (69, reason.clone().into_bytes()),
        }
    }

    fn decode(kind: u8, bytes: Vec<u8>) -> Option<Self> {
        match kind {
            65 => Some(Self::Started),
            66 => Some(Self::Output(bytes)),
            67 => Some(Self::Errors(bytes)),
            68 => Some(Self::Ended(*bytes.first()?)),
            69 => String::from_utf8(bytes).ok().map(Self::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_come_back_as_they_went() {
        let size = Size { rows: 24, columns: 80 };
        let start = Start {
            command: vec!["ip".into(), "addr".into()],
            machine: "guest".into(),
            terminal: Some(Terminal { kind: "xterm".into(), size }),
        };
        let sent = [
            ToShell::Start(start),
            ToShell::Input(vec![0, 255]),
            ToShell::InputEnds,
            ToShell::Size(size),
        ];
        let mut channel = Vec::new();
        sent.iter().for_each(|message| message.write(&mut channel).unwrap());
        let mut left = channel.as_slice();
        sent.iter().for_each(|message| assert_eq!(ToShell::read(&mut left).unwrap(), *message));
        assert!(matches!(ToShell::read(&mut left), Err(ShellError::Gone)));
        let told = [
            FromShell::Started,
            FromShell::Output(b"x".to_vec()),
            FromShell::Errors(b"y".to_vec()),
            FromShell::Ended(7),
            FromShell::Failed("no such program".into()),
        ];
        let mut channel = Vec::new();
        told.iter().for_each(|message| message.write(&mut channel).unwrap());
        let mut left = channel.as_slice();
        told.iter().for_each(|message| assert_eq!(FromShell::read(&mut left).unwrap(), *message));
    }

    #[test]
    fn what_is_too_long_is_refused_both_ways() {
        let long = ToShell::Input(vec![0; MOST_BYTES + 1]);
        assert!(long.write(&mut Vec::new()).is_err());
        let announced = [2, 255, 255, 255, 255];
        assert!(matches!(ToShell::read(&mut announced.as_slice()), Err(ShellError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ToShell::read(&mut bytes.as_slice());
            let _ = FromShell::read(&mut bytes.as_slice());
        }
    }
}
