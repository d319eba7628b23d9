//! Setting an interface up as it is asked for, and seeing that it then is so.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use vioperf_model::interface_settings::{Coalesce, InterfaceSettings, Rings};
use vioperf_netlink::Link;

use super::ethtool::Device;
use super::offloads::{self, OffloadError};
use super::steering::{self, Way};

/// Why an interface is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Offload(#[from] OffloadError),
    #[error("`{interface}` does not let its {what} be set: {errno}; leave it out for this driver")]
    Refused { interface: String, what: &'static str, errno: Errno },
    #[error("`{interface}` has {what} {given} in place of {asked}: its driver allows no other")]
    Stays { interface: String, what: &'static str, asked: u32, given: u32 },
    #[error(
        "`{interface}` takes no {what}: {}: {source}; the kernel knows it where there are several cores, and of \
         sending several queues", .path.display()
    )]
    Steering { interface: String, what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{interface}` has {what} `{given}` in place of `{asked}`: are there such cores?")]
    SteeringStays { interface: String, what: &'static str, asked: String, given: String },
    #[error("`{interface}` takes no steering of packets: {reason}")]
    NoSteering { interface: String, reason: String },
}

/// Does what is asked for. Queues come first, as a driver may make everything else anew with them.
pub(super) fn apply(
    link: &Link,
    mac: &str,
    wanted: &InterfaceSettings,
) -> Result<(), SettingsError> {
    let interface = link.name.as_str();
    let InterfaceSettings { queues, offloads, rings, coalesce, rps, xps } = wanted;
    let at = At { interface };
    if let Some(queues) = queues {
        at.set_queues(u32::from(*queues), link)?;
    }
    if !rings.is_empty() {
        at.set_rings(rings)?;
    }
    if !coalesce.is_empty() {
        at.set_coalescing(coalesce)?;
    }
    offloads::switch(interface, offloads)?;
    let class = Path::new("/sys/class/net");
    for (way, wanted) in [(Way::Receive, rps), (Way::Transmit, xps)] {
        if let Some(wanted) = wanted {
            steering::steer(class, interface, mac, way, wanted)?;
        }
    }
    Ok(())
}

struct At<'a> {
    interface: &'a str,
}

impl At<'_> {
    fn device(&self, what: &'static str) -> Result<Device, SettingsError> {
        Device::open(self.interface).map_err(|errno| self.refused(what, errno))
    }

    fn refused(&self, what: &'static str, errno: Errno) -> SettingsError {
        SettingsError::Refused { interface: self.interface.to_owned(), what, errno }
    }

    fn same(
        &self,
        what: &'static str,
        asked: Option<u32>,
        given: u32,
    ) -> Result<(), SettingsError> {
        match asked {
            Some(asked) if asked != given => {
                let interface = self.interface.to_owned();
                Err(SettingsError::Stays { interface, what, asked, given })
            }
            _ => Ok(()),
        }
    }

    fn set_queues(&self, asked: u32, link: &Link) -> Result<(), SettingsError> {
        const WHAT: &str = "queues";
        let device = self.device(WHAT)?;
        let refused = |errno| self.refused(WHAT, errno);
        // What is said to have been made is in use where a driver has no channels that it could tell of.
        let made = (link.rx_queues, link.tx_queues) == (Some(asked), Some(asked));
        let now = match device.channels() {
            Err(Errno::EOPNOTSUPP) if made => return Ok(()),
            now => now.map_err(refused)?,
        };
        if (now.rx, now.tx) != (asked, asked) {
            device.set_channels(asked).map_err(refused)?;
        }
        let given = device.channels().map_err(refused)?;
        self.same("receive queues", Some(asked), given.rx)?;
        self.same("transmit queues", Some(asked), given.tx)
    }

    fn set_rings(&self, asked: &Rings) -> Result<(), SettingsError> {
        const WHAT: &str = "rings";
        let device = self.device(WHAT)?;
        let refused = |errno| self.refused(WHAT, errno);
        let now = device.rings().map_err(refused)?;
        if (asked.rx.unwrap_or(now.rx), asked.tx.unwrap_or(now.tx)) != (now.rx, now.tx) {
            device.set_rings(asked).map_err(refused)?;
        }
        let given = device.rings().map_err(refused)?;
        self.same("a receive ring of", asked.rx, given.rx)?;
        self.same("a transmit ring of", asked.tx, given.tx)
    }

    fn set_coalescing(&self, asked: &Coalesce) -> Result<(), SettingsError> {
        const WHAT: &str = "coalescing of interrupts";
        let device = self.device(WHAT)?;
        let refused = |errno| self.refused(WHAT, errno);
        device.set_coalescing(asked).map_err(refused)?;
        let given = device.coalescing().map_err(refused)?;
        self.same("rx_usecs", asked.rx_usecs, given.rx_us)?;
        self.same("rx_frames", asked.rx_frames, given.rx_frames)?;
        self.same("tx_usecs", asked.tx_usecs, given.tx_us)?;
        self.same("tx_frames", asked.tx_frames, given.tx_frames)?;
        self.same("adaptive_rx", asked.adaptive_rx.map(u32::from), given.adaptive_rx.into())?;
        self.same("adaptive_tx", asked.adaptive_tx.map(u32::from), given.adaptive_tx.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_does_not_have_is_said() {
        let lo = vioperf_netlink::Socket::open().unwrap().link_by_name("lo").unwrap();
        let refused = |wanted: InterfaceSettings| {
            apply(&lo, "00:00:00:00:00:00", &wanted).unwrap_err().to_string()
        };
        let rings = Rings { rx: Some(512), tx: None };
        let message = refused(InterfaceSettings { rings, ..InterfaceSettings::default() });
        assert!(message.contains("rings"), "{message}");
        let queues = InterfaceSettings { queues: Some(2), ..InterfaceSettings::default() };
        assert!(refused(queues).contains("queues"));
        let coalesce = Coalesce { rx_usecs: Some(50), ..Coalesce::default() };
        let message = refused(InterfaceSettings { coalesce, ..InterfaceSettings::default() });
        assert!(message.contains("coalescing"), "{message}");
        let one = InterfaceSettings { queues: Some(1), ..InterfaceSettings::default() };
        assert!(apply(&lo, "", &one).is_ok(), "it has one, though no channels");
    }
}
