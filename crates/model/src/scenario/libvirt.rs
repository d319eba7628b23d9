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
        let of_variants = self.variants.iter().flat_map(|variant| variant.guest.keys());
        for key in of_variants.filter(|key| is_other(key)) {
            let message = format!(
                "of a domain of libvirt only guest.{OF_DOMAIN} are changed, not guest.{key}"
            );
            check(testbed.libvirt.is_some(), "variants", message);
        }
        check(
            self.repeat.undisturbed && testbed.server.is_some(),
            "repeat.undisturbed",
            "between two machines nobody watches how fast the cores are: leave it out".into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario_file;

    #[test]
    fn what_is_not_made_in_a_domain_is_refused_of_variants_too() {
        let with = |change: &str| {
            let text = format!(
                "name = \"s\"\nquestion = \"q\"\n[testbed]\nserver = \"ssh://root@192.0.2.5\"\n\
                 libvirt = {{ domain = \"web\" }}\n[workload]\nkind = \"tcp-stream\"\n\
                 [factors]\nnic = \"virtio\"\n[[variants]]\nname = \"a\"\n\
                 [[variants]]\nname = \"b\"\nguest = {{ {change} }}\n"
            );
            scenario_file::parse("s", &text, &[])
        };
        assert!(with("device_options = { mrg_rxbuf = false }").is_ok());
        let message = with("vcpus = 2").unwrap_err().to_string();
        assert!(message.contains("not guest.vcpus"), "{message}");
    }
}
