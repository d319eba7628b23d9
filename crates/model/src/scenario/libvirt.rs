//! What a scenario may say of a virtual machine that libvirt looks after.

use super::{Scenario, Testbed};
use crate::plan;
use crate::section::SectionName;

/// Of the guest's keys, what can be made in a domain.
const OF_DOMAIN: &str = "device_options";
/// Of the testbed's keys, what can be another while a domain is measured.
const SOURCE: &str = "libvirt.source";

impl Scenario {
    /// Whether a domain of libvirt is changed: its NIC, or what that is connected to, is one of several, or another
    /// than it has.
    pub fn changes_domain(&self) -> bool {
        let is_elsewhere = |testbed: &Testbed| {
            testbed.libvirt.as_ref().is_some_and(|domain| domain.source.is_some())
        };
        self.testbed.libvirt.is_some()
            && (!self.factors.nic.is_empty() || plan::testbeds(self).iter().any(is_elsewhere))
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
        for factor in self.factors.of(SectionName::Testbed) {
            let is_source = factor.path == SOURCE;
            check(
                is_source && testbed.libvirt.is_none(),
                &factor.written(),
                "there is no domain that could be connected elsewhere: name it (testbed.libvirt)"
                    .into(),
            );
            check(
                testbed.server.is_some() && !is_source && factor.path != "ip",
                &factor.written(),
                "between two machines vioperf changes nothing: leave it out".into(),
            );
        }
        let of_variants = self.variants.iter().filter(|variant| {
            let others = variant.testbed.keys().any(|key| key != "libvirt");
            others || (!variant.testbed.is_empty() && testbed.libvirt.is_none())
        });
        for variant in of_variants {
            let message = format!(
                "{}: of the testbed between two machines only testbed.{SOURCE} is changed, of a domain that \
                 testbed.libvirt names",
                variant.name
            );
            check(testbed.server.is_some(), "variants", message);
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
    use crate::plan::{Cell, Plan};
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

    #[test]
    fn what_a_domain_is_connected_to_can_be_a_factor_and_differ_between_variants() {
        let parse = |libvirt: &str, more: &str| {
            let text = format!(
                "name = \"s\"\nquestion = \"q\"\n[testbed]\nserver = \"ssh://root@192.0.2.5\"\n{libvirt}\n\
                 [workload]\nkind = \"tcp-stream\"\n{more}\n"
            );
            scenario_file::parse("s", &text, &[])
        };
        let domain = "libvirt = { domain = \"web\" }";
        let scenario = parse(domain, "").unwrap();
        assert!(!scenario.changes_domain());
        let levels = "libvirt.source = [\"default\", \"bridge:br1\", \"direct:eth0:vepa\"]";
        let scenario = parse(domain, &format!("[factors]\n{levels}")).unwrap();
        assert!(scenario.changes_domain());
        let cells = Plan::new(&scenario, 0).cells;
        let source = |cell: &Cell| {
            let domain = cell.testbed.libvirt.as_ref().unwrap();
            assert_eq!(domain.domain, "web");
            domain.source.as_ref().map(ToString::to_string).unwrap_or_default()
        };
        let sources: Vec<String> = cells.iter().map(source).collect();
        assert_eq!(sources, ["", "bridge:br1", "direct:eth0:vepa"]);
        assert!(cells.iter().all(|cell| cell.nic.is_none() && cell.baseline.is_none()));
        assert!(!cells[0].shares_testbed_with(&cells[1]));
        let both = parse(domain, &format!("[factors]\nnic = [\"e1000\", \"virtio\"]\n{levels}"));
        assert_eq!(Plan::new(&both.unwrap(), 0).cells.len(), 6);
        let fixed = parse("libvirt = { domain = \"web\", source = \"network:n\" }", "").unwrap();
        assert!(fixed.changes_domain());
        assert_eq!(source(&Plan::new(&fixed, 0).cells[0]), "network:n");

        let variants = |own: &str| {
            format!("[[variants]]\nname = \"a\"\n[[variants]]\nname = \"b\"\ntestbed = {{ {own} }}")
        };
        let scenario = parse(domain, &variants("libvirt = { source = \"bridge:br1\" }")).unwrap();
        let cells = Plan::new(&scenario, 0).cells;
        assert_eq!(cells.iter().map(source).collect::<Vec<_>>(), ["", "bridge:br1"]);

        for (libvirt, more, said) in [
            (domain, "[factors]\nlibvirt.source = \"br1\"".to_owned(), "direct:INTERFACE:MODE"),
            (
                domain,
                "[factors]\nlibvirt.domain = [\"a\", \"b\"]".to_owned(),
                "unknown field `domain`",
            ),
            (
                domain,
                "[factors]\nlibvirt = [{ domain = \"a\" }]".to_owned(),
                "holds for a whole run",
            ),
            (domain, variants("libvirt = { uri = \"a\" }"), "holds for a whole run"),
            (domain, variants("mtu = 9000"), "only testbed.libvirt.source"),
            ("", format!("[factors]\n{levels}"), "name it (testbed.libvirt)"),
            ("", variants("libvirt = { source = \"bridge:br1\" }"), "testbed.libvirt names"),
        ] {
            let message = parse(libvirt, &more).unwrap_err().to_string();
            assert!(message.contains(said), "{more}: {message}");
        }
    }
}
