//! Variants: A and B, measured in one run in turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Contradiction, Guest, GuestChanges, Placement, Scenario, Testbed};
use crate::units::BitRate;

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
    pub guest: GuestChanges,
    /// What its testbed has otherwise; then its baselines are measured too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub testbed: TestbedChanges,
}

/// What a variant has otherwise than the scenario's testbed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TestbedChanges {
    /// As [`Testbed::mtu`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// As [`Testbed::rate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// As [`Testbed::placement`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Testbed {
    /// The testbed with a variant's changes.
    #[must_use]
    pub fn changed(&self, changes: &TestbedChanges) -> Self {
        Self {
            mtu: changes.mtu.unwrap_or(self.mtu),
            rate: changes.rate.or(self.rate),
            placement: changes.placement.unwrap_or(self.placement),
            ..self.clone()
        }
    }
}

/// More are more than anybody compares, and each wants its own snapshot.
const MOST_VARIANTS: usize = 8;

impl Scenario {
    /// The guest of a variant, or of the scenario that has none.
    pub fn guest_of(&self, variant: Option<&Variant>) -> Guest {
        variant.map_or_else(|| self.guest.clone(), |variant| self.guest.changed(&variant.guest))
    }

    /// The testbed of a variant, or of the scenario that has none.
    pub fn testbed_of(&self, variant: Option<&Variant>) -> Testbed {
        variant.map_or_else(|| self.testbed.clone(), |own| self.testbed.changed(&own.testbed))
    }

    /// Every variant, or the one of a scenario that has none.
    pub fn variants_or_none(&self) -> Vec<Option<&Variant>> {
        match self.variants.as_slice() {
            [] => vec![None],
            variants => variants.iter().map(Some).collect(),
        }
    }

    /// Whether a variant has another testbed, so that baselines differ as well.
    pub fn varies_testbed(&self) -> bool {
        self.variants.iter().any(|variant| variant.testbed != TestbedChanges::default())
    }

    pub(super) fn check_variants(&self, check: &mut impl FnMut(bool, &'static str, String)) {
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
            for Contradiction { message, .. } in self.guest.changed(&variant.guest).contradictions()
            {
                check(true, "variants", format!("{name}: {message}"));
            }
        }
        self.check_variants_differ(check);
    }

    fn check_variants_differ(&self, check: &mut impl FnMut(bool, &'static str, String)) {
        check(
            self.testbed.server.is_some(),
            "variants",
            "between two machines vioperf changes nothing: compare two tests instead".into(),
        );
        check(
            self.factors.nic.is_empty() && !self.varies_testbed(),
            "variants",
            "without a NIC model there is no guest that could vary: give factors.nic".into(),
        );
        let sets_mtu = self.variants.iter().any(|variant| variant.testbed.mtu.is_some());
        check(
            sets_mtu && !self.factors.mtu.is_empty(),
            "variants",
            "the MTU is a factor already: leave it out here or there".into(),
        );
    }
}
