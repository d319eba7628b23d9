//! What a lab that stands consists of, as it is told and as it is named on the command line.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vioperf_model::record::Place;

use crate::prepare::spoken;

/// A lab that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The scenario's name.
    pub scenario: String,
    /// The cell's.
    pub cell: String,
    /// The switch, and the MTU in bytes.
    pub switch: String,
    pub mtu: u32,
    /// After how many further seconds it goes down by itself.
    pub seconds_left: u64,
    /// Whether guests have a shell: it takes busybox.
    pub guests_have_shells: bool,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which.
    pub place: Place,
    /// Its interface on the path, with what drives it, as far as it is known.
    pub interface: Option<String>,
    /// Its addresses there.
    pub addresses: Vec<IpAddr>,
    /// What else is to be told.
    pub note: Option<String>,
}

/// What a part is called on the command line.
pub fn name(place: Place) -> &'static str {
    match place {
        Place::Peer => "remote",
        other => other.key(),
    }
}

/// Whether a part is called so.
pub fn is_called(place: Place, word: &str) -> bool {
    word == name(place) || word == place.key()
}

/// What a part is.
fn meaning(place: Place) -> &'static str {
    match place {
        Place::Guest => "the guest under test",
        Place::Peer => "the far end, behind the switch",
        Place::Host => "the switch and its ports",
        Place::Second => "the near end of baselines",
        Place::FarGuest => "the guest at the far end",
        Place::Forwarder => "the guest that hands packets on",
        Place::Neighbour => "the guest beside the one under test",
        Place::HostEnd => "the host's own end",
        Place::Client | Place::Server => "a machine",
    }
}

impl Description {
    /// Whether a shell leads into a part.
    pub fn leads_into(&self, place: Place) -> bool {
        self.guests_have_shells || !place.is_in_guest()
    }

    /// What a person is told, in lines.
    pub fn in_words(&self, name: &str) -> String {
        let Self { scenario, cell, switch, mtu, .. } = self;
        let mut text = format!("lab {name}: {cell} of {scenario}, switch {switch}, MTU {mtu}\n");
        for part in &self.parts {
            let addresses: Vec<String> = part.addresses.iter().map(ToString::to_string).collect();
            let facts = [part.interface.clone(), Some(addresses.join(" ")), part.note.clone()];
            let facts: Vec<String> =
                facts.into_iter().flatten().filter(|fact| !fact.is_empty()).collect();
            let called = self::name(part.place);
            // Writing to a string does not fail.
            let _ = write!(text, "  {called:<10} {}", meaning(part.place));
            let _ =
                writeln!(text, "{}{}", if facts.is_empty() { "" } else { ": " }, facts.join(", "));
        }
        let left = spoken(Duration::from_secs(self.seconds_left));
        let first = self.parts.iter().find(|part| self.leads_into(part.place));
        let first = first.map_or("host", |part| self::name(part.place));
        let _ = writeln!(
            text,
            "a shell in it: vioperf lab shell {first}; it goes down in {left}, or by: vioperf lab down {name}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_told_with_the_way_into_it() {
        let part = Part {
            place: Place::Peer,
            interface: Some("eth0".into()),
            addresses: vec!["10.0.0.1".parse().unwrap()],
            note: None,
        };
        let lab = Description {
            scenario: "s".into(),
            cell: "virtio/1-stream".into(),
            switch: "bridge".into(),
            mtu: 1500,
            seconds_left: 7200,
            guests_have_shells: false,
            parts: vec![part],
        };
        let text = lab.in_words("s");
        for word in [
            "virtio/1-stream of s",
            "remote ",
            "eth0, 10.0.0.1",
            "lab shell remote",
            "2 h 00 min",
            "lab down s",
        ] {
            assert!(text.contains(word), "no `{word}` in {text}");
        }
        assert!(is_called(Place::Peer, "peer") && is_called(Place::Peer, "remote"));
        assert!(!is_called(Place::Peer, "guest"));
    }
}
