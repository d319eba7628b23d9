//! Every key of a scenario file, from the schema: what it takes, what holds without it, what it means.

use std::fmt::Write as _;

use schemars::schema_for;
use serde_json::{Map, Value};
use vioperf_model::disk::DISK_MODELS;
use vioperf_model::nic::NIC_MODELS;
use vioperf_model::scenario::Scenario;
use vioperf_model::section::SectionName;
use vioperf_model::switch::SWITCHES;
use vioperf_model::workload::{WorkloadKind, kinds_of};

use super::in_cell;

const INTRODUCTION: &str = "\
# Every key of a scenario file

<!-- Made by `vioperf reference scenario` from the program's own schema: change the texts there, then `make reference`. -->

[Scenario files](scenarios.md) tells how they are written and what factors and variants are. Here is every key, as this version
takes it; `vioperf schema scenario` prints the same as a JSON Schema, for editors.

*Without it* is what holds where a key is absent. A key that is marked ◆ can be varied, as `factors.KEY` (`factors.SECTION.KEY`
where two sections have one so called), and be another in a variant. On the command line it is `--set KEY=VALUE`.

Forms of values: times are written `\"10s\"`, `\"250ms\"`, `\"1.5 s\"`, `\"3m\"`; sizes `\"512 MiB\"`, `\"64 KiB\"`, `\"1500 B\"`; rates
`\"2.5 Gbit/s\"`, `\"100 Mbit/s\"`; parts `\"0.5 %\"`; loads of cores `\"50 %\"`, `\"250 %\"`.
";

/// The order of the page; what a scenario has beside these is told at the top.
const SECTIONS: &[&str] = &["workload", "guest", "testbed", "repeat"];

/// Lists of tables, told by themselves.
const LISTS: [&str; 2] = ["variants", "parts"];

/// The page.
pub fn page() -> String {
    let schema = schema_for!(Scenario).to_value();
    let schema = Schema { definitions: &schema["$defs"], value: &schema };
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## At the top\n");
    let rows = schema.rows("");
    let at_top: Vec<Row> = rows
        .into_iter()
        .filter(|row| !row.is_table && !LISTS.contains(&row.key.as_str()))
        .collect();
    write_table(&mut page, &at_top);
    for section in SECTIONS {
        let _ = write!(page, "\n## `[{section}]`\n");
        let inside = schema.at(section);
        let _ = write!(page, "\n{}\n", inside.about());
        let mut rows = Vec::new();
        inside.collect(&format!("{section}."), "", &mut rows);
        write_table(&mut page, &rows);
    }
    page.push_str("\n## `[factors]`\n\nEvery key that is marked ◆ above, with a list of levels or one value, and beside these:\n");
    page.push_str("\n| key | takes | without it | meaning |\n| --- | --- | --- | --- |\n");
    page.push_str("| `factors.nic` | NIC models, see below | no guest: only the baseline is measured | NIC models; each gives cells beside the baseline's |\n");
    page.push_str("| `factors.disk` | disk models, see below | no guest's disk: the host's own file alone | disk models, for loads of kind `disk`; each gives cells beside the baseline's |\n");
    page.push_str("\n### NIC models\n\n| name | QEMU's device | driver in the guest | |\n| --- | --- | --- | --- |\n");
    for row in NIC_MODELS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            row.name,
            row.qemu_device,
            row.driver,
            in_cell(row.about)
        );
    }
    page.push_str("\n### Disk models\n\n| name | QEMU's devices | driver in the guest | |\n| --- | --- | --- | --- |\n");
    for row in DISK_MODELS {
        let devices = row.qemu_devices().collect::<Vec<_>>().join(", ");
        let about = in_cell(row.about);
        let _ = writeln!(page, "| `{}` | {devices} | {} | {about} |", row.name, row.driver);
    }
    page.push_str("\n### Switches\n\n| name | |\n| --- | --- |\n");
    for row in SWITCHES {
        let _ = writeln!(page, "| `{}` | {} |", row.name, in_cell(row.about));
    }
    page.push_str("\n## `[[variants]]`\n\nTwo or more, measured in turn and compared: [A and B in one run](scenarios.md#a-and-b-in-one-run).\n");
    page.push_str("\n| key | takes | without it | meaning |\n| --- | --- | --- | --- |\n");
    page.push_str("| `name` | text | has to be given | what it is called |\n");
    page.push_str("| `guest`, `testbed` | a table | nothing differs | keys of these sections that are marked ◆, as this variant has them |\n");
    page.push_str("\n## `[[parts]]`\n\nWhere one measurement does not say all: each is a plan and a run of its own, measured in turn. [Parts](scenarios.md#parts) tells more.\n");
    page.push_str("\n| key | takes | without it | meaning |\n| --- | --- | --- | --- |\n");
    page.push_str("| `name` | text | has to be given | what it is called, and its directory in that of the run |\n");
    page.push_str("| `question` | text | the scenario's | the question it answers |\n");
    page.push_str("| `workload`, `guest`, `testbed` | a table | as in the scenario | any keys of these sections, as this part has them |\n");
    page.push_str("| `factors`, `variants`, `repeat` | as above | as in the scenario | what stands in place of the scenario's, as a whole |\n");
    page
}

fn write_table(page: &mut String, rows: &[Row]) {
    page.push_str("\n| key | takes | without it | meaning |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let mark = if row.is_factor { " ◆" } else { "" };
        let kinds = row.kinds.iter().map(|kind| format!("`{}`", kind.name())).collect::<Vec<_>>();
        let of =
            if kinds.is_empty() { String::new() } else { format!(" Of {}.", kinds.join(", ")) };
        let choices: String = row.choices.iter().map(|choice| format!("<br>{choice}")).collect();
        let _ = writeln!(
            page,
            "| `{}`{mark} | {} | {} | {}{of}{} |",
            row.key,
            in_cell(&row.takes),
            in_cell(&row.absent),
            in_cell(&row.about),
            in_cell(&choices),
        );
    }
}

/// A line of a table.
struct Row {
    key: String,
    takes: String,
    absent: String,
    about: String,
    /// The values that a word is chosen from, each with its meaning.
    choices: Vec<String>,
    /// The kinds of load that it is for; empty where these are all.
    kinds: Vec<WorkloadKind>,
    is_factor: bool,
    /// Whether it is a table whose keys are told one by one.
    is_table: bool,
}

/// A schema, and where what it refers to is defined.
#[derive(Clone, Copy)]
struct Schema<'v> {
    definitions: &'v Value,
    value: &'v Value,
}

impl<'v> Schema<'v> {
    fn with(self, value: &'v Value) -> Self {
        Self { value, ..self }
    }

    /// What it is a reference to, or may be beside null.
    fn resolved(self) -> Self {
        if let Some(name) = self.value["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.with(&self.definitions[name]).resolved();
        }
        let is_null = |one: &&Value| one["type"].as_str() == Some("null");
        match self.value["anyOf"].as_array().map(Vec::as_slice) {
            Some([one, null]) if is_null(&null) => self.with(one).resolved(),
            _ => self,
        }
    }

    fn at(self, key: &str) -> Self {
        self.with(&self.value["properties"][key])
    }

    fn properties(self) -> Option<&'v Map<String, Value>> {
        self.resolved().value["properties"].as_object()
    }

    fn about(self) -> String {
        let own = self.value["description"].as_str();
        own.or(self.resolved().value["description"].as_str()).unwrap_or_default().to_owned()
    }

    /// Every key with those of the tables in it.
    fn collect(self, prefix: &str, absent: &str, rows: &mut Vec<Row>) {
        for row in self.rows_without(prefix, absent) {
            let name = row.key.strip_prefix(prefix).unwrap_or(&row.key).to_owned();
            let (inside, absent) = (format!("{}.", row.key), row.absent.clone());
            let is_table = row.is_table;
            rows.push(row);
            if is_table {
                self.resolved().at(&name).collect(&inside, &absent, rows);
            }
        }
    }

    fn rows(self, prefix: &str) -> Vec<Row> {
        self.rows_without(prefix, "")
    }

    /// Its keys; `absent` is what holds where they are, if they do not say so themselves.
    fn rows_without(self, prefix: &str, absent: &str) -> Vec<Row> {
        let whole = self.resolved();
        let required: Vec<&str> = whole.value["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = self.properties().into_iter().flatten();
        let row = |(name, value): (&String, &Value)| {
            let schema = self.with(value);
            let key = format!("{prefix}{name}");
            let of_schema = match &value["default"] {
                Value::Null => value["x-absent"].as_str().map(str::to_owned),
                default => Some(format!("`{}`", in_toml(default))),
            };
            let absent = match of_schema {
                Some(said) => said,
                None if required.contains(&name.as_str()) => "has to be given".to_owned(),
                None => absent.to_owned(),
            };
            let (section, path) = key.split_once('.').unwrap_or(("", &key));
            let kinds = kinds_of(&key);
            Row {
                takes: schema.takes(),
                absent,
                about: schema.about(),
                choices: schema.choices(),
                kinds: if kinds.len() < WorkloadKind::ALL.len() { kinds } else { Vec::new() },
                is_factor: SectionName::named(section).is_some_and(|own| own.key(path).is_some()),
                is_table: schema.properties().is_some(),
                key,
            }
        };
        properties.map(row).collect()
    }

    /// What it takes, in a few words.
    fn takes(self) -> String {
        let whole = self.resolved();
        let value = whole.value;
        if value["enum"].is_array() {
            return "a name, see below".into();
        }
        if value["oneOf"].is_array() {
            return "a word".into();
        }
        if value["additionalProperties"].is_object() {
            return format!("a table of {}", whole.with(&value["additionalProperties"]).takes());
        }
        if value["anyOf"].is_array() {
            let all = value["anyOf"].as_array().into_iter().flatten();
            let words: Vec<String> = all.map(|one| self.with(one).takes()).collect();
            return words.join(", or ");
        }
        let is_own = self.value.get("$ref").is_some() || self.value["anyOf"].is_array();
        let of = match &value["type"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).find(|one| *one != "null"),
            one => one.as_str(),
        };
        match of {
            Some("boolean") => "`true`, `false`".into(),
            Some("integer") => "a whole number".into(),
            Some("array") => match whole.with(&value["items"]).takes().as_str() {
                "a whole number" => "a list of whole numbers".into(),
                "a part of a whole" => "a list of parts of a whole".into(),
                one => format!("a list, each {one}"),
            },
            Some("object") => "a table".into(),
            Some("string") if is_own => value["description"]
                .as_str()
                .map_or("text".into(), |about| about.split(',').next().unwrap_or(about).into()),
            _ => "text".into(),
        }
    }

    /// Its words, each with what it means.
    fn choices(self) -> Vec<String> {
        let all = self.resolved().value["oneOf"].as_array();
        let said = |one: &Value| {
            let (word, about) = (one["const"].as_str()?, one["description"].as_str()?);
            Some(format!("`{word}`: {about}"))
        };
        all.into_iter().flatten().filter_map(said).collect()
    }
}

fn in_toml(value: &Value) -> String {
    match value {
        Value::Object(table) if table.is_empty() => "{}".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_row() -> Vec<Row> {
        let schema = schema_for!(Scenario).to_value();
        let schema = Schema { definitions: &schema["$defs"], value: &schema };
        let mut rows = Vec::new();
        for section in SECTIONS {
            schema.at(section).collect(&format!("{section}."), "", &mut rows);
        }
        rows
    }

    #[test]
    fn every_key_says_what_it_takes_what_holds_without_it_and_what_it_means() {
        for Row { key, takes, absent, about, .. } in every_row() {
            assert!(!takes.is_empty() && !about.is_empty(), "{key} says too little");
            assert!(!absent.is_empty(), "{key} does not say what holds without it (x-absent)");
        }
    }

    #[test]
    fn every_key_that_can_be_varied_is_told() {
        let rows = every_row();
        for section in SectionName::ALL {
            for key in section.keys() {
                let path = format!("{}.{}", section.name(), key.path);
                assert!(rows.iter().any(|row| row.key == path && row.is_factor), "{path}");
            }
        }
    }
}
