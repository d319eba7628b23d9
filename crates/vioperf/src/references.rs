//! The references that runs can be set beside: those that are built in, a file each in `references/`, and the user's own.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use vioperf_model::reference::{Reference, ReferenceError};
use vioperf_model::suggest::nearest;

use crate::paths;
use crate::store::{self, StoreError, to_json};

/// Name and text of every file in `references/`.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/references.rs"));

/// No reference is longer; anything else is none.
const MOST_BYTES: u64 = 64 << 20;

/// Why there is no such reference.
#[derive(Debug, thiserror::Error)]
pub enum ReferencesError {
    /// There is no place for one's own.
    #[error(transparent)]
    NoPlace(#[from] anyhow::Error),
    /// None is called that.
    #[error("no reference is called `{name}`{hint}; there are: {known}; or name a .json file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest.
        hint: String,
        /// Those that there are.
        known: String,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It does not parse, or contradicts itself.
    #[error("{origin}: {source}")]
    Unsound {
        /// Its file, or `built-in NAME`.
        origin: String,
        /// What is wrong.
        source: ReferenceError,
    },
    /// The name is one that cannot be had.
    #[error(transparent)]
    Name(#[from] ReferenceError),
    /// The name is somebody else's.
    #[error("a reference called `{0}` is built in: choose another name")]
    BuiltIn(String),
    /// The name is that of one's own.
    #[error("there is a reference of yours called `{0}`: --replace takes its place")]
    Taken(String),
    /// It cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be made into JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A reference and where it came from.
#[derive(Debug)]
pub struct Found {
    /// `built-in`, or its file.
    pub origin: String,
    /// The reference.
    pub reference: Reference,
}

/// Every reference that is known by a name: those built in first.
///
/// # Errors
/// When one of the user's own cannot be read.
pub fn all() -> Result<Vec<Found>, ReferencesError> {
    let built_in = BUILT_IN.iter().map(|(name, text)| parse(format!("built-in {name}"), text));
    let own = own_files()?.into_iter().map(|path| read(&path));
    built_in.chain(own).collect()
}

/// The reference of that name, or in that file.
///
/// # Errors
/// When there is none, or it is unsound.
pub fn find(name: &str) -> Result<Found, ReferencesError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        return parse(format!("built-in {name}"), text);
    }
    let own = own_files()?;
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    if let Some(path) = own.iter().find(|path| stem(path).as_deref() == Some(name)) {
        return read(path);
    }
    if name.ends_with(".json") || Path::new(name).is_file() {
        return read(Path::new(name));
    }
    let known: Vec<String> = BUILT_IN
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .chain(own.iter().filter_map(|path| stem(path)))
        .collect();
    let hint = nearest(name, known.iter().map(String::as_str));
    let hint = hint.map(|found| format!(", did you mean `{found}`?")).unwrap_or_default();
    Err(ReferencesError::Unknown { name: name.to_owned(), hint, known: known.join(", ") })
}

/// Where in a run's directory the references are that it was asked to be set beside.
const IN_RUN: &str = "references";

/// A reference by what a scenario calls it: its name, or its file.
#[derive(Debug)]
pub struct Named {
    called: String,
    reference: Reference,
}

/// Finds all of these, before anything is measured.
///
/// # Errors
/// As [`find`].
pub fn find_all(names: &[String]) -> Result<Vec<Named>, ReferencesError> {
    let named =
        |name: &String| Ok(Named { called: name.clone(), reference: find(name)?.reference });
    names.iter().map(named).collect()
}

/// Keeps references in a run's directory: its report is the same when they are changed later.
///
/// # Errors
/// What the system refuses.
pub fn keep(run: &Path, references: &[Named]) -> Result<(), ReferencesError> {
    if references.is_empty() {
        return Ok(());
    }
    let directory = run.join(IN_RUN);
    fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
    for Named { called, reference } in references {
        store::write_whole(&directory, &file_in_run(called), to_json(reference)?.as_bytes())?;
    }
    Ok(())
}

/// The reference that a run keeps by that name, else the one that is known by it.
///
/// # Errors
/// As [`find`].
pub fn kept(run: &Path, called: &str) -> Result<Found, ReferencesError> {
    let kept = run.join(IN_RUN).join(file_in_run(called));
    if kept.exists() { read(&kept) } else { find(called) }
}

/// The name of the file in a run's directory: a file's own, or that of the name.
fn file_in_run(called: &str) -> String {
    let own = Path::new(called).file_name().map(|name| name.to_string_lossy().into_owned());
    let own = own.unwrap_or_default();
    if own.ends_with(".json") { own } else { format!("{own}.json") }
}

/// Keeps a reference of the user's own; where it is then.
///
/// # Errors
/// When its name is taken, or it cannot be written.
pub fn add(reference: &Reference, replace: bool) -> Result<PathBuf, ReferencesError> {
    let path = own_file(&reference.name)?;
    if path.exists() && !replace {
        return Err(ReferencesError::Taken(reference.name.clone()));
    }
    let directory = paths::references()?;
    fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
    let name = format!("{}.json", reference.name);
    store::write_whole(&directory, &name, to_json(reference)?.as_bytes())?;
    Ok(path)
}

/// Removes a reference of the user's own.
///
/// # Errors
/// When it is built in, or there is none.
pub fn remove(name: &str) -> Result<(), ReferencesError> {
    let path = own_file(name)?;
    if !path.exists() {
        return Err(find(name).err().unwrap_or(ReferencesError::Taken(name.to_owned())));
    }
    fs::remove_file(&path).map_err(io_error("remove", &path))
}

/// The file that one of the user's own of that name is in.
fn own_file(name: &str) -> Result<PathBuf, ReferencesError> {
    Reference::check_name(name)?;
    if BUILT_IN.iter().any(|(built_in, _)| *built_in == name) {
        return Err(ReferencesError::BuiltIn(name.to_owned()));
    }
    Ok(paths::references()?.join(format!("{name}.json")))
}

/// The files of the user's own, by name; where users have no home there are none.
fn own_files() -> Result<Vec<PathBuf>, ReferencesError> {
    let Ok(directory) = paths::references() else { return Ok(Vec::new()) };
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("read", &directory)(error)),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_reference = |path: &PathBuf| {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        !hidden && path.extension().is_some_and(|ending| ending == "json")
    };
    files.retain(is_reference);
    files.sort();
    Ok(files)
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or is unsound.
pub fn read(path: &Path) -> Result<Found, ReferencesError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text))
        .map_err(io_error("read", path))?;
    parse(path.display().to_string(), &text)
}

fn parse(origin: String, text: &str) -> Result<Found, ReferencesError> {
    match Reference::parse(text) {
        Ok(reference) => Ok(Found { origin, reference }),
        Err(source) => Err(ReferencesError::Unsound { origin, source }),
    }
}

fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ReferencesError + 'a {
    move |source| ReferencesError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::columns;
    use vioperf_model::reference::{FigureKind, in_base_units};
    use vioperf_model::section;

    use super::*;

    fn built_in() -> Vec<Reference> {
        BUILT_IN.iter().map(|(name, _)| find(name).unwrap().reference).collect()
    }

    /// What the articles print: how many figures, values, words in place of values, the values' sum and that of
    /// all percentages of cores.
    const PRINTED: &[(&str, usize, usize, usize, f64, f64)] = &[
        ("kvm-bridge-2011", 17, 43, 0, 28_069.0, 3_143.0),
        ("kvm-nic-models-2012", 18, 36, 0, 26_505_359_769.5, 0.0),
        ("kvm-pps-2016", 21, 21, 4, 7_116_257.0, 0.0),
        ("vmxnet3-chr-2017", 24, 24, 0, 3_128_181.0, 0.0),
        ("xen-gplpv-2008", 147, 147, 0, 24_513.502, 1_259.8),
    ];

    #[test]
    fn every_figure_of_the_articles_is_there_as_printed() {
        let references = built_in();
        assert_eq!(references.iter().map(|r| r.figures.len()).sum::<usize>(), 227);
        assert_eq!(references.len(), PRINTED.len());
        for (reference, printed) in references.iter().zip(PRINTED) {
            let (name, figures, values, words, sum, cores) = *printed;
            let all = || reference.figures.iter().flat_map(|figure| &figure.values);
            let numbers: f64 = reference.figures.iter().flat_map(|figure| figure.numbers()).sum();
            let readings = reference.figures.iter().flat_map(|figure| &figure.cpu);
            let percents = readings.flat_map(|reading| &reading.percent_of_core);
            let busy: f64 = percents.filter_map(serde_json::Number::as_f64).sum();
            assert_eq!(reference.name, name);
            assert_eq!(reference.figures.len(), figures, "{name}");
            assert_eq!((all().count(), all().filter(|v| v.is_none()).count()), (values, words));
            assert!((numbers - sum).abs() < 1e-6 * sum, "{name}: {numbers}");
            assert!((busy - cores).abs() < 1e-6, "{name}: {busy}");
        }
        let kinds = |kind| {
            let figures = references.iter().flat_map(|reference| &reference.figures);
            figures.filter(|figure| figure.kind == kind).count()
        };
        use FigureKind::{Claim, Measurement, Restated, Setting, Theory};
        let counts = [Measurement, Claim, Restated, Setting, Theory].map(kinds);
        assert_eq!(counts, [207, 13, 3, 3, 1]);
    }

    #[test]
    fn what_is_compared_is_named_as_scenarios_and_exports_name_it() {
        for reference in built_in() {
            for figure in &reference.figures {
                let settings = figure.setting.keys().chain(figure.circumstances.keys());
                for key in settings {
                    // A disk is chosen as a NIC is.
                    let path = key.split_once('.').map_or(key.as_str(), |(_, path)| path);
                    let known = ["nic", "disk"].contains(&key.as_str())
                        || !section::sections_with(path).is_empty();
                    assert!(known, "{}: no scenario has the key {key}", figure.id);
                }
                if let Some(metric) = &figure.metric {
                    assert!(
                        columns::named(metric).is_some(),
                        "{}: there is no metric {metric}",
                        figure.id
                    );
                    let unit = in_base_units(&figure.unit);
                    assert!(unit.is_some() || figure.is_percent_of_baseline, "{}", figure.id);
                }
                if !figure.divided_by.is_empty() {
                    assert!(reference.percent_of(figure).is_some(), "{}", figure.id);
                    let same = |id: &String| {
                        let other = reference.figure(id).unwrap();
                        let counted = |unit| in_base_units(unit).map(|(counted, _)| counted);
                        // Another metric is of the same trials.
                        let is_same =
                            other.metric == figure.metric || other.setting == figure.setting;
                        is_same
                            && (counted(&other.unit), &other.load)
                                == (counted(&figure.unit), &figure.load)
                    };
                    assert!(figure.divided_by.iter().all(same), "{}", figure.id);
                }
            }
        }
    }

    #[test]
    fn a_mistyped_name_gets_the_nearest() {
        let message = find("kvm-bridge-2012").unwrap_err().to_string();
        assert!(message.contains("did you mean `kvm-bridge-2011`?"), "{message}");
        let message = remove("kvm-bridge-2011").unwrap_err().to_string();
        assert!(message.contains("is built in"), "{message}");
    }
}
