//! A factor's levels, written as a list or as one bare value.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The levels of one factor, in the order they were written. Empty means that the factor is not
/// varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Levels<T>(Vec<T>);

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Levels<T> {
    /// Whether the factor is not varied.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The levels as written.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Leaves out the levels that `keep` refuses.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// The levels, or `default` alone where the factor is not varied.
    pub fn or(&self, default: T) -> Vec<T>
    where
        T: Clone,
    {
        if self.0.is_empty() { vec![default] } else { self.0.clone() }
    }

    /// The first level that is written twice.
    pub fn repeated(&self) -> Option<&T>
    where
        T: PartialEq,
    {
        self.0.iter().enumerate().find(|(i, level)| self.0[..*i].contains(level)).map(|(_, l)| l)
    }
}

impl<T> From<Vec<T>> for Levels<T> {
    fn from(levels: Vec<T>) -> Self {
        Self(levels)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Levels<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany(PhantomData)).map(Self)
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for Levels<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Levels_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let level = generator.subschema_for::<T>();
        let list = generator.subschema_for::<Vec<T>>();
        schemars::json_schema!({ "anyOf": [level, list] })
    }
}

/// Not an untagged enum: that would lose the position and the words of a level's own error.
struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level or a list of levels")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        T::deserialize(text.into_deserializer()).map(|level| vec![level])
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|level| vec![level])
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|level| vec![level])
    }
}
