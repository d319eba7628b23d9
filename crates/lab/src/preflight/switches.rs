//! Which switches a lab can be built with here.

use std::path::Path;

use vioperf_model::scenario::SwitchKind;

use super::Check;
use crate::qemu::{Qemu, QemuError};
use crate::switch::{Purpose, lacks};

/// Every switch, and what those that cannot be had want. None of them is needed by all scenarios, so
/// what is missing is a warning.
#[must_use]
pub fn switches(root: &Path, qemu: &Result<Qemu, QemuError>) -> Check {
    const NAME: &str = "switches";
    let guests = Purpose::Guests(qemu.as_ref().ok());
    let asked = SwitchKind::all().map(|kind| (kind, lacks(kind, root, None, guests)));
    let (lacking, had): (Vec<_>, Vec<_>) = asked.partition(|(_, lack)| lack.is_some());
    let names = |kinds: &[(SwitchKind, _)]| {
        kinds.iter().map(|(kind, _)| kind.name()).collect::<Vec<_>>().join(", ")
    };
    if lacking.is_empty() {
        return Check::ok(NAME, names(&had));
    }
    let found = match had.is_empty() {
        true => format!("none of {}", names(&lacking)),
        false => format!("{}; without {}", names(&had), names(&lacking)),
    };
    let of = |(kind, lack): &(SwitchKind, Option<_>)| {
        lack.as_ref().map(|lack| format!("{kind}: {lack}"))
    };
    Check::warn(NAME, found, lacking.iter().filter_map(of).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::{Status, machine_with};
    use super::*;

    #[test]
    fn a_machine_without_a_tun_device_names_the_switches_that_it_cannot_have() {
        let qemu = Qemu::find(None);
        let check = switches(machine_with(&[]).path(), &qemu);
        assert_eq!(check.status, Status::Warn, "{check:?}");
        assert!(check.found.contains("bridge"), "{check:?}");
        let advice = check.advice.unwrap();
        assert!(
            advice.contains("bridge: there is no /dev/net/tun: `sudo modprobe tun`"),
            "{advice}"
        );
    }
}
