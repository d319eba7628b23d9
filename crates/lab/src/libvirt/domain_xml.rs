//! What a domain's XML says (libvirt.org/formatdomain.html).

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};
use vioperf_model::libvirt::{DomainFacts, DomainInterface};

/// A domain of thousands of disks has fewer.
const MOST_NODES: u32 = 200_000;
/// The name of the guest agent's channel.
const AGENT_CHANNEL: &str = "org.qemu.guest_agent.0";

/// A description that cannot be understood.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the domain's XML cannot be understood: {0}")]
pub struct XmlError(String);

/// Parses it; its places are those of `xml`.
pub(super) fn parse(xml: &str) -> Result<Document<'_>, XmlError> {
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options);
    let document = document.map_err(|error| XmlError(error.to_string()))?;
    if !document.root_element().has_tag_name("domain") {
        return Err(XmlError("it is of something else than a domain".to_owned()));
    }
    Ok(document)
}

/// What it says of the domain; its state and the addresses are not in it.
pub(super) fn facts(xml: &str) -> Result<DomainFacts, XmlError> {
    let document = parse(xml)?;
    let domain = document.root_element();
    let text = |path: &[&str]| text(at(domain, path));
    let kind = at(domain, &["os", "type"]);
    let vcpu = child(domain, "vcpu");
    let now = attribute(vcpu, "current").or_else(|| vcpu?.text().map(str::to_owned));
    let memory = child(domain, "currentMemory").or_else(|| child(domain, "memory"));
    Ok(DomainFacts {
        name: text(&["name"]),
        uuid: text(&["uuid"]),
        state: String::new(),
        hypervisor: domain.attribute("type").unwrap_or_default().to_owned(),
        machine: attribute(kind, "machine").unwrap_or_default(),
        cpu: cpu(child(domain, "cpu")),
        emulator: text(&["devices", "emulator"]),
        vcpus: now.and_then(|vcpus| vcpus.trim().parse().ok()).unwrap_or(1),
        memory_mib: memory.and_then(mebibytes).unwrap_or_default(),
        pinning: pinning(domain),
        interfaces: interfaces(&document).map(interface).collect(),
    })
}

/// Whether the guest's agent listens, as the XML of a running domain tells.
pub(super) fn has_agent(xml: &str) -> bool {
    let Ok(document) = parse(xml) else { return false };
    document.descendants().any(|node| {
        node.has_tag_name("target")
            && node.attribute("name") == Some(AGENT_CHANNEL)
            && node.attribute("state") == Some("connected")
    })
}

/// Its interfaces, in their order.
pub(super) fn interfaces<'a>(document: &'a Document<'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    let devices = child(document.root_element(), "devices");
    devices
        .into_iter()
        .flat_map(|devices| devices.children().filter(|device| device.has_tag_name("interface")))
}

/// What it says of one interface.
pub(super) fn interface(node: Node<'_, '_>) -> DomainInterface {
    let from = child(node, "source");
    // A running domain tells the bridge or device of its network too, by which it is connected at the moment.
    let network = attribute(from, "network");
    let connection = match network {
        Some(_) => "network",
        None => node.attribute("type").unwrap_or_default(),
    };
    let to = ["bridge", "dev", "path", "name"];
    let named = to.iter().find_map(|name| attribute(from, name));
    let source = network.clone().or(named).or_else(|| from.and_then(pci_address));
    let mode = attribute(from, "mode").filter(|_| connection == "direct");
    let port = attribute(child(node, "virtualport"), "type").filter(|_| network.is_none());
    let mut driver = driver(child(node, "driver"));
    let queues = driver.remove("queues").and_then(|queues| queues.parse().ok());
    DomainInterface {
        mac: mac(node).unwrap_or_default(),
        model: attribute(child(node, "model"), "type").unwrap_or_default(),
        connection: connection.to_owned(),
        source,
        mode,
        virtual_port: port,
        target: attribute(child(node, "target"), "dev"),
        queues,
        backend: driver.remove("name"),
        driver,
        mtu: attribute(child(node, "mtu"), "size").and_then(|mtu| mtu.parse().ok()),
        addresses: Vec::new(),
    }
}

/// Of a device that is passed through, its address on the host's PCI bus (`0000:01:10.2`).
fn pci_address(source: Node<'_, '_>) -> Option<String> {
    let address =
        child(source, "address").filter(|address| address.attribute("type") == Some("pci"))?;
    let part = |name: &str| {
        let text = address.attribute(name)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let (domain, bus, slot) = (part("domain").unwrap_or(0), part("bus")?, part("slot")?);
    Some(format!("{domain:04x}:{bus:02x}:{slot:02x}.{:x}", part("function").unwrap_or(0)))
}

/// The MAC address of an interface.
pub(super) fn mac(node: Node<'_, '_>) -> Option<String> {
    Some(attribute(child(node, "mac"), "address")?.to_ascii_lowercase())
}

/// The options of an interface's driver: its attributes, and those of `host` and `guest` with these names
/// and a dot in front.
pub(super) fn driver(node: Option<Node<'_, '_>>) -> BTreeMap<String, String> {
    let Some(node) = node else { return BTreeMap::new() };
    let own = node.attributes().map(|a| (a.name().to_owned(), a.value().to_owned()));
    let sides =
        node.children().filter(|side| side.has_tag_name("host") || side.has_tag_name("guest"));
    let of_sides = sides.flat_map(|side| {
        let prefix = side.tag_name().name().to_owned();
        let named = move |a: roxmltree::Attribute<'_, '_>| {
            (format!("{prefix}.{}", a.name()), a.value().to_owned())
        };
        side.attributes().map(named).collect::<Vec<_>>()
    });
    own.chain(of_sides).collect()
}

pub(super) fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn at<'a, 'input>(node: Node<'a, 'input>, path: &[&str]) -> Option<Node<'a, 'input>> {
    path.iter().try_fold(node, |node, name| child(node, name))
}

fn text(node: Option<Node<'_, '_>>) -> String {
    node.and_then(|node| node.text()).unwrap_or_default().trim().to_owned()
}

fn attribute(node: Option<Node<'_, '_>>, name: &str) -> Option<String> {
    Some(node?.attribute(name)?.to_owned())
}

/// `host-passthrough`, or `custom, Skylake-Server`.
fn cpu(node: Option<Node<'_, '_>>) -> String {
    let mode = attribute(node, "mode").unwrap_or_default();
    let model = text(node.and_then(|node| child(node, "model")));
    [mode, model].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// In the units that libvirt knows; it writes KiB itself.
fn mebibytes(node: Node<'_, '_>) -> Option<u64> {
    let number: u64 = node.text()?.trim().parse().ok()?;
    let bytes = match node.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1_000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    Some(number.checked_mul(bytes)? >> 20)
}

fn pinning(domain: Node<'_, '_>) -> Vec<String> {
    let all = attribute(child(domain, "vcpu"), "cpuset").map(|cores| format!("all vcpus: {cores}"));
    let tuned = child(domain, "cputune").into_iter().flat_map(|tune| tune.children());
    let held = tuned.filter_map(|pin| {
        let cores = pin.attribute("cpuset")?;
        Some(match pin.tag_name().name() {
            "vcpupin" => format!("vcpu {}: {cores}", pin.attribute("vcpu")?),
            "iothreadpin" => format!("iothread {}: {cores}", pin.attribute("iothread")?),
            "emulatorpin" => format!("emulator: {cores}"),
            _ => return None,
        })
    });
    all.into_iter().chain(held).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = include_str!("testing/domain.xml");

    #[test]
    fn reads_what_matters() {
        let facts = facts(XML).unwrap();
        assert_eq!((facts.name.as_str(), facts.hypervisor.as_str()), ("web & co", "kvm"));
        assert_eq!(
            (facts.machine.as_str(), facts.vcpus, facts.memory_mib),
            ("pc-q35-9.2", 2, 2048)
        );
        assert_eq!(facts.cpu, "custom, Skylake-Server");
        assert_eq!(facts.pinning, ["vcpu 0: 2", "vcpu 1: 3", "emulator: 0-1"]);
        let [first, second] = facts.interfaces.as_slice() else { panic!("{facts:#?}") };
        assert_eq!((first.mac.as_str(), first.model.as_str()), ("52:54:00:aa:bb:01", "virtio"));
        assert_eq!((first.connection.as_str(), first.source.as_deref()), ("bridge", Some("br0")));
        assert_eq!((first.target.as_deref(), first.queues), (Some("vnet7"), Some(2)));
        assert_eq!((first.backend.as_deref(), first.mtu), (Some("vhost"), Some(9000)));
        assert_eq!(first.driver["rx_queue_size"], "512");
        assert_eq!(first.driver["host.csum"], "off");
        assert_eq!((second.model.as_str(), second.source.as_deref()), ("e1000e", Some("default")));
        assert!(second.driver.is_empty() && second.queues.is_none() && second.backend.is_none());
        assert!(has_agent(XML) && !has_agent(&XML.replace("connected", "disconnected")));
    }

    #[test]
    fn a_function_of_a_card_is_told_by_its_place_on_the_bus() {
        let function = "<domain><devices><interface type='hostdev' managed='yes'><mac address='52:54:00:AA:BB:03'/>\
                        <driver name='vfio'/><source><address type='pci' domain='0x0000' bus='0x01' slot='0x10' \
                        function='0x2'/></source></interface></devices></domain>";
        let [function] = facts(function).unwrap().interfaces.try_into().unwrap();
        assert_eq!(function.connected_to(), "hostdev 0000:01:10.2");
        assert_eq!((function.model.as_str(), function.backend.as_deref()), ("", Some("vfio")));
    }

    #[test]
    fn what_is_no_domain_is_an_error() {
        for text in ["", "<network/>", "<domain>", "<!DOCTYPE a [<!ENTITY b 'c'>]><domain/>", "x"] {
            assert!(facts(text).is_err(), "{text}");
        }
        assert_eq!(facts("<domain/>").unwrap().interfaces, []);
    }
}
