//! What a scenario may say of a virtual machine that libvirt looks after.

use super::Scenario;
use crate::section::SectionName;

/// Of the guest's keys, what can be made in a domain.
const OF_DOMAIN: &str = "device_options";

impl Scenario {
    /// Whether a domain of libvirt is changed: its NIC is one of several, or another than it has.
    pub fn changes_domain(&self) -> bool {
        self.testbed.libvirt.is_some() && !self.factors.nic.is_empty()
    }

    pub(super) fn check_libvirt(&self, check: &mut impl FnMut(bool, &str, String)) {
        let testbed = &self.testbed;
        check(
            testbed.server.is_some() && testbed.libvirt.is_none() && !self.factors.nic.is_empty(),
            "factors.nic",
            "between two machines there is no guest, so no NIC of one: leave it out, or name the domain \
             that the other machine is (testbed.libvirt)"
                .into(),
        );
        check(
            testbed.libvirt.is_some() && testbed.server.is_none(),
            "testbed.libvirt",
            "a domain is measured from outside: give testbed.server with the way to it, such as \
             \"ssh://root@192.0.2.5\""
                .into(),
        );
        let of_guest = self.factors.of(SectionName::Guest).into_iter();
        let is_other = |path: &str| path.split('.').next() != Some(OF_DOMAIN);
        for factor in of_guest.filter(|factor| is_other(&factor.path)) {
            check(
                self.changes_domain(),
                &factor.written(),
                format!("of a domain of libvirt only its NIC and guest.{OF_DOMAIN} are changed"),
            );
        }
        check(
            self.repeat.undisturbed && testbed.server.is_some(),
            "repeat.undisturbed",
            "between two machines nobody watches how fast the cores are: leave it out".into(),
        );
    }
}
