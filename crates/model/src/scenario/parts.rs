//! Parts: a scenario that is made of several measurements, each a plan and a run of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::variants::is_default;
use super::{Changes, Contradiction, Factors, Guest, Repeat, Scenario, Testbed, Variant};
use crate::section::SectionName;
use crate::workload::{Workload, WorkloadKind};

/// One of the measurements that a scenario is made of: what it has otherwise than the scenario. Of `guest`,
/// `testbed` and `workload` single keys are changed; `factors`, `variants` and `repeat` stand in place of the
/// scenario's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is called: its run's directory, and its heading in reports.
    pub name: String,
    /// The question it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What its testbed has otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub testbed: Changes<Testbed, true>,
    /// What its guests have otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: Changes<Guest, true>,
    /// What its load has otherwise. With another kind, keys of the scenario's that the kind has no use for are left
    /// out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Changes<Workload, true>,
    /// What is varied in it, in place of what the scenario varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factors: Option<Factors>,
    /// Its variants, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<Vec<Variant>>,
    /// How often it is measured, in place of what the scenario says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
}

/// More are more than anybody reads on one page.
const MOST_PARTS: usize = 24;

impl Part {
    /// Where a key of the part's own scenario was written: in the part, or in what all parts share.
    fn written_at(&self, index: usize, key: &str) -> String {
        let (section, path) = key.split_once('.').unwrap_or((key, ""));
        let is_own = match section {
            "factors" => self.factors.is_some(),
            "variants" => self.variants.is_some(),
            "repeat" => self.repeat.is_some(),
            _ => match SectionName::named(section) {
                Some(SectionName::Guest) => self.guest.changes(path),
                Some(SectionName::Testbed) => self.testbed.changes(path),
                Some(SectionName::Workload) => self.workload.changes(path),
                None => false,
            },
        };
        if is_own { format!("parts.{index}.{key}") } else { key.to_owned() }
    }
}

impl Scenario {
    /// The scenario of a part, as if it had been written by itself.
    #[must_use]
    pub fn of_part(&self, part: &Part) -> Self {
        Self {
            name: format!("{}/{}", self.name, part.name),
            question: part.question.clone().unwrap_or_else(|| self.question.clone()),
            testbed: part.testbed.applied_to(&self.testbed),
            guest: part.guest.applied_to(&self.guest),
            workload: part.workload.applied_to(&self.workload_for(part)),
            factors: part.factors.clone().unwrap_or_else(|| self.factors.clone()),
            variants: part.variants.clone().unwrap_or_else(|| self.variants.clone()),
            repeat: part.repeat.clone().unwrap_or_else(|| self.repeat.clone()),
            parts: Vec::new(),
            ..self.clone()
        }
    }

    /// The workload without what the part's kind of load has no use for.
    fn workload_for(&self, part: &Part) -> Workload {
        let kind = part.workload.value("kind").cloned().unwrap_or_default();
        match serde_json::from_value::<WorkloadKind>(kind) {
            Ok(kind) if kind != self.workload.kind => self.workload.for_kind(kind),
            _ => self.workload.clone(),
        }
    }

    /// What is wrong with the parts, whatever is in them.
    pub(super) fn check_parts(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            self.parts.len() > MOST_PARTS,
            "parts",
            format!("a scenario has up to {MOST_PARTS} parts"),
        );
        for (index, part) in self.parts.iter().enumerate() {
            let name = &part.name;
            let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            let key = format!("parts.{index}.name");
            check(
                name.is_empty() || name.len() > 40 || !is_word,
                &key,
                format!("`{name}` names no part: use up to 40 letters, digits, - and _"),
            );
            let is_taken = self.parts[..index].iter().any(|other| other.name == *name);
            check(is_taken, &key, format!("two parts are called `{name}`"));
        }
    }

    /// What contradicts itself in the scenario of the part at that place, each with the key where it was written.
    pub(super) fn contradictions_of_part(&self, index: usize, part: &Part) -> Vec<Contradiction> {
        let own = self.of_part(part).scaled();
        let found = own.contradictions().into_iter();
        found
            .map(|Contradiction { key, message }| Contradiction {
                key: part.written_at(index, &key),
                message: format!("part {}: {message}", part.name),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use crate::scenario_file;
    use crate::workload::WorkloadKind;

    const TWO: &str = r#"
name = "two"
question = "?"
scale = 0.1
[testbed]
mtu = 9000
[workload]
kind = "tcp-stream"
duration = "60 s"
socket_buffer = "64 KiB"
message_size = "8 KiB"
[factors]
nic = ["virtio"]
streams = [1, 4]
[[parts]]
name = "streams"
testbed = { switch = "passt" }
[[parts]]
name = "requests"
question = "How long?"
workload = { kind = "request-response", duration = "10 s" }
factors = { nic = ["e1000"] }
repeat = { blocks = 2 }
"#;

    fn parts(text: &str, set: &[&str]) -> Result<Vec<Scenario>, String> {
        let set: Vec<_> = set.iter().map(|set| set.parse().unwrap()).collect();
        let file = scenario_file::parse_file("two.toml", text, &set);
        file.map(|file| file.parts).map_err(|error| error.to_string())
    }

    #[test]
    fn a_part_is_the_scenario_with_its_own_changes() {
        let [streams, requests] = &parts(TWO, &[]).unwrap()[..] else { panic!() };
        assert_eq!((streams.name.as_str(), streams.question.as_str()), ("two/streams", "?"));
        assert_eq!(
            (streams.testbed.mtu, streams.testbed.switch.to_string().as_str()),
            (9000, "passt")
        );
        assert_eq!(streams.workload.duration.as_seconds(), 6.0);
        assert_eq!(streams.factors.keys().len(), 1);
        assert_eq!(requests.workload.kind, WorkloadKind::RequestResponse);
        // Of another kind's keys only those are taken over that this one has a use for.
        assert!(requests.workload.message_size.is_none());
        assert!(requests.workload.socket_buffer.is_some());
        assert_eq!(requests.workload.duration.as_seconds(), 1.0);
        assert!(requests.factors.keys().is_empty());
        assert_eq!((requests.repeat.blocks, streams.repeat.blocks), (2, 3));
    }

    #[test]
    fn what_is_set_from_outside_is_set_in_every_part() {
        let set = ["workload.duration=20s", "blocks=1", "nic=pcnet", "scale=1"];
        for part in parts(TWO, &set).unwrap() {
            assert_eq!(part.workload.duration.as_seconds(), 20.0, "{}", part.name);
            assert_eq!(part.repeat.blocks, 1);
            assert_eq!(part.factors.nic.as_slice().len(), 1);
        }
    }

    #[test]
    fn what_is_set_for_one_part_has_to_fit_no_other() {
        let set = [&"outstanding=4".parse().unwrap()].map(Clone::clone);
        assert!(scenario_file::parse_file("two.toml", TWO, &set).is_err());
        let part = scenario_file::parse_part("two.toml", TWO, "requests", &set).unwrap().unwrap();
        assert_eq!((part.name.as_str(), part.workload.outstanding), ("two/requests", Some(4)));
        assert_eq!(scenario_file::parse_part("two.toml", TWO, "other", &set), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_told_where_it_stands() {
        let bad = TWO.replace("duration = \"10 s\"", "streams = 500");
        let said = parts(&bad, &[]).unwrap_err();
        assert!(said.contains("two.toml:21:"), "{said}");
        assert!(said.contains("part requests: 500 streams"), "{said}");
        let said = parts(&TWO.replace("kind = \"request", "knd = \"request"), &[]).unwrap_err();
        assert!(said.contains("two.toml:21:14") && said.contains("`knd`"), "{said}");
        let said = parts(&TWO.replace("\"requests\"", "\"streams\""), &[]).unwrap_err();
        assert!(said.contains("two parts are called `streams`"), "{said}");
        let said = parts(&TWO.replace("\"requests\"", "\"../up\""), &[]).unwrap_err();
        assert!(said.contains("names no part"), "{said}");
        let said = parts(TWO, &["streams=999"]).unwrap_err();
        assert!(said.contains("--set streams=999"), "{said}");
    }
}
