//! Variants: A and B, measured in one run in turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Changes, Contradiction, Guest, Scenario, Testbed};
use crate::section::SectionName;
use crate::workload::Workload;

/// One of two or more ways of having everything, measured beside each other in every block: two
/// versions of QEMU, two kernels, an option on and off. The first is what the others are compared
/// with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it is called.
    pub name: String,
    /// What its guests have otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: Changes<Guest>,
    /// What its testbed has otherwise; then its baselines are measured too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub testbed: Changes<Testbed>,
    /// What its load has otherwise; then its baselines are measured too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Changes<Workload>,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// More are more than anybody compares, and each wants its own snapshot.
const MOST_VARIANTS: usize = 8;

impl Scenario {
    /// The guest of a variant, or of the scenario that has none.
    pub fn guest_of(&self, variant: Option<&Variant>) -> Guest {
        variant.map_or_else(|| self.guest.clone(), |variant| variant.guest.applied_to(&self.guest))
    }

    /// The testbed of a variant, or of the scenario that has none.
    pub fn testbed_of(&self, variant: Option<&Variant>) -> Testbed {
        variant.map_or_else(|| self.testbed.clone(), |own| own.testbed.applied_to(&self.testbed))
    }

    /// The load of a variant, or of the scenario that has none.
    pub fn workload_of(&self, variant: Option<&Variant>) -> Workload {
        variant.map_or_else(|| self.workload.clone(), |own| own.workload.applied_to(&self.workload))
    }

    /// Every variant, or the one of a scenario that has none.
    pub fn variants_or_none(&self) -> Vec<Option<&Variant>> {
        match self.variants.as_slice() {
            [] => vec![None],
            variants => variants.iter().map(Some).collect(),
        }
    }

    /// Whether a variant has another testbed or load, so that baselines differ as well.
    pub fn varies_baselines(&self) -> bool {
        let varies = |own: &Variant| !own.testbed.is_empty() || !own.workload.is_empty();
        self.variants.iter().any(varies)
    }

    pub(super) fn check_variants(&self, check: &mut impl FnMut(bool, &str, String)) {
        let variants = &self.variants;
        if variants.is_empty() {
            return;
        }
        check(
            !(2..=MOST_VARIANTS).contains(&variants.len()),
            "variants",
            format!("a comparison needs 2 to {MOST_VARIANTS} variants"),
        );
        for (at, variant) in variants.iter().enumerate() {
            let name = &variant.name;
            let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
            check(
                name.is_empty() || name.len() > 40 || !is_word,
                "variants",
                format!("`{name}` names no variant: use up to 40 letters, digits, -, _, . and +"),
            );
            let is_taken = variants[..at].iter().any(|other| other.name == *name);
            check(is_taken, "variants", format!("two variants are called `{name}`"));
            let guest = variant.guest.applied_to(&self.guest);
            for Contradiction { message, .. } in guest.contradictions() {
                check(true, "variants", format!("{name}: {message}"));
            }
        }
        self.check_variants_differ(check);
    }

    fn check_variants_differ(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            self.testbed.server.is_some() && !self.changes_domain(),
            "variants",
            "between two machines vioperf changes nothing: compare two tests instead".into(),
        );
        check(
            !self.factors.have_guests() && !self.varies_baselines(),
            "variants",
            "without a NIC or a disk there is no guest that could vary: give factors.nic or factors.disk".into(),
        );
        for factor in self.factors.keys() {
            let is_changed = self.variants.iter().any(|variant| match factor.section {
                SectionName::Guest => variant.guest.changes(&factor.path),
                SectionName::Testbed => variant.testbed.changes(&factor.path),
                SectionName::Workload => variant.workload.changes(&factor.path),
            });
            check(
                is_changed,
                "variants",
                format!("{} is a factor already: leave it out here or there", factor.full_path()),
            );
        }
    }
}
