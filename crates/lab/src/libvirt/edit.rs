//! A domain's XML with another NIC, or with its NIC connected elsewhere: what is to be otherwise is written into the
//! text, and every other byte stays.

mod source;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::Range;

use roxmltree::Node;
use vioperf_model::libvirt::DomainSource;
use vioperf_model::nic::NicModel;

use super::domain_xml::{self, XmlError, child};

/// How libvirt calls the paravirtual NIC.
const VIRTIO: &str = "virtio";

/// How the driver element calls what QEMU's device calls otherwise, or has elsewhere
/// (libvirt.org/formatdomain.html#setting-nic-driver-specific-options).
const OPTIONS: &[(&str, &str)] = &[
    ("vhost", "name"),
    ("queues", "queues"),
    ("rx_queue_size", "rx_queue_size"),
    ("tx_queue_size", "tx_queue_size"),
    ("packed", "packed"),
    ("event_idx", "event_idx"),
    ("ioeventfd", "ioeventfd"),
    ("rss", "rss"),
    ("hash", "rss_hash_report"),
    ("page_per_vq", "page_per_vq"),
    ("iommu_platform", "iommu"),
    ("ats", "ats"),
    ("tx", "txmode"),
    ("csum", "host.csum"),
    ("gso", "host.gso"),
    ("host_tso4", "host.tso4"),
    ("host_tso6", "host.tso6"),
    ("host_ecn", "host.ecn"),
    ("host_ufo", "host.ufo"),
    ("mrg_rxbuf", "host.mrg_rxbuf"),
    ("guest_csum", "guest.csum"),
    ("guest_tso4", "guest.tso4"),
    ("guest_tso6", "guest.tso6"),
    ("guest_ecn", "guest.ecn"),
    ("guest_ufo", "guest.ufo"),
];

/// Types of interfaces that are devices of the host's, which QEMU only hands on.
const PASSED: &[&str] = &["hostdev", "vdpa"];

/// What an interface is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The NIC's model, in libvirt's words; absent leaves it.
    model: Option<String>,
    /// What is set of its driver, by libvirt's names.
    driver: BTreeMap<String, String>,
    /// What it is connected to; absent leaves it.
    source: Option<DomainSource>,
}

/// Why an interface cannot be so.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Its XML is none.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// It is not there.
    #[error("the domain has no interface with the MAC address {0}")]
    NoInterface(String),
    /// It is not one of QEMU's NICs.
    #[error(
        "the interface {mac} is of type {kind}, a device of the host's that the guest has: it has no model and no \
         source that could be changed; it can be measured as it is"
    )]
    Passed {
        /// Its MAC address.
        mac: String,
        /// Its type.
        kind: String,
    },
    /// No model of QEMU's.
    #[error(
        "the model {0} is a part of a card of the host's, which a domain gets by an <interface type='hostdev'> of \
         its own: measure one that has it as it is"
    )]
    NoModel(NicModel),
    /// libvirt has no place for an option.
    #[error(
        "libvirt has no setting for the device option `{name}` of {model}; it has, of virtio: {known}"
    )]
    Option {
        /// The option.
        name: String,
        /// The model.
        model: String,
        /// What there is.
        known: String,
    },
}

impl Edit {
    /// A model with options of its device, by QEMU's names and values; beside those `vhost` and `queues`.
    ///
    /// # Errors
    /// When libvirt has no setting for an option.
    pub fn new<'a>(
        model: NicModel,
        options: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<Self, EditError> {
        if model.row().is_passed_through() {
            return Err(EditError::NoModel(model));
        }
        let is_virtio = model.name() == VIRTIO;
        let model = if is_virtio { VIRTIO } else { model.row().qemu_device };
        let mut driver = BTreeMap::new();
        for (name, value) in options {
            let plain = name.replace('-', "_");
            let known = OPTIONS.iter().find(|(qemu, _)| is_virtio && *qemu == plain);
            let Some((_, option)) = known else {
                let known: Vec<&str> = OPTIONS.iter().map(|(qemu, _)| *qemu).collect();
                let (name, model) = (name.to_owned(), model.to_owned());
                return Err(EditError::Option { name, model, known: known.join(", ") });
            };
            let value = match (*option, value.as_str()) {
                ("name", "on") => "vhost".to_owned(),
                ("name", "off") => "qemu".to_owned(),
                _ => value,
            };
            driver.insert((*option).to_owned(), value);
        }
        Ok(Self { model: Some(model.to_owned()), driver, source: None })
    }

    /// The same, connected to this.
    #[must_use]
    pub fn connected_to(self, source: Option<DomainSource>) -> Self {
        Self { source, ..self }
    }

    /// The XML with that interface so.
    ///
    /// # Errors
    /// When there is no such interface, or it has no model.
    pub fn apply(&self, xml: &str, mac: &str) -> Result<String, EditError> {
        let document = domain_xml::parse(xml)?;
        let is_it = |node: &Node<'_, '_>| domain_xml::mac(*node).as_deref() == Some(mac);
        let interface = domain_xml::interfaces(&document)
            .find(is_it)
            .ok_or_else(|| EditError::NoInterface(mac.to_owned()))?;
        let kind = interface.attribute("type").unwrap_or_default();
        if PASSED.contains(&kind) {
            return Err(EditError::Passed { mac: mac.to_owned(), kind: kind.to_owned() });
        }
        let mut changes = self.changes_of_nic(interface);
        changes.extend(self.source.iter().flat_map(|source| source::changes(source, interface)));
        changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
        let mut text = xml.to_owned();
        for (place, new) in changes {
            text.replace_range(place, &new);
        }
        Ok(text)
    }

    /// Of the model and its driver.
    fn changes_of_nic(&self, interface: Node<'_, '_>) -> Vec<Change> {
        let Some(model) = &self.model else { return Vec::new() };
        let now = child(interface, "model").and_then(|model| model.attribute("type"));
        let is_other = now != Some(model.as_str());
        let mut changes = Vec::new();
        if is_other {
            let new = format!("<model type='{}'/>", escaped(model));
            changes.push(replacement(interface, "model", &new));
        }
        // What is there is virtio's alone: no other model has a driver with options.
        let old = child(interface, "driver");
        let mut driver = match is_other {
            true => BTreeMap::new(),
            false => domain_xml::driver(old),
        };
        driver.extend(self.driver.clone());
        if driver != domain_xml::driver(old) {
            changes.push(replacement(interface, "driver", &driver_element(&driver)));
        }
        changes
    }
}

impl fmt::Display for Edit {
    /// `virtio, bridge:br1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.as_ref().map(ToString::to_string);
        let words: Vec<String> = self.model.clone().into_iter().chain(source).collect();
        f.write_str(if words.is_empty() { "its own NIC" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

/// Another text in a place of the description.
type Change = (Range<usize>, String);

/// In place of a child, or behind the MAC address where there is none.
fn replacement(interface: Node<'_, '_>, name: &str, new: &str) -> Change {
    if let Some(old) = child(interface, name) {
        return (old.range(), new.to_owned());
    }
    let end = child(interface, "mac").map_or(interface.range().end, |mac| mac.range().end);
    (end..end, new.to_owned())
}

/// Nothing where there is nothing to say.
fn driver_element(options: &BTreeMap<String, String>) -> String {
    let attributes = |prefix: &str| -> String {
        let own = options.iter().filter_map(|(name, value)| {
            let name = match prefix {
                "" => Some(name.as_str()).filter(|name| !name.contains('.')),
                prefix => name.strip_prefix(prefix),
            };
            Some((name?, value))
        });
        own.fold(String::new(), |mut text, (name, value)| {
            // Writing to a string does not fail.
            let _ = write!(text, " {name}='{}'", escaped(value));
            text
        })
    };
    let [own, host, guest] = ["", "host.", "guest."].map(attributes);
    let side = |name: &str, attributes: &str| match attributes {
        "" => String::new(),
        attributes => format!("<{name}{attributes}/>"),
    };
    let sides = side("host", &host) + &side("guest", &guest);
    match (own.as_str(), sides.as_str()) {
        ("", "") => String::new(),
        (own, "") => format!("<driver{own}/>"),
        (own, sides) => format!("<driver{own}>{sides}</driver>"),
    }
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const XML: &str = include_str!("testing/domain.xml");
    pub(super) const FIRST: &str = "52:54:00:aa:bb:01";
    pub(super) const SECOND: &str = "52:54:00:aa:bb:02";

    fn edit(model: &str, options: &[(&'static str, &str)]) -> Edit {
        let options = options.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Edit::new(model.parse().unwrap(), options).unwrap()
    }

    /// The lines that are otherwise, without their indentation.
    pub(super) fn changed<'a>(before: &'a str, after: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
        let only = |a: &'a str, b: &str| -> Vec<&'a str> {
            a.lines().filter(|line| !b.lines().any(|other| other == *line)).map(str::trim).collect()
        };
        (only(before, after), only(after, before))
    }

    #[test]
    fn another_model_takes_nothing_but_its_own_place() {
        let after = edit("virtio", &[]).apply(XML, SECOND).unwrap();
        assert_eq!(changed(XML, &after), (vec!["<model type='e1000e'/>"], vec![]));
        assert_eq!(domain_xml::facts(&after).unwrap().interfaces[1].model, "virtio");
        let after = edit("e1000", &[]).apply(XML, FIRST).unwrap();
        let facts = domain_xml::facts(&after).unwrap();
        assert_eq!(facts.interfaces[0].model, "e1000");
        assert!(facts.interfaces[0].driver.is_empty() && facts.interfaces[0].queues.is_none());
        assert_eq!(facts.interfaces[0].mtu, Some(9000), "{after}");
        assert_eq!(facts.interfaces[1], domain_xml::facts(XML).unwrap().interfaces[1]);
    }

    #[test]
    fn what_is_so_already_stays_to_the_byte() {
        assert_eq!(edit("virtio", &[]).apply(XML, FIRST).unwrap(), XML);
        assert_eq!(edit("e1000e", &[]).apply(XML, SECOND).unwrap(), XML);
        assert_eq!(edit("virtio", &[("vhost", "on")]).apply(XML, FIRST).unwrap(), XML);
    }

    #[test]
    fn options_go_where_libvirt_has_them() {
        let options =
            [("vhost", "off"), ("mrg_rxbuf", "off"), ("guest-tso6", "off"), ("queues", "4")];
        let after = edit("virtio", &options).apply(XML, FIRST).unwrap();
        let driver = "<driver name='qemu' queues='4' rx_queue_size='512'><host csum='off' \
                      mrg_rxbuf='off'/><guest tso4='off' tso6='off'/></driver>";
        assert!(after.contains(driver), "{after}");
        let after = edit("virtio", &[("packed", "on")]).apply(XML, SECOND).unwrap();
        assert!(
            after.contains("<mac address='52:54:00:aa:bb:02'/><driver packed='on'/>"),
            "{after}"
        );
        let unknown = |model: &str, name| {
            Edit::new(model.parse().unwrap(), [(name, "on".to_owned())]).unwrap_err().to_string()
        };
        assert!(unknown("virtio", "romfile").contains("rx_queue_size, tx_queue_size"));
        assert!(unknown("e1000", "vhost").contains("of e1000"));
    }

    #[test]
    fn what_cannot_be_changed_is_said() {
        let edit = edit("e1000", &[]);
        assert!(matches!(edit.apply(XML, "52:54:00:00:00:00"), Err(EditError::NoInterface(_))));
        for kind in PASSED {
            let passed =
                XML.replace("<interface type='bridge'>", &format!("<interface type='{kind}'>"));
            assert!(matches!(edit.apply(&passed, FIRST), Err(EditError::Passed { .. })));
        }
        let vf = Edit::new("vf".parse().unwrap(), []).unwrap_err().to_string();
        assert!(vf.contains("<interface type='hostdev'>"), "{vf}");
    }
}
