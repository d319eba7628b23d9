//! Switching offloads of an interface on and off, by the names that people know from ethtool(8).

use std::collections::BTreeMap;

use nix::errno::Errno;

use super::ethtool::{Device, Feature};

/// Short names, and the kernel's names that each stands for: the beginning and the end of them.
const SHORT_NAMES: &[(&str, &str, &str)] = &[
    ("rx", "rx-checksum", ""),
    ("tx", "tx-checksum-", ""),
    ("sg", "tx-scatter-gather", ""),
    ("tso", "tx-tcp", "-segmentation"),
    ("gso", "tx-generic-segmentation", ""),
    ("gro", "rx-gro", "rx-gro"),
    ("lro", "rx-lro", ""),
    ("rxhash", "rx-hashing", ""),
    ("rxvlan", "rx-vlan-hw-parse", ""),
    ("txvlan", "tx-vlan-hw-insert", ""),
];

/// Why an offload is not as it was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OffloadError {
    #[error("`{interface}` does not let its offloads be changed: {errno}")]
    Refused { interface: String, errno: Errno },
    #[error("`{interface}` has no offload `{name}`; `ethtool -k` lists those it has: {known}")]
    Unknown { interface: String, name: String, known: String },
    #[error(
        "the offload `{name}` of `{interface}` stays {}: its driver, or another offload, does not allow {}",
        on_or_off(!wanted), on_or_off(*wanted)
    )]
    Stays { interface: String, name: String, wanted: bool },
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Switches them, and sees that they are as asked.
pub(super) fn switch(interface: &str, wanted: &BTreeMap<String, bool>) -> Result<(), OffloadError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let refused = |errno: Errno| OffloadError::Refused { interface: interface.to_owned(), errno };
    let device = Device::open(interface).map_err(refused)?;
    let before = device.features().map_err(refused)?;
    let mut changes: BTreeMap<String, bool> = BTreeMap::new();
    for (name, on) in wanted {
        let meant = meant_by(name, &before);
        if meant.is_empty() {
            let known = before.keys().cloned().collect::<Vec<_>>().join(", ");
            let interface = interface.to_owned();
            return Err(OffloadError::Unknown { interface, name: name.clone(), known });
        }
        let changeable = meant.iter().filter(|(_, feature)| feature.changeable);
        changes.extend(changeable.map(|(name, _)| ((*name).to_owned(), *on)));
    }
    device.set_features(&changes).map_err(refused)?;
    let after = device.features().map_err(refused)?;
    match wanted.iter().find(|(name, on)| !is_so(name, **on, &after)) {
        None => Ok(()),
        Some((name, &wanted)) => {
            Err(OffloadError::Stays { interface: interface.to_owned(), name: name.clone(), wanted })
        }
    }
}

/// The features that a name stands for: its own, or those of a short name.
fn meant_by<'a>(
    name: &str,
    features: &'a BTreeMap<String, Feature>,
) -> Vec<(&'a str, &'a Feature)> {
    let short = SHORT_NAMES.iter().find(|(short, _, _)| *short == name);
    let is_meant = |feature: &str| match short {
        Some((_, begin, end)) => feature.starts_with(begin) && feature.ends_with(end),
        None => feature == name,
    };
    let meant = features.iter().filter(|(feature, _)| is_meant(feature));
    meant.map(|(name, feature)| (name.as_str(), feature)).collect()
}

/// On is what has any of its features active, off what has none: there is one checksum for each
/// protocol, and no device has them all.
fn is_so(name: &str, on: bool, features: &BTreeMap<String, Feature>) -> bool {
    meant_by(name, features).iter().any(|(_, feature)| feature.active) == on
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(list: &[(&str, bool, bool)]) -> BTreeMap<String, Feature> {
        let feature = |&(name, changeable, active): &(&str, bool, bool)| {
            (name.to_owned(), Feature { changeable, active })
        };
        list.iter().map(feature).collect()
    }

    #[test]
    fn short_names_stand_for_what_ethtool_means() {
        let features = features(&[
            ("rx-gro", true, true),
            ("rx-gro-hw", true, true),
            ("tx-tcp-segmentation", true, false),
            ("tx-tcp6-segmentation", true, true),
            ("tx-tcp-mangleid-segmentation", false, false),
        ]);
        let meant = |name| meant_by(name, &features).iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(meant("gro"), ["rx-gro"]);
        assert_eq!(meant("rx-gro-hw"), ["rx-gro-hw"]);
        assert_eq!(meant("tso").len(), 3);
        assert!(meant("warp").is_empty());
        assert!(is_so("tso", true, &features) && !is_so("tso", false, &features));
    }

    #[test]
    fn what_is_none_is_named() {
        let wanted = |name: &str| [(name.to_owned(), false)].into();
        let message = switch("lo", &wanted("warp")).unwrap_err().to_string();
        assert!(message.contains("`warp`") && message.contains("rx-gro"), "{message}");
        let message = switch("none-such", &wanted("gro")).unwrap_err().to_string();
        assert!(message.contains("none-such"), "{message}");
        assert_eq!(switch("none-such", &BTreeMap::new()), Ok(()));
    }
}
