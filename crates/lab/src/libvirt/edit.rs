//! A domain's XML with another NIC: what is to be otherwise is written into the text, and every other byte
//! stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use roxmltree::Node;
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

/// What an interface is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The NIC's model, in libvirt's words.
    model: String,
    /// What is set of its driver, by libvirt's names.
    driver: BTreeMap<String, String>,
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
        "the interface {mac} is of type {kind}, a device of the host: there is no model that could be changed"
    )]
    Passed {
        /// Its MAC address.
        mac: String,
        /// Its type.
        kind: String,
    },
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
        Ok(Self { model: model.to_owned(), driver })
    }

    /// The model, in libvirt's words.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
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
        if kind == "hostdev" {
            return Err(EditError::Passed { mac: mac.to_owned(), kind: kind.to_owned() });
        }
        let now = child(interface, "model").and_then(|model| model.attribute("type"));
        let is_other = now != Some(self.model.as_str());
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        if is_other {
            let new = format!("<model type='{}'/>", escaped(&self.model));
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
        changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
        let mut text = xml.to_owned();
        for (place, new) in changes {
            text.replace_range(place, &new);
        }
        Ok(text)
    }
}

/// In place of a child, or behind the MAC address where there is none.
fn replacement(interface: Node<'_, '_>, name: &str, new: &str) -> (Range<usize>, String) {
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

    const XML: &str = include_str!("testing/domain.xml");
    const FIRST: &str = "52:54:00:aa:bb:01";
    const SECOND: &str = "52:54:00:aa:bb:02";

    fn edit(model: &str, options: &[(&'static str, &str)]) -> Edit {
        let options = options.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Edit::new(model.parse().unwrap(), options).unwrap()
    }

    /// The lines that are otherwise, without their indentation.
    fn changed<'a>(before: &'a str, after: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
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
        let passed = XML.replace("<interface type='bridge'>", "<interface type='hostdev'>");
        assert!(matches!(edit.apply(&passed, FIRST), Err(EditError::Passed { .. })));
    }
}
