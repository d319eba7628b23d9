//! Who takes part: vioperf, and the peers that are on PATH. One file each: how it is run, how what it
//! prints is read.

mod iperf2;
mod iperf3;
mod neper;
mod netperf;
mod nuttcp;
mod sockperf;
mod vioperf;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

pub use self::vioperf::Vioperf;
use crate::arguments::Arguments;
use crate::contests::{Contest, Load};
use crate::entry::Entry;

/// A peer that is here.
trait Peer {
    /// Its name and version.
    fn name(&self) -> String;

    /// How it takes part in a contest: one entry for each mode, none where it cannot.
    fn entries(&self, load: Load, seconds: u16) -> Vec<Entry>;
}

/// Everybody.
pub struct Tools {
    pub vioperf: Vioperf,
    peers: Vec<Box<dyn Peer>>,
}

impl Tools {
    pub fn find(arguments: &Arguments) -> Result<Self> {
        let vioperf = Vioperf::find(arguments.vioperf.as_deref())?;
        let mut peers: Vec<Box<dyn Peer>> = Vec::new();
        for program in on_path("iperf3") {
            peers.extend(iperf3::Iperf3::find(program).map(boxed));
        }
        for program in on_path("iperf") {
            peers.extend(iperf2::Iperf2::find(program).map(boxed));
        }
        for program in on_path("nuttcp") {
            peers.extend(nuttcp::Nuttcp::find(program).map(boxed));
        }
        for program in on_path("netperf") {
            peers.extend(netperf::Netperf::find(program).map(boxed));
        }
        peers.extend(neper::Neper::find().map(boxed));
        for program in on_path("sockperf") {
            peers.extend(sockperf::Sockperf::find(program).map(boxed));
        }
        // The same program may be in two directories of PATH (a link from one to the other).
        let mut seen = std::collections::BTreeSet::new();
        peers.retain(|peer| seen.insert(peer.name()));
        Ok(Self { vioperf, peers })
    }

    /// Name and version of everybody, vioperf first.
    pub fn names(&self) -> Vec<String> {
        let peers = self.peers.iter().map(|peer| peer.name());
        std::iter::once(self.vioperf.name()).chain(peers).collect()
    }

    pub fn entries(&self, contest: &Contest, seconds: u16) -> Vec<Entry> {
        let ours = self.vioperf.entries(contest.load, seconds);
        let theirs = self.peers.iter().flat_map(|peer| peer.entries(contest.load, seconds));
        ours.into_iter().chain(theirs).collect()
    }
}

fn boxed<P: Peer + 'static>(peer: P) -> Box<dyn Peer> {
    Box::new(peer)
}

/// Every executable of that name in PATH, in PATH's order.
fn on_path(name: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(name)).filter(|file| file.is_file()).collect()
}

/// What a program prints when asked for its version or its options, on either output.
fn said(program: &Path, argument: &str) -> String {
    let Ok(output) = Command::new(program).arg(argument).output() else {
        return String::new();
    };
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

/// The word after `before` in what a program says of itself.
fn word_after(text: &str, before: &str) -> Option<String> {
    let rest = text.split_once(before)?.1;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_end_matches(',').to_owned())
}

/// A number of a JSON document, by its pointer (RFC 6901).
fn number(document: &Value, pointer: &str) -> Result<f64> {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value.with_context(|| format!("no number at {pointer}"))
}

/// The number of a `key=value` or `key=value unit` word.
fn value_of(text: &str, key: &str) -> Result<f64> {
    let word = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .find_map(|(found, value)| (found == key).then_some(value))
        .with_context(|| format!("no `{key}=`"))?;
    word.parse().with_context(|| format!("`{key}={word}` is not a number"))
}
