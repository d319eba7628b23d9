//! JSON Schema, as far as vioperf's own schemas use it; a keyword that is not known here fails.

use serde_json::Value;

/// Everything in `value` that breaks `schema`, each with its place.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if *schema == Value::Bool(true) {
        return;
    }
    for (keyword, wanted) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$ref" => {
                let name = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(name).unwrap(), value, at, found);
                true
            }
            "type" => match wanted {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "properties" => {
                for (name, schema) in wanted.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(root, schema, value, &format!("{at}/{name}"), found);
                    }
                }
                undeclared(schema, value, at, found);
                true
            }
            "required" => wanted
                .as_array()
                .unwrap()
                .iter()
                .all(|name| value.get(name.as_str().unwrap()).is_some()),
            "additionalProperties" if wanted.is_object() => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    check(root, wanted, value, &format!("{at}/{name}"), found);
                }
                true
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, value, &format!("{at}/{number}"), found);
                }
                true
            }
            "enum" => wanted.as_array().unwrap().contains(value),
            "const" => wanted == value,
            "oneOf" => matching(root, wanted, value) == 1,
            "anyOf" => matching(root, wanted, value) >= 1,
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "$schema"
            | "$defs"
            | "title"
            | "description"
            | "format"
            | "default"
            | "additionalProperties"
            // For people: what holds without a key.
            | "x-absent" => true,
            other => panic!("the keyword {other} is not known"),
        };
        if !holds {
            let value: String = value.to_string().chars().take(100).collect();
            found.push(format!("{at}: `{keyword}` {wanted} does not hold for {value}"));
        }
    }
}

/// A property that is written but not declared would be hidden from whoever reads the schema.
fn undeclared(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let open = ["oneOf", "anyOf", "$ref"].iter().any(|other| schema.get(other).is_some());
    if open || schema.get("additionalProperties").is_some_and(Value::is_object) {
        return;
    }
    for name in value.as_object().into_iter().flat_map(|object| object.keys()) {
        if schema["properties"].get(name).is_none() {
            found.push(format!("{at}/{name} is not declared"));
        }
    }
}

fn matching(root: &Value, schemas: &Value, value: &Value) -> usize {
    let fits = |schema: &&Value| {
        let mut found = Vec::new();
        check(root, schema, value, "", &mut found);
        // In a flattened enum the outer object's properties are not the branch's to declare.
        found.retain(|violation| !violation.ends_with("is not declared"));
        found.is_empty()
    };
    schemas.as_array().unwrap().iter().filter(fits).count()
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("the type {other} is not known"),
    }
}
