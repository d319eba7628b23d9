//! The token that both machines know.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What is shorter can be guessed.
const LEAST_BYTES: usize = 16;
/// What is longer is no token but some other file.
const MOST_BYTES: usize = 4096;
/// Where a token is looked for when no file is named.
const VARIABLE: &str = "VIOPERF_TOKEN";
/// Bits that let others read or write a file.
const OTHERS: u32 = 0o077;

/// A secret of both machines.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in `file`, or else in the environment, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, others can read it too, or it holds no good token.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>> {
        let Some(file) = file else {
            return match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
                Some(value) => Self::new(value.as_encoded_bytes()).context(VARIABLE).map(Some),
                None => Ok(None),
            };
        };
        let name = file.display();
        let read = || -> Result<Vec<u8>> {
            let facts = fs::metadata(file)?;
            if facts.permissions().mode() & OTHERS != 0 {
                bail!("others may read it; chmod 600 {name}, and change the token if they did");
            }
            if facts.len() > MOST_BYTES as u64 {
                bail!("{} bytes are no token", facts.len());
            }
            Ok(fs::read(file)?)
        };
        let text = read().with_context(|| format!("cannot take the token from {name}"))?;
        Self::new(&text).with_context(|| format!("cannot take the token from {name}")).map(Some)
    }

    /// The token in `text`, white space around it left out.
    ///
    /// # Errors
    /// When it is too short to be a secret.
    pub fn new(text: &[u8]) -> Result<Self> {
        let secret = text.trim_ascii();
        if !(LEAST_BYTES..=MOST_BYTES).contains(&secret.len()) {
            bail!(
                "a token has {LEAST_BYTES} to {MOST_BYTES} characters, this one {}; `vioperf serve \
                 --new-token FILE` makes a good one",
                secret.len()
            );
        }
        Ok(Self(secret.to_vec()))
    }

    /// Makes a new file with a token of 256 random bits, for its owner alone.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn make(file: &Path) -> Result<()> {
        let mut bits = [0_u8; 32];
        getrandom::fill(&mut bits).context("cannot draw random bits")?;
        let text: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.write_all(b"\n")
            })
            .with_context(|| format!("cannot write a new token to {}", file.display()))
    }

    /// The secret itself.
    pub fn secret(&self) -> &[u8] {
        &self.0
    }
}
