//! Factors: what is varied. Any key of the guest, the testbed and the workload can be, by its own name.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::changes::{CheckedText, CheckedValue};
use crate::disk::DiskModel;
use crate::levels::Levels;
use crate::nic::NicModel;
use crate::section::{self, Key, SectionName, Takes, sections_with};

/// What is varied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Factors {
    /// NIC models; each gives cells beside the baseline's.
    pub nic: Levels<NicModel>,
    /// Disk models; each gives cells beside the baseline's.
    pub disk: Levels<DiskModel>,
    /// Everything else.
    keys: Vec<Factor>,
}

/// A key that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// The section that the key is of.
    pub section: SectionName,
    /// The key's name; inside of a table dotted (`offloads.gro`).
    pub path: String,
    /// As it was written below `factors`: with its section, or without.
    written: String,
    /// Its levels, as they were written.
    pub levels: Vec<Value>,
}

/// Factors that are models of a guest's devices, and no keys.
const DEVICES: [&str; 2] = ["nic", "disk"];

/// The level that leaves a key as the scenario has it.
pub const AS_IT_IS: &str = "default";

impl Factor {
    /// The key with its section (`guest.offloads.gro`).
    pub fn full_path(&self) -> String {
        format!("{}.{}", self.section.name(), self.path)
    }

    /// Whether every cell's name has its level, in an order and in words of its own.
    pub(crate) fn is_usual(&self) -> bool {
        USUAL.contains(&self.path.as_str())
    }

    /// The key with `factors` before it, as it was written.
    pub fn written(&self) -> String {
        format!("factors.{}", self.written)
    }
}

impl Factors {
    /// NIC models, and nothing else is varied.
    pub fn of_nics(nic: impl Into<Levels<NicModel>>) -> Self {
        Self { nic: nic.into(), ..Self::default() }
    }

    /// Whether any cell has a guest in its path.
    pub fn have_guests(&self) -> bool {
        !self.nic.is_empty() || !self.disk.is_empty()
    }

    /// Varies a key too.
    ///
    /// # Errors
    /// In words, when there is no such key, or a level is none of its values.
    pub fn vary(
        mut self,
        section: SectionName,
        path: &str,
        levels: impl IntoIterator<Item = impl Into<Value>>,
    ) -> Result<Self, String> {
        let levels: Vec<Value> = levels.into_iter().map(Into::into).collect();
        if section.key(path).is_none() {
            return Err(format!("{} has no key `{path}` that could be varied", section.name()));
        }
        levels.iter().try_for_each(|level| check_level(section, path, level))?;
        let written = match sections_with(path).len() {
            1 => path.to_owned(),
            _ => format!("{}.{path}", section.name()),
        };
        self.keys.retain(|factor| (factor.section, factor.path.as_str()) != (section, path));
        self.keys.push(Factor { section, path: path.to_owned(), written, levels });
        self.sort();
        Ok(self)
    }

    /// The order of keys means nothing.
    fn sort(&mut self) {
        self.keys.sort_by(|a, b| (a.section, &a.path).cmp(&(b.section, &b.path)));
    }

    /// The factors of a section, those without a usual place first, then those that every cell's name
    /// has in an order of its own.
    pub fn of(&self, section: SectionName) -> Vec<&Factor> {
        let place = |factor: &&Factor| USUAL.iter().position(|usual| factor.path == *usual);
        let mut all: Vec<&Factor> = self.keys.iter().filter(|f| f.section == section).collect();
        all.sort_by_key(|factor| (place(factor), &factor.path));
        all
    }

    /// Every key that is varied.
    pub fn keys(&self) -> &[Factor] {
        &self.keys
    }

    /// The levels of a key; none where it is not varied.
    pub fn levels(&self, section: SectionName, path: &str) -> &[Value] {
        let it = self.keys.iter().find(|f| f.section == section && f.path == path);
        it.map_or(&[], |factor| &factor.levels)
    }

    /// Leaves out levels of a key.
    pub fn retain(&mut self, section: SectionName, path: &str, keep: impl FnMut(&Value) -> bool) {
        if let Some(factor) = self.keys.iter_mut().find(|f| f.section == section && f.path == path)
        {
            factor.levels.retain(keep);
        }
    }

    /// Replaces levels of a key; those that nothing is given for stay.
    pub(super) fn map_levels(
        &mut self,
        section: SectionName,
        path: &str,
        change: impl Fn(&Value) -> Option<Value>,
    ) {
        let it = self.keys.iter_mut().find(|f| f.section == section && f.path == path);
        for level in it.into_iter().flat_map(|factor| &mut factor.levels) {
            if let Some(changed) = change(level) {
                *level = changed;
            }
        }
    }

    /// The factor that a key, or something inside of it, is varied by; the key with its section.
    pub fn varying(&self, full_path: &str) -> Option<&Factor> {
        let inside = format!("{full_path}.");
        self.keys.iter().find(|factor| {
            let own = factor.full_path();
            own == full_path || own.starts_with(&inside)
        })
    }
}

/// Keys that were factors before every key could be: the end of a cell's name is made of them, in this
/// order.
pub(crate) const USUAL: &[&str] = &[
    "switch",
    "mtu",
    "ip",
    "transport",
    "payload",
    "receivers",
    "background",
    "streams",
    "direction",
];

fn check_level(section: SectionName, path: &str, level: &Value) -> Result<(), String> {
    if level.as_str() == Some(AS_IT_IS) { Ok(()) } else { section.check(path, level) }
}

impl Serialize for Factors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Map::new();
        let nic = serde_json::to_value(&self.nic).map_err(serde::ser::Error::custom)?;
        table.insert("nic".to_owned(), nic);
        if !self.disk.is_empty() {
            let disk = serde_json::to_value(&self.disk).map_err(serde::ser::Error::custom)?;
            table.insert("disk".to_owned(), disk);
        }
        for factor in &self.keys {
            section::set(&mut table, &factor.written, Value::Array(factor.levels.clone()));
        }
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Factors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FactorsVisitor)
    }
}

struct FactorsVisitor;

impl<'de> Visitor<'de> for FactorsVisitor {
    type Value = Factors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what is varied, each with its levels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Factors, A::Error> {
        let mut factors = Factors::default();
        let is_known = |key: &str| match DEVICES.contains(&key) || SectionName::named(key).is_some()
        {
            true => Ok(()),
            false => Inside::TOP.check(key),
        };
        while let Some(key) = map.next_key_seed(CheckedText(is_known))? {
            if key == "nic" {
                factors.nic = map.next_value()?;
                continue;
            }
            if key == "disk" {
                factors.disk = map.next_value()?;
                continue;
            }
            let inside = match SectionName::named(&key) {
                Some(section) => Inside { section: Some(section), path: String::new() },
                None => Inside::TOP.inner(&key),
            };
            factors.keys.extend(map.next_value_seed(Tree { inside, written: key })?);
        }
        factors.sort();
        Ok(factors)
    }
}

/// Where in the tree of keys something stands.
struct Inside {
    /// Absent where the section was not written.
    section: Option<SectionName>,
    /// Empty at the top.
    path: String,
}

impl Inside {
    const TOP: Self = Self { section: None, path: String::new() };

    fn inner(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        Self { section: self.section, path }
    }

    fn sections(&self) -> Vec<SectionName> {
        self.section.map_or(SectionName::ALL.to_vec(), |section| vec![section])
    }

    /// Whether a key can stand here.
    fn check(&self, key: &str) -> Result<(), String> {
        let path = self.inner(key).path;
        let having: Vec<&str> = self
            .sections()
            .into_iter()
            .filter(|section| section.key(&path).is_some())
            .map(SectionName::name)
            .collect();
        match having[..] {
            [_] => Ok(()),
            [] => Err(self.unknown(key)),
            _ => {
                let written: Vec<String> =
                    having.iter().map(|section| format!("`{section}.{path}`")).collect();
                let sections = having.join(" and of ");
                Err(format!("`{path}` is a key of {sections}: write {}", written.join(" or ")))
            }
        }
    }

    fn unknown(&self, key: &str) -> String {
        let prefix = if self.path.is_empty() { String::new() } else { format!("{}.", self.path) };
        let here = |known: &'static Key| {
            let rest = known.path.strip_prefix(&prefix)?;
            (!rest.contains('.')).then(|| format!("`{rest}`"))
        };
        let keys = self.sections().into_iter().flat_map(SectionName::keys);
        let devices = DEVICES.iter().filter(|_| self.path.is_empty());
        let devices = devices.map(|device| format!("`{device}`"));
        let mut names: Vec<String> = devices.chain(keys.filter_map(here)).collect();
        names.dedup();
        format!("unknown field `{key}`, expected one of {}", names.join(", "))
    }

    fn takes(&self) -> Option<Takes> {
        match (self.path.is_empty(), self.key()) {
            (true, _) => Some(Takes::Table),
            // Inside of a table of any keys there are values.
            (false, Some((_, key))) if key.path != self.path => Some(Takes::One),
            (false, found) => found.map(|(_, key)| key.takes),
        }
    }

    fn key(&self) -> Option<(SectionName, &'static Key)> {
        self.sections().into_iter().find_map(|s| Some((s, s.key(&self.path)?)))
    }
}

/// Reads the levels of a key, or the keys inside of one.
struct Tree {
    inside: Inside,
    written: String,
}

impl Tree {
    fn one<E: serde::de::Error>(self, value: impl Into<Value>) -> Result<Vec<Factor>, E> {
        let value = value.into();
        self.check_level(&value).map_err(E::custom)?;
        Ok(self.factor(vec![value]))
    }

    fn check_level(&self, value: &Value) -> Result<(), String> {
        match self.inside.key() {
            Some((section, _)) => check_level(section, &self.inside.path, value),
            None => Err("a section has keys, not a value".to_owned()),
        }
    }

    fn factor(self, levels: Vec<Value>) -> Vec<Factor> {
        let key = self.inside.key();
        let factor = key.map(|(section, _)| Factor {
            section,
            path: self.inside.path,
            written: self.written,
            levels,
        });
        factor.into_iter().collect()
    }
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Vec<Factor>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Factor>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Vec<Factor>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level or a list of levels")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Vec<Factor>, E> {
        self.one(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Vec<Factor>, E> {
        self.one(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Vec<Factor>, E> {
        self.one(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Vec<Factor>, E> {
        self.one(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Vec<Factor>, E> {
        self.one(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Factor>, A::Error> {
        let mut levels = Vec::new();
        let is_level = |value: &Value| self.check_level(value);
        while let Some(level) = seq.next_element_seed(CheckedValue(is_level))? {
            levels.push(level);
        }
        Ok(self.factor(levels))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Factor>, A::Error> {
        let Self { inside, written } = self;
        if !matches!(inside.takes(), Some(Takes::Table | Takes::AnyKeys)) {
            return Err(A::Error::custom("a level or a list of levels goes here, not a table"));
        }
        let mut factors = Vec::new();
        while let Some(key) = map.next_key_seed(CheckedText(|key: &str| inside.check(key)))? {
            let written = format!("{written}.{key}");
            let inside = inside.inner(&key);
            factors.extend(map.next_value_seed(Tree { inside, written })?);
        }
        Ok(factors)
    }
}

impl schemars::JsonSchema for Factors {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Factors".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut properties = Map::new();
        for section in SectionName::ALL {
            let mut own = Map::new();
            for key in section.keys().iter().filter(|key| !key.path.contains('.')) {
                let levels = levels_of(&key.schema, key.takes);
                own.insert(key.path.clone(), levels.clone());
                if sections_with(&key.path).len() == 1 {
                    properties.insert(key.path.clone(), levels);
                }
            }
            let about =
                format!("Keys of `{}`, where another section has one so called.", section.name());
            let own = serde_json::json!({
                "type": "object", "description": about, "properties": own, "additionalProperties": false
            });
            properties.insert(section.name().to_owned(), own);
        }
        let mut nic = generator.subschema_for::<Levels<NicModel>>();
        nic.insert(
            "description".into(),
            "NIC models; each gives cells beside the baseline's.".into(),
        );
        properties.insert("nic".to_owned(), nic.to_value());
        let mut disk = generator.subschema_for::<Levels<DiskModel>>();
        disk.insert(
            "description".into(),
            "Disk models, for loads of kind `disk`; each gives cells beside the baseline's.".into(),
        );
        properties.insert("disk".to_owned(), disk.to_value());
        schemars::json_schema!({
            "type": "object",
            "description": "What is varied: NIC and disk models, and any key of guest, testbed and workload. The level \
                            `default` leaves a key as the scenario has it.",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

/// Levels of what a key takes: one, or a list of them; of a table also those of the keys in it.
fn levels_of(key: &Value, takes: Takes) -> Value {
    let mut level = key.clone();
    let description = level.as_object_mut().and_then(|level| {
        level.remove("default");
        level.remove("x-absent");
        level.remove("description")
    });
    let mut levels = match takes {
        Takes::One | Takes::List => {
            serde_json::json!({ "anyOf": [level, { "type": "array", "items": level }] })
        }
        Takes::AnyKeys => serde_json::json!({
            "type": ["object", "array"],
            "additionalProperties": levels_of(&level["additionalProperties"], Takes::One),
            "items": level,
        }),
        Takes::Table => {
            let own = level["properties"].as_object().cloned().unwrap_or_default();
            let inner: Map<String, Value> = own
                .into_iter()
                .map(|(name, schema)| {
                    let takes = section::takes(&schema);
                    (name, levels_of(&schema, takes))
                })
                .collect();
            serde_json::json!({
                "type": ["object", "array"],
                "properties": inner,
                "additionalProperties": false,
                "items": level,
            })
        }
    };
    if let (Some(levels), Some(description)) = (levels.as_object_mut(), description) {
        levels.insert("description".to_owned(), description);
    }
    levels
}
