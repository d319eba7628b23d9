//! A witness on the switch: an nftables rule that counts the datagrams of a load, and drops some of
//! them at random where that is wanted. It knows nothing of the nodes and their counters.
//!
//! Sources: nft(8), `net/bridge/netfilter/nf_tables_bridge.c`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use vioperf_model::units::Ratio;

use crate::sandbox::Sandbox;

/// The table, in the sandbox's own network namespace.
const TABLE: &str = "vioperf";
/// Names of its counters.
const SEEN: &str = "seen";
const DROPPED: &str = "dropped";

/// With these bytes begin the words that nodes say to each other on the path before and after a load
/// of datagrams; the load's own begin with a token.
const WORDS: u64 = u64::from_be_bytes(*b"vioperf1");

/// UDP's header, which its length counts too.
const UDP_HEADER_BYTES: u64 = 8;

/// Why packets could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The program is missing.
    #[error(
        "the program `nft` is missing: install nftables (`apt-get install nftables`, `dnf install nftables`)"
    )]
    NoProgram,
    /// The program did not run.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// It refused.
    #[error(
        "nft refuses to {action}: {said}; the kernel needs nftables for bridges (CONFIG_NF_TABLES_BRIDGE): `modprobe nft_meta_bridge` as root"
    )]
    Refused {
        /// What was tried.
        action: &'static str,
        /// Its words.
        said: String,
    },
    /// What it said is not understood.
    #[error("nft's list of counters is not understood: {0}")]
    Unreadable(String),
}

/// What the witness looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched<'a> {
    /// The switch's port that the datagrams come in by.
    pub port: &'a str,
    /// UDP payload of each, in bytes.
    pub payload_bytes: u64,
    /// The part of them that is dropped at random.
    pub drop: Ratio,
}

/// What it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witnessed {
    /// Datagrams of the load that came in.
    pub seen: u64,
    /// Of them, those that were dropped.
    pub dropped: u64,
}

/// A rule that stands until it is dropped.
#[derive(Debug)]
pub struct Witness {
    program: PathBuf,
}

/// Finds the `nft` program.
///
/// # Errors
/// [`FilterError::NoProgram`].
pub fn find_program() -> Result<PathBuf, FilterError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An ordinary user's PATH often lacks where administrators' programs are.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut programs = folders.map(|folder| folder.join("nft"));
    programs.find(|program| program.is_file()).ok_or(FilterError::NoProgram)
}

impl Witness {
    /// Puts the rule in place.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn plant(_: &Sandbox, watched: Watched<'_>) -> Result<Self, FilterError> {
        let witness = Self { program: find_program()? };
        witness.run("watch the switch", &["-f", "-"], &ruleset(watched))?;
        Ok(witness)
    }

    /// What it has seen so far.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn read(&self) -> Result<Witnessed, FilterError> {
        let arguments = ["-j", "list", "counters", "table", "bridge", TABLE];
        let said = self.run("list its counters", &arguments, "")?;
        read_counters(&said)
    }

    fn run(
        &self,
        action: &'static str,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, FilterError> {
        let failed = |source| FilterError::Io { action, source };
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A ruleset is far smaller than a pipe; one who does not read it says why below.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("it does not say why").trim().to_owned();
            return Err(FilterError::Refused { action, said });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // What cannot be taken away here goes with the sandbox's namespace.
        let _ = self.run("take its rules away", &["delete", "table", "bridge", TABLE], "");
    }
}

/// Names come from here and numbers are numbers, so that nothing is to be escaped.
fn ruleset(Watched { port, payload_bytes, drop }: Watched<'_>) -> String {
    let length = payload_bytes + UDP_HEADER_BYTES;
    let parts_of_a_million = (drop.as_f64() * 1e6).round();
    format!(
        "table bridge {TABLE} {{\n\
         counter {SEEN} {{ }}\n\
         counter {DROPPED} {{ }}\n\
         chain lossy {{ numgen random mod 1000000 < {parts_of_a_million} counter name \"{DROPPED}\" drop\n }}\n\
         chain forward {{\n\
         type filter hook forward priority 0; policy accept;\n\
         iifname \"{port}\" ip protocol udp udp length {length} @th,64,64 != {WORDS:#x} \
         counter name \"{SEEN}\" jump lossy\n\
         }}\n}}\n"
    )
}

fn read_counters(json: &str) -> Result<Witnessed, FilterError> {
    let unreadable = |reason: &str| FilterError::Unreadable(reason.to_owned());
    let answer: serde_json::Value =
        serde_json::from_str(json).map_err(|error| unreadable(&error.to_string()))?;
    let objects = answer["nftables"].as_array().ok_or_else(|| unreadable("no list"))?;
    let packets = |name: &str| {
        let counter = |object: &&serde_json::Value| object["counter"]["name"] == name;
        let found = objects.iter().find(counter).and_then(|it| it["counter"]["packets"].as_u64());
        found.ok_or_else(|| unreadable(&format!("no counter `{name}`")))
    };
    Ok(Witnessed { seen: packets(SEEN)?, dropped: packets(DROPPED)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name_and_nothing_else_is_believed() {
        let json = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "bridge", "name": "seen", "table": "vioperf", "handle": 1, "packets": 4000, "bytes": 9}},
            {"counter": {"family": "bridge", "name": "dropped", "table": "vioperf", "handle": 2, "packets": 203, "bytes": 9}}]}"#;
        assert_eq!(read_counters(json).unwrap(), Witnessed { seen: 4000, dropped: 203 });
        for wrong in ["", "{}", r#"{"nftables": []}"#] {
            assert!(matches!(read_counters(wrong), Err(FilterError::Unreadable(_))), "{wrong}");
        }
    }

    #[test]
    fn a_rule_names_the_datagrams_and_the_part_that_is_dropped() {
        let watched = Watched { port: "peer", payload_bytes: 1400, drop: Ratio::from_ppm(50_000) };
        let rules = ruleset(watched);
        assert!(rules.contains("udp length 1408"), "{rules}");
        assert!(rules.contains("mod 1000000 < 50000 "), "{rules}");
        assert!(rules.contains("@th,64,64 != 0x76696f7065726631"), "{rules}");
    }
}
