//! A NIC as QEMU wants it described: for the command line and for the monitor, from one list.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use serde_json::{Map, Value};
use vioperf_model::nic::{Bus, NicModel};
use vioperf_model::scenario::DeviceOption;
use vioperf_netlink::Mac;

use super::command_line::{LEGACY_BUS, PCIE_SLOTS};
use crate::switch::Backend;

/// Name of the backend of a NIC within QEMU.
fn netdev(number: usize) -> String {
    format!("net{number}")
}

/// Name of the socket within QEMU by which the memory is handed out for a NIC.
pub(super) fn chardev(number: usize) -> String {
    format!("memory{number}")
}

/// Properties in QEMU's order: name and typed value.
pub(super) type Properties = Vec<(String, Value)>;

/// The backend; as many descriptors of `/dev/vhost-net` as it has queues, or none: QEMU itself then moves
/// the frames.
pub(super) fn backend(number: usize, backend: &Backend, vhost: &[OwnedFd]) -> Option<Properties> {
    let mut properties: Properties =
        vec![("type".into(), backend.netdev()?.into()), ("id".into(), netdev(number).into())];
    match backend {
        Backend::Tap(queues) => {
            let (descriptors, of_vhost) = match queues.len() {
                1 => ("fd", "vhostfd"),
                _ => ("fds", "vhostfds"),
            };
            properties.push((descriptors.into(), joined(queues).into()));
            if !vhost.is_empty() {
                properties.push(("vhost".into(), true.into()));
                properties.push((of_vhost.into(), joined(vhost).into()));
            }
        }
        Backend::Stream(socket) => {
            properties.push(("addr.type".into(), "fd".into()));
            properties.push(("addr.str".into(), socket.as_raw_fd().to_string().into()));
        }
        Backend::Slirp(slirp) => {
            properties.push(("ipv6".into(), false.into()));
            properties.push(("net".into(), slirp.network.as_str().into()));
            properties.push(("host".into(), slirp.gateway.to_string().into()));
            properties.push(("dns".into(), slirp.name_server.to_string().into()));
            let forward = |text: &String| serde_json::json!({ "str": text });
            let forwards = slirp.forwards.iter().map(forward).collect();
            properties.push(("hostfwd".into(), Value::Array(forwards)));
        }
        Backend::VhostUser { queues, .. } => {
            properties.push(("chardev".into(), chardev(number).into()));
            if *queues > 1 {
                properties.push(("queues".into(), (*queues).into()));
            }
        }
        Backend::Function { .. } => return None,
    }
    Some(properties)
}

fn joined(descriptors: &[OwnedFd]) -> String {
    descriptors.iter().map(|fd| fd.as_raw_fd().to_string()).collect::<Vec<_>>().join(":")
}

/// The type of the backend that a NIC is on, by QEMU's `info network`: it follows the device that it
/// belongs to, as in ` \ net0: index=0,type=tap,fd=9`.
pub(super) fn backend_of(number: usize, listing: &str) -> Option<&str> {
    let wanted = netdev(number);
    let line = listing.lines().find_map(|line| {
        line.trim_start_matches([' ', '\\']).strip_prefix(&wanted)?.strip_prefix(": ")
    })?;
    line.split(',').find_map(|part| part.strip_prefix("type="))
}

/// A NIC of a guest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    pub model: NicModel,
    pub mac: Mac,
    pub queues: u16,
    /// Which of the guest's it is, from 0.
    pub number: usize,
    /// The PCI address of the host's device that it is, if it is one: that has its hardware address already.
    pub function: Option<&'a str>,
}

impl Device<'_> {
    /// In the slot that its bus asks for, with what the user wants.
    /// `romfile` is empty: nobody boots from the NIC.
    pub(super) fn properties(self, options: &BTreeMap<String, DeviceOption>) -> Properties {
        let Self { model, mac, queues, number, function } = self;
        let row = model.row();
        let mut properties: Properties = vec![
            ("driver".into(), row.qemu_device.into()),
            ("id".into(), format!("nic{number}").into()),
        ];
        match function {
            Some(address) => properties.push(("host".into(), address.into())),
            None => {
                properties.push(("netdev".into(), netdev(number).into()));
                properties.push(("mac".into(), mac.to_string().into()));
            }
        }
        properties.push(("romfile".into(), "".into()));
        match row.bus {
            Bus::PciExpress => {
                let slot = PCIE_SLOTS.get(number).copied().unwrap_or(PCIE_SLOTS[0]);
                properties.push(("bus".into(), slot.into()));
            }
            // Slot 0 of the bridge belongs to its own hot-plug controller.
            Bus::ConventionalPci => {
                properties.push(("bus".into(), LEGACY_BUS.into()));
                properties.push(("addr".into(), (number + 1).to_string().into()));
            }
        }
        if queues > 1 {
            // One vector for each queue's two directions, one for control, one for configuration.
            properties.push(("mq".into(), true.into()));
            properties.push(("vectors".into(), (2 * u32::from(queues) + 2).into()));
        }
        for (name, option) in options {
            properties.retain(|(own, _)| own != name);
            properties.push((name.clone(), option_value(option)));
        }
        properties
    }
}

fn option_value(option: &DeviceOption) -> Value {
    match option {
        DeviceOption::Switch(on) => (*on).into(),
        DeviceOption::Number(number) => (*number).into(),
        DeviceOption::Text(text) => text.as_str().into(),
    }
}

/// For the monitor: a JSON object, where values keep their types; a dot in a name leads into another.
pub(super) fn as_json(properties: Properties) -> Value {
    let mut object = Map::new();
    for (name, value) in properties {
        match name.split_once('.') {
            None => drop(object.insert(name, value)),
            Some((outer, inner)) => {
                let outer = object.entry(outer).or_insert_with(|| Map::new().into());
                if let Some(outer) = outer.as_object_mut() {
                    outer.insert(inner.to_owned(), value);
                }
            }
        }
    }
    Value::Object(object)
}

/// For the command line: the first value bare, then `name=value`; a list's name again and again.
pub(super) fn as_argument(properties: Properties) -> String {
    let mut parts = Vec::new();
    let each = |(name, value): (String, Value)| match value {
        Value::Array(list) => {
            let item = |item: Value| (name.clone(), item.get("str").cloned().unwrap_or(item));
            list.into_iter().map(item).collect()
        }
        value => vec![(name, value)],
    };
    for (name, value) in properties.into_iter().flat_map(each) {
        let text = match value {
            Value::Bool(true) => "on".to_owned(),
            Value::Bool(false) => "off".to_owned(),
            // A comma would begin the next property.
            Value::String(text) => text.replace(',', ",,"),
            other => other.to_string(),
        };
        parts.push(if parts.is_empty() { text } else { format!("{name}={text}") });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Slirp;

    #[test]
    fn every_model_gets_a_slot_of_its_bus() {
        for model in NicModel::made_by_qemu() {
            for number in [0, 1] {
                let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
                let device = Device { model, mac, queues: 1, number, function: None };
                let text = as_argument(device.properties(&BTreeMap::new()));
                let bus = match model.row().bus {
                    Bus::PciExpress => PCIE_SLOTS[number].to_owned(),
                    Bus::ConventionalPci => format!("{LEGACY_BUS},addr={}", number + 1),
                };
                let begin = format!(
                    "{},id=nic{number},netdev=net{number},mac=52:54:00:00:00:01,romfile=,bus={bus}",
                    model.row().qemu_device
                );
                assert!(text.starts_with(&begin), "{text}");
            }
        }
    }

    #[test]
    fn the_backend_is_read_from_what_qemu_lists() {
        let text = "nic0: index=0,type=nic,model=virtio-net-pci,macaddr=52:54:00:c0:00:00\r\n \\ net0: \
                    index=0,type=tap,fd=19\r\n";
        assert_eq!(backend_of(0, text), Some("tap"));
        assert_eq!(backend_of(0, "hub 0\r\n"), None);
    }

    #[test]
    fn a_stream_is_nested_for_the_monitor_and_dotted_on_the_command_line() {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = Backend::Stream(socket.into());
        let number = stream.descriptors()[0].as_raw_fd().to_string();
        let json = as_json(backend(0, &stream, &[]).unwrap());
        assert_eq!(json["addr"], serde_json::json!({ "type": "fd", "str": number }));
        let text = as_argument(backend(0, &stream, &[]).unwrap());
        assert_eq!(text, format!("stream,id=net0,addr.type=fd,addr.str={number}"));
    }

    #[test]
    fn forwards_are_a_list_for_the_monitor_and_named_again_on_the_command_line() {
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let forwards = vec!["tcp:a:1-b:1".to_owned(), "udp:a:1-b:1".to_owned()];
        let network = "198.18.1.1/15".to_owned();
        let slirp = Slirp { network, gateway: address, name_server: address, forwards };
        let slirp = Backend::Slirp(slirp);
        let json = as_json(backend(0, &slirp, &[]).unwrap());
        assert_eq!(json["hostfwd"][1], serde_json::json!({ "str": "udp:a:1-b:1" }));
        let text = as_argument(backend(0, &slirp, &[]).unwrap());
        assert!(text.ends_with("hostfwd=tcp:a:1-b:1,hostfwd=udp:a:1-b:1"), "{text}");
        assert!(text.starts_with("user,id=net0,ipv6=off,net=198.18.1.1/15,host="), "{text}");
    }

    #[test]
    fn queues_are_typed_for_the_monitor() {
        let virtio = "virtio".parse().unwrap();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let device = Device { model: virtio, mac, queues: 2, number: 0, function: None };
        let json = as_json(device.properties(&BTreeMap::new()));
        assert_eq!((&json["mq"], &json["vectors"]), (&true.into(), &6.into()));
    }

    #[test]
    fn what_the_user_wants_of_the_device_comes_last_and_keeps_its_type() {
        let options = [
            ("mrg_rxbuf".to_owned(), DeviceOption::Switch(false)),
            ("rx_queue_size".to_owned(), DeviceOption::Number(512)),
            ("romfile".to_owned(), DeviceOption::Text("a,b".into())),
        ];
        let made = || {
            let mac = Mac([2, 0, 0, 0, 0, 1]);
            let model = "virtio".parse().unwrap();
            Device { model, mac, queues: 1, number: 0, function: None }
                .properties(&options.clone().into())
        };
        let text = as_argument(made());
        assert!(text.ends_with("mrg_rxbuf=off,romfile=a,,b,rx_queue_size=512"), "{text}");
        assert_eq!(text.matches("romfile").count(), 1);
        assert_eq!(as_json(made())["mrg_rxbuf"], Value::Bool(false));
    }
}
