//! What a Linux bridge says of itself, and of its ports.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    BridgePortState, BridgeStpState, InfoBridge, InfoBridgePort, InfoData, InfoPortData,
    LinkAttribute, LinkInfo, LinkMessage,
};

use crate::socket::{Socket, Subject};
use crate::{NetlinkError, Result};

/// How a bridge takes in ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BridgeSettings {
    /// Whether it speaks the spanning tree protocol: then a new port forwards only after a while.
    pub spanning_tree: bool,
    /// How long a new port listens, and then learns, where it does, in hundredths of a second.
    pub forward_delay: u32,
    /// Whether it filters VLANs.
    pub vlan_filtering: bool,
    /// The VLAN that a new port is in then; none is in none.
    pub default_vlan: Option<u16>,
}

impl Socket {
    /// The settings of a bridge.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`] when it is no bridge, or not there.
    pub fn bridge_settings(&mut self, index: u32) -> Result<BridgeSettings> {
        let infos = self.link_infos(index)?;
        let data = infos.into_iter().find_map(|info| match info {
            LinkInfo::Data(InfoData::Bridge(data)) => Some(data),
            _ => None,
        });
        let data = data
            .ok_or_else(|| NetlinkError::NoSuchLink { what: format!("index {index}, a bridge") })?;
        Ok(settings_of(&data))
    }

    /// Whether a bridge's port forwards frames.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`] when the port is not there.
    pub fn port_forwards(&mut self, index: u32) -> Result<bool> {
        Ok(self.link_infos(index)?.iter().any(|info| match info {
            LinkInfo::PortData(InfoPortData::BridgePort(data)) => {
                data.contains(&InfoBridgePort::State(BridgePortState::Forwarding))
            }
            _ => false,
        }))
    }

    fn link_infos(&mut self, index: u32) -> Result<Vec<LinkInfo>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let subject =
            Subject { operation: "read a bridge", interface: &crate::link::by_index(index) };
        let answers = self.get(subject, RouteNetlinkMessage::GetLink(message))?;
        let links = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.attributes),
            _ => None,
        });
        let infos = links.flatten().filter_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => Some(infos),
            _ => None,
        });
        Ok(infos.flatten().collect())
    }
}

fn settings_of(data: &[InfoBridge]) -> BridgeSettings {
    let mut settings = BridgeSettings::default();
    for value in data {
        match value {
            InfoBridge::StpState(state) => {
                settings.spanning_tree = *state != BridgeStpState::Disabled;
            }
            InfoBridge::ForwardDelay(delay) => settings.forward_delay = *delay,
            InfoBridge::VlanFiltering(filtering) => settings.vlan_filtering = *filtering,
            InfoBridge::VlanDefaultPvid(vlan) => {
                settings.default_vlan = (*vlan > 0).then_some(*vlan);
            }
            _ => {}
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_on_a_new_port_is_read() {
        let data = [
            InfoBridge::ForwardDelay(1500),
            InfoBridge::StpState(BridgeStpState::KernelStp),
            InfoBridge::VlanFiltering(true),
            InfoBridge::VlanDefaultPvid(0),
        ];
        let wanted = BridgeSettings {
            spanning_tree: true,
            forward_delay: 1500,
            vlan_filtering: true,
            default_vlan: None,
        };
        assert_eq!(settings_of(&data), wanted);
        let plain =
            [InfoBridge::StpState(BridgeStpState::Disabled), InfoBridge::VlanDefaultPvid(1)];
        let wanted = BridgeSettings { default_vlan: Some(1), ..BridgeSettings::default() };
        assert_eq!(settings_of(&plain), wanted);
    }
}
