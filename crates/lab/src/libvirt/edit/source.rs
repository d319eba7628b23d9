//! What an interface is connected to, written into its XML.

use roxmltree::Node;
use vioperf_model::libvirt::DomainSource;

use super::super::domain_xml::{self, child};
use super::{Change, escaped, replacement};

/// The type of a port of Open vSwitch's.
const OPENVSWITCH: &str = "openvswitch";
/// Parts of an interface that mean something to one kind of connection alone: another kind has none of them, or its own.
const OF_CONNECTION: &[&str] = &["virtualport", "portForward"];

/// How libvirt has it: the type of the interface, its `source` element, and the type of its virtual port.
struct Written {
    kind: &'static str,
    source: String,
    port: Option<&'static str>,
}

fn written(source: &DomainSource) -> Written {
    let (kind, attributes, port) = match source {
        DomainSource::Bridge(name) => ("bridge", format!("bridge='{}'", escaped(name)), None),
        DomainSource::OpenVswitch(name) => {
            ("bridge", format!("bridge='{}'", escaped(name)), Some(OPENVSWITCH))
        }
        DomainSource::Network(name) => ("network", format!("network='{}'", escaped(name)), None),
        DomainSource::Direct { device, mode } => {
            ("direct", format!("dev='{}' mode='{}'", escaped(device), mode.name()), None)
        }
    };
    Written { kind, source: format!("<source {attributes}/>"), port }
}

/// Whether the interface is connected so: then it stays as it is, port groups and profiles included.
fn is_so(source: &DomainSource, interface: Node<'_, '_>) -> bool {
    let now = domain_xml::interface(interface);
    let to = now.source.as_deref();
    let port = now.virtual_port.as_deref();
    match source {
        DomainSource::Bridge(name) => {
            now.connection == "bridge" && to == Some(name.as_str()) && port != Some(OPENVSWITCH)
        }
        DomainSource::OpenVswitch(name) => {
            now.connection == "bridge" && to == Some(name.as_str()) && port == Some(OPENVSWITCH)
        }
        DomainSource::Network(name) => now.connection == "network" && to == Some(name.as_str()),
        DomainSource::Direct { device, mode } => {
            // libvirt's own choice where none is written.
            let mode_now = now.mode.as_deref().unwrap_or("vepa");
            now.connection == "direct" && to == Some(device.as_str()) && mode_now == mode.name()
        }
    }
}

/// What is to be otherwise so that the interface is connected to it.
pub(super) fn changes(source: &DomainSource, interface: Node<'_, '_>) -> Vec<Change> {
    if is_so(source, interface) {
        return Vec::new();
    }
    let Written { kind, source, port } = written(source);
    let mut changes = Vec::new();
    if let Some(of) = interface.attribute_node("type").filter(|of| of.value() != kind) {
        changes.push((of.range_value(), kind.to_owned()));
    }
    let mut new = source;
    if let Some(port) = port {
        new += &format!("<virtualport type='{port}'/>");
    }
    changes.push(replacement(interface, "source", &new));
    let backend = child(interface, "backend").filter(|backend| backend.has_attribute("type"));
    let gone =
        interface.children().filter(|part| OF_CONNECTION.iter().any(|it| part.has_tag_name(*it)));
    changes.extend(gone.chain(backend).map(|part| (part.range(), String::new())));
    changes
}

#[cfg(test)]
mod tests {
    use super::super::Edit;
    use super::super::tests::{FIRST, SECOND, XML, changed};
    use super::*;

    fn connected(xml: &str, mac: &str, source: &str) -> String {
        let edit = Edit::default().connected_to(Some(source.parse().unwrap()));
        let after = edit.apply(xml, mac).unwrap();
        assert_eq!(edit.apply(&after, mac).unwrap(), after, "it is so");
        after
    }

    fn seen(xml: &str, at: usize) -> String {
        domain_xml::facts(xml).unwrap().interfaces[at].connected_to()
    }

    #[test]
    fn it_is_connected_elsewhere_and_nothing_else_changes() {
        let after = connected(XML, FIRST, "bridge:br1");
        assert_eq!(
            changed(XML, &after),
            (vec!["<source bridge='br0'/>"], vec!["<source bridge='br1'/>"])
        );
        for (source, words) in [
            ("network:default", "network default"),
            ("direct:eth0:passthrough", "direct eth0 (passthrough)"),
            ("openvswitch:ovs0", "openvswitch ovs0"),
        ] {
            let after = connected(XML, FIRST, source);
            assert_eq!(seen(&after, 0), words);
            let (before, facts) =
                (domain_xml::facts(XML).unwrap(), domain_xml::facts(&after).unwrap());
            assert_eq!(before.interfaces[1], facts.interfaces[1]);
            let [before, facts] = [before, facts].map(|facts| facts.interfaces[0].clone());
            assert_eq!(
                (before.mac, before.model, before.driver),
                (facts.mac, facts.model, facts.driver)
            );
        }
        assert_eq!(seen(&connected(XML, SECOND, "bridge:a"), 1), "bridge a");
    }

    #[test]
    fn what_is_so_already_stays_to_the_byte() {
        assert_eq!(connected(XML, FIRST, "bridge:br0"), XML);
        let group = XML.replace("network='default'", "network='default' portgroup='fast'");
        assert_eq!(connected(&group, SECOND, "network:default"), group);
        // So a running domain tells of it, on a network that is a bridge, or a macvtap.
        for live in [
            "bridge'><source network='default' bridge='br0'/>",
            "direct'><source network='default' dev='a' mode='vepa'/>",
        ] {
            let live = XML.replace("network'>\n      <mac", &format!("{live}<mac"));
            let live = live.replace("<source network='default'/>", "");
            assert_eq!(seen(&live, 1), "network default");
            assert_eq!(connected(&live, SECOND, "network:default"), live);
        }
    }

    #[test]
    fn what_belongs_to_another_kind_of_connection_goes_with_it() {
        let port = "<source bridge='br0'/><virtualport type='openvswitch'><parameters interfaceid='x'/></virtualport>";
        let of_ovs = XML.replace("<source bridge='br0'/>", port);
        assert_eq!(seen(&of_ovs, 0), "openvswitch br0");
        assert_eq!(connected(&of_ovs, FIRST, "bridge:br0"), XML);
        assert_eq!(connected(&of_ovs, FIRST, "openvswitch:br0"), of_ovs);
        let user = "<interface type='user'><backend type='passt'/><portForward proto='tcp'/>";
        let user = XML
            .replace("<interface type='network'>", user)
            .replace("<source network='default'/>", "");
        let after = connected(&user, SECOND, "bridge:br1");
        assert!(!after.contains("passt") && !after.contains("portForward"), "{after}");
        assert_eq!(seen(&after, 1), "bridge br1");
    }
}
