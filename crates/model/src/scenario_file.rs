//! Reading a scenario from TOML, with `--set` applied, and with errors that point at the place.

mod overrides;

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::Table;

use crate::scenario::{Contradiction, Part, Scenario};
use crate::suggest::nearest;

pub use overrides::{Override, OverrideError};

/// Everything that is wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError(Vec<Problem>);

/// One thing that is wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, `built-in NAME`, or the option (`--set key=value`).
    pub origin: String,
    /// Where in the file.
    pub position: Option<Position>,
    /// What is wrong and what to write.
    pub message: String,
}

/// A place in a file, both counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl ScenarioError {
    /// The problems, at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&problem.origin)?;
            if let Some(Position { line, column }) = problem.position {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": {}", problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

/// What a scenario file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioFile {
    /// The scenario; where it has parts as it was written, else with what was changed from outside and its scale.
    pub scenario: Scenario,
    /// The scenario of every part, with what was changed from outside and the scale.
    pub parts: Vec<Scenario>,
}

/// Reads the scenario in `text`; `origin` is its file or name, for messages.
///
/// # Errors
/// With the line and column of the first thing that cannot be read, or else of everything that
/// contradicts itself.
pub fn parse(origin: &str, text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
    parse_file(origin, text, overrides).map(|file| file.scenario)
}

/// Reads the scenario in `text`, and each of its parts.
///
/// # Errors
/// As [`parse`].
pub fn parse_file(
    origin: &str,
    text: &str,
    overrides: &[Override],
) -> Result<ScenarioFile, ScenarioError> {
    let written: Scenario = toml::from_str(text).map_err(|error| located(origin, text, &error))?;
    if written.parts.is_empty() {
        let table = || toml::from_str(text).map_err(|error| located(origin, text, &error));
        let scenario = changed(written, table, overrides)?.scaled();
        refuse(scenario.contradictions(), origin, text, overrides)?;
        return Ok(ScenarioFile { scenario, parts: Vec::new() });
    }
    if overrides.is_empty() {
        refuse(written.contradictions(), origin, text, overrides)?;
    }
    let own = |part| with_parts_changes(origin, &written, part, overrides);
    let parts = written.parts.iter().map(own).collect::<Result<_, _>>()?;
    Ok(ScenarioFile { scenario: written, parts })
}

/// Reads the part of that name alone, so that what is changed from outside has to fit no other; `None` where there is
/// no such part.
///
/// # Errors
/// As [`parse`].
pub fn parse_part(
    origin: &str,
    text: &str,
    part: &str,
    overrides: &[Override],
) -> Result<Option<Scenario>, ScenarioError> {
    let written = parse(origin, text, &[])?;
    let found = written.parts.iter().find(|own| own.name == part);
    found.map(|part| with_parts_changes(origin, &written, part, overrides)).transpose()
}

/// The scenario of a part with what is changed from outside, and the scale.
fn with_parts_changes(
    origin: &str,
    written: &Scenario,
    part: &Part,
    overrides: &[Override],
) -> Result<Scenario, ScenarioError> {
    let own = written.of_part(part);
    let table = Table::try_from(&own);
    let table = || table.map_err(|error| unreadable(origin, &error.to_string()));
    let own = changed(own, table, overrides)?.scaled();
    let place = format!("{origin}, part {}", part.name);
    refuse(own.contradictions(), &place, "", overrides)?;
    Ok(own)
}

/// The scenario with what is changed in it from outside of its file.
fn changed(
    mut scenario: Scenario,
    table: impl FnOnce() -> Result<Table, ScenarioError>,
    overrides: &[Override],
) -> Result<Scenario, ScenarioError> {
    if overrides.is_empty() {
        return Ok(scenario);
    }
    let mut table = table()?;
    // One after the other, so that the one at fault is the one that is named.
    for change in overrides {
        change.apply(&mut table);
        scenario = Scenario::deserialize(table.clone())
            .map_err(|error| unreadable(change.text(), error.message()))?;
    }
    Ok(scenario)
}

fn unreadable(origin: &str, message: &str) -> ScenarioError {
    let message = with_hint(message);
    ScenarioError(vec![Problem { origin: origin.to_owned(), position: None, message }])
}

fn refuse(
    contradictions: Vec<Contradiction>,
    origin: &str,
    text: &str,
    overrides: &[Override],
) -> Result<(), ScenarioError> {
    let problems: Vec<Problem> = contradictions
        .into_iter()
        .map(|found| contradiction(origin, text, overrides, &found.key, &found.message))
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(ScenarioError(problems)) }
}

fn contradiction(
    origin: &str,
    text: &str,
    overrides: &[Override],
    key: &str,
    message: &str,
) -> Problem {
    let set_by = overrides.iter().rev().find(|change| change.sets(key));
    let message = format!("`{key}`: {message}");
    match set_by {
        Some(change) => Problem { origin: change.text().to_owned(), position: None, message },
        None => {
            let position = span_of(text, key).map(|span| position(text, span.start));
            Problem { origin: origin.to_owned(), position, message }
        }
    }
}

/// Where the value of a dotted key stands in the text; of a list's items the number is their key.
fn span_of(text: &str, key: &str) -> Option<Range<usize>> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let (first, rest) =
        key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let mut value = document.get_ref().get(first)?;
    for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
        value = match part.parse::<usize>() {
            Ok(index) => value.get_ref().as_array()?.get(index)?,
            Err(_) => value.get_ref().as_table()?.get(part)?,
        };
    }
    Some(value.span())
}

fn located(origin: &str, text: &str, error: &toml::de::Error) -> ScenarioError {
    let position = error.span().map(|span| position(text, span.start));
    let message = with_hint(error.message());
    ScenarioError(vec![Problem { origin: origin.to_owned(), position, message }])
}

fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// Adds the nearest valid name to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_hint(message: &str) -> String {
    let message = message.trim_end();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    match quoted.next().filter(|_| is_unknown).and_then(|word| nearest(word, quoted)) {
        Some(found) => format!("{message}; did you mean `{found}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::NicModel;
    use crate::section::SectionName;

    const SCENARIO: &str = "name = \"s\"\nquestion = \"q\"\n\n[workload]\nkind = \"tcp-stream\"\n\
        duration = \"1s\"\n\n[factors]\nnic = [\"virtio\", \"e1000\"]\nstreams = 4\n";

    fn error_of(text: &str, overrides: &[&str]) -> String {
        let overrides: Vec<Override> = overrides.iter().map(|o| o.parse().unwrap()).collect();
        parse("s.toml", text, &overrides).unwrap_err().to_string()
    }

    #[test]
    fn reads_levels_as_a_list_or_bare() {
        let scenario = parse("s.toml", SCENARIO, &[]).unwrap();
        assert_eq!(scenario.factors.nic.as_slice().len(), 2);
        assert_eq!(scenario.factors.levels(SectionName::Workload, "streams"), [4]);
    }

    #[test]
    fn an_unknown_key_gets_its_place_and_the_nearest() {
        let message = error_of(&SCENARIO.replace("duration", "durration"), &[]);
        assert!(message.starts_with("s.toml:6:1: unknown field `durration`"), "{message}");
        assert!(message.ends_with("did you mean `duration`?"), "{message}");
    }

    #[test]
    fn an_unknown_value_gets_its_place_and_the_nearest() {
        let message = error_of(&SCENARIO.replace("e1000", "e100"), &[]);
        assert!(message.starts_with("s.toml:9:18: unknown NIC model `e100`"), "{message}");
        assert!(message.contains("did you mean `e1000`?"), "{message}");
        let message = error_of(&SCENARIO.replace("1s", "1 second"), &[]);
        assert!(message.starts_with("s.toml:6:12: `1 second` is not a time"), "{message}");
        let message = error_of(&SCENARIO.replace("tcp-stream", "tcp-steam"), &[]);
        assert!(message.ends_with("did you mean `tcp-stream`?"), "{message}");
    }

    #[test]
    fn all_contradictions_are_told_at_once_each_with_its_place() {
        let text = SCENARIO.replace("1s", "1ms").replace("= 4", "= [0, 0]");
        let error = parse("s.toml", &text, &[]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("s.toml:6:12: `workload.duration`: 1 ms is too short"),
            "{message}"
        );
        assert!(message.contains("s.toml:10:11: `factors.streams`: 0 streams"), "{message}");
        assert!(message.contains("listed twice"), "{message}");
    }

    #[test]
    fn set_replaces_by_full_or_by_unique_name() {
        let overrides: Vec<Override> =
            ["nic=rtl8139,pcnet", "workload.duration=2s", "blocks=5", "reuse=none"]
                .iter()
                .map(|o| o.parse().unwrap())
                .collect();
        let scenario = parse("s.toml", SCENARIO, &overrides).unwrap();
        let names: Vec<_> =
            scenario.factors.nic.as_slice().iter().map(|nic: &NicModel| nic.name()).collect();
        assert_eq!(names, ["rtl8139", "pcnet"]);
        assert_eq!(scenario.repeat.blocks, 5);
        let search = SCENARIO.replace("tcp-stream", "rate-search").replace("\"1s\"", "\"20s\"");
        for set in ["width=3%", "search.width=3%", "workload.search.width=3%"] {
            let scenario = parse("s.toml", &search, &[set.parse().unwrap()]).unwrap();
            assert_eq!(scenario.workload.search.width, crate::units::Ratio::from_ppm(30_000));
        }
    }

    #[test]
    fn variants_are_named_and_changed_from_outside() {
        let variants = |texts: &[&str]| {
            let all = texts.iter().map(|text| Override::of_variant(text).unwrap());
            parse("s.toml", SCENARIO, &all.collect::<Vec<_>>())
        };
        let scenario = variants(&["old", "new:qemu=/opt/qemu", "new:offloads.gro=off"]);
        // One alone is no comparison, and the first is alone when it is read.
        let message = variants(&["old"]).unwrap_err().to_string();
        assert!(message.contains("2 to 8 variants"), "{message}");
        let scenario = scenario.unwrap();
        let names: Vec<_> = scenario.variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["old", "new"]);
        let guest = scenario.guest_of(scenario.variants.last());
        assert_eq!(guest.qemu.as_deref(), Some("/opt/qemu"));
        assert_eq!(guest.offloads, [("gro".to_owned(), false)].into());
        // A rate is the link's, unless the load's is named; other keys of the load need no name.
        let scenario = variants(&["link:rate=1 Gbit/s", "load:warmup=700ms"]).unwrap();
        let [link, load] = &scenario.variants[..] else { panic!() };
        assert!(scenario.testbed_of(Some(link)).rate.is_some());
        assert_eq!(
            scenario.workload_of(Some(load)).warmup,
            crate::units::TimeSpan::from_millis(700)
        );
        let scenario = variants(&["a", "b:workload.rate=1 Mbit/s"]).unwrap();
        assert!(scenario.workload_of(scenario.variants.last()).rate.is_some());
        let error = Override::of_variant("new:qmu=x").unwrap_err().to_string();
        assert!(error.contains("did you mean `guest.qemu`"), "{error}");
        let set = parse("s", SCENARIO, &["guest.offloads.tso=off".parse().unwrap()]).unwrap();
        assert_eq!(set.guest.offloads, [("tso".to_owned(), false)].into());
    }

    #[test]
    fn a_wrong_set_is_named() {
        let message = error_of(SCENARIO, &["streams=1", "nic=virtoi"]);
        assert!(message.starts_with("--set nic=virtoi: unknown NIC model `virtoi`"), "{message}");
        let message = error_of(SCENARIO, &["blocks=0"]);
        assert!(message.starts_with("--set blocks=0: `repeat.blocks`"), "{message}");
        let message = "durration=1s".parse::<Override>().unwrap_err().to_string();
        assert!(message.contains("did you mean `workload.duration`?"), "{message}");
        assert!("streams".parse::<Override>().is_err());
    }

    #[test]
    fn any_key_is_varied_by_its_own_name_and_its_errors_have_their_place() {
        let with = |more: &str| format!("{SCENARIO}{more}");
        let scenario = parse("s", &with("vcpus = [1, 2]\noffloads.gro = [true, false]\n"), &[]);
        let factors = scenario.unwrap().factors;
        assert_eq!(factors.levels(SectionName::Guest, "vcpus"), [1, 2]);
        assert_eq!(factors.levels(SectionName::Guest, "offloads.gro"), [true, false]);
        for (more, wanted) in [
            ("vcpu = 1", "s.toml:11:1: unknown field `vcpu`"),
            ("vcpus = [1, 'x']", "s.toml:11:13: invalid type: string \"x\""),
            ("vcpus = [1, 90]", "s.toml:11:9: `factors.vcpus`: a guest has 1 to 64"),
            ("vcpus = [1, 1]", "s.toml:11:9: `factors.vcpus`: the level 1 is listed twice"),
            ("offloads.gro = ['x']", "s.toml:11:17: invalid type: string \"x\""),
            ("rate = ['1 Mbit/s']", "s.toml:11:1: `rate` is a key of testbed and of workload"),
            ("reuse = ['run']", "s.toml:11:1: unknown field `reuse`"),
            ("testbed.rate = ['1 bit/s']", "s.toml:11:16: `factors.testbed.rate`: a link has"),
            ("vcpus = { a = 1 }", "s.toml:11:9: a level or a list of levels goes here"),
            ("guest = 1", "s.toml:11:9: a section has keys"),
        ] {
            let message = error_of(&with(more), &[]);
            assert!(message.starts_with(wanted), "{more}: {message}");
        }
        assert!(error_of(&with("vcpu = 1"), &[]).ends_with("did you mean `vcpus`?"));
    }

    #[test]
    fn several_values_set_levels_and_one_sets_the_key_unless_it_is_varied() {
        let with = |set: &str| parse("s", SCENARIO, &[set.parse().unwrap()]).unwrap();
        let scenario = with("vcpus=1,2");
        assert_eq!(scenario.factors.levels(SectionName::Guest, "vcpus"), [1, 2]);
        assert_eq!(with("guest.vcpus=1,2"), scenario);
        assert_eq!(with("factors.vcpus=1,2"), scenario);
        assert_eq!(with("vcpus=2").guest.vcpus, Some(2));
        let scenario = with("offloads.gro=on,off");
        assert_eq!(scenario.factors.levels(SectionName::Guest, "offloads.gro"), [true, false]);
        assert_eq!(with("queues=2").guest.queues, Some(2), "not testbed.peer.queues");
        assert_eq!(with("rings.rx=256").guest.rings.rx, Some(256));
        assert_eq!(with("testbed.peer.rings.rx=256").testbed.peer.rings.rx, Some(256));
        let scenario = with("workload.streams=8");
        assert_eq!(scenario.factors.levels(SectionName::Workload, "streams"), [8]);
        assert_eq!(with("sender_cpus=0,1").workload.sender_cpus.as_slice(), [0, 1]);
        let message = error_of(SCENARIO, &["vcpus=1,90"]);
        assert!(message.starts_with("--set vcpus=1,90: `factors.vcpus`"), "{message}");
    }

    proptest::proptest! {
        #[test]
        fn almost_a_scenario_never_panics(edits in crate::testing::edits()) {
            let damaged = crate::testing::mutated(SCENARIO.as_bytes(), &edits);
            let text = String::from_utf8_lossy(&damaged);
            match parse("x", &text, &[]) {
                Ok(scenario) => {
                    let plan = crate::plan::Plan::new(&scenario, 1);
                    proptest::prop_assert_eq!(plan.blocks.len(), scenario.repeat.blocks as usize);
                }
                Err(error) => proptest::prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn never_panics(text in "(?s).{0,60}") {
            let _ = parse("x", &text, &[]);
            let _ = text.parse::<Override>();
        }
    }
}
