//! The CPU that a guest really has, as QEMU tells it: `-cpu` asks for a model, and what the accelerator cannot give
//! of it is left away with no more than a warning.

use serde_json::{Value, json};
use vioperf_model::record::Processor;

use super::fault::GuestError;
use super::machine::Machine;

const OPERATION: &str = "ask for the guest's CPU model";

impl Machine {
    /// The model of the first virtual CPU (all are alike), and what it lacks; nothing where QEMU has no such names.
    ///
    /// # Errors
    /// When QEMU does not answer.
    pub fn processor(&mut self) -> Result<Option<Processor>, Box<GuestError>> {
        let cpus = self.command(OPERATION, "query-cpus-fast", &json!({}))?;
        let Some(path) = cpus.pointer("/0/qom-path").and_then(Value::as_str) else {
            return Ok(None);
        };
        let mut get = |property: &str| {
            let of = json!({ "path": path, "property": property });
            self.command(OPERATION, "qom-get", &of)
        };
        let kind = get("type")?;
        let Some(model) = kind.as_str().and_then(model_of) else { return Ok(None) };
        // A property of x86's models alone.
        let without = get("unavailable-features").as_ref().map_or_else(|_| Vec::new(), names);
        Ok(Some(Processor { model: model.to_owned(), without }))
    }
}

/// `Haswell` of `Haswell-x86_64-cpu`.
fn model_of(kind: &str) -> Option<&str> {
    Some(kind.strip_suffix("-cpu")?.rsplit_once('-')?.0)
}

fn names(list: &Value) -> Vec<String> {
    let mut names: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Why a guest has not the CPU that was asked for, as `-cpu` takes it, if so.
pub fn is_another(wanted: &str, processor: Option<&Processor>) -> Option<String> {
    let wanted = wanted.split(',').next().unwrap_or_default();
    let has = processor?.model.as_str();
    (has != wanted).then(|| {
        format!(
            "the guest has the CPU {has} and was to have {wanted} (guest.cpu): see what `qemu-system-x86_64 -cpu help` \
             says of it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_by_its_class() {
        assert_eq!(model_of("Skylake-Server-v2-x86_64-cpu"), Some("Skylake-Server-v2"));
        assert_eq!(model_of("max-x86_64-cpu"), Some("max"));
        assert_eq!(model_of("device"), None);
        assert_eq!(names(&json!(["xsaves", "avx", "avx"])), ["avx", "xsaves"]);
        assert!(names(&Value::Null).is_empty());
    }

    #[test]
    fn another_model_than_the_wanted_one_is_told() {
        let has = Processor { model: "Haswell".into(), without: Vec::new() };
        assert_eq!(is_another("Haswell,-avx2", Some(&has)), None);
        assert_eq!(is_another("Haswell", None), None);
        let said = is_another("Skylake-Server", Some(&has)).unwrap();
        assert!(said.contains("has the CPU Haswell"), "{said}");
    }
}
