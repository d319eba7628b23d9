//! What drivers count by themselves: `ethtool -S` (`ETHTOOL_GSTATS`), of every interface of the
//! network namespace.

use std::collections::BTreeMap;

use crate::interface::ethtool::Device;

/// More interfaces than this are not asked: a host with very many containers.
const MOST_INTERFACES: usize = 64;

/// By interface and the driver's own name. What stands at 0 is left out, and an interface whose
/// driver counts nothing is too.
pub(super) fn read(interfaces: &[String]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut devices = BTreeMap::new();
    for interface in interfaces.iter().take(MOST_INTERFACES) {
        let counted = Device::open(interface).and_then(|device| device.statistics());
        if let Ok(counted) = counted {
            devices.insert(interface.clone(), unique(counted));
        }
    }
    devices
}

/// vmxnet3 gives each queue a heading (`Tx Queue#`, its value the number) and indents what follows,
/// under names that are the same for every queue.
fn unique(counted: Vec<(String, u64)>) -> BTreeMap<String, u64> {
    let mut heading = None;
    let mut counters = BTreeMap::new();
    for (name, value) in counted {
        let plain = name.trim().to_owned();
        if plain.ends_with('#') {
            heading = Some(format!("{plain}{value}"));
            continue;
        }
        let name = match &heading {
            Some(heading) if name.starts_with(' ') => format!("{heading} {plain}"),
            _ => plain,
        };
        if value > 0 && !name.is_empty() {
            counters.insert(name, value);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_under_a_heading_are_told_apart() {
        let counted = [
            ("Tx Queue#", 0),
            ("  ucast pkts tx", 5),
            ("Tx Queue#", 1),
            ("  ucast pkts tx", 6),
            ("  pkts tx err", 0),
            ("tx timeout count", 1),
        ];
        let counted = counted.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let expected = [
            ("Tx Queue#0 ucast pkts tx".to_owned(), 5),
            ("Tx Queue#1 ucast pkts tx".to_owned(), 6),
            ("tx timeout count".to_owned(), 1),
        ];
        assert_eq!(unique(counted), BTreeMap::from(expected));
    }

    #[test]
    fn an_interface_without_statistics_is_left_out() {
        assert!(read(&["lo".to_owned(), "none-such".to_owned()]).is_empty());
    }
}
