//! `modules.dep` for a tree that has none: what each module says of itself in its ELF section
//! `.modinfo`, which is all that is needed to order them.
//!
//! Distributions ship no `modules.dep` in their packages, `depmod` makes it at installation; a
//! kernel that is only fetched never gets there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::Path;

use object::{Object, ObjectSection};

use super::decompress::{decompress, sniff};
use super::error::KernelError;

/// No module unpacks to more than this, in bytes (with debug information the largest are 60 MB).
pub const MAX_MODULE: u64 = 128 << 20;

/// How deep a module tree is walked.
const MAX_DEPTH: usize = 16;

/// Paths of modules (relative to the tree) with the paths of those that each needs directly.
pub type Graph = BTreeMap<String, Vec<String>>;

/// A dependency that is not among the tree's files (it may be built into the kernel).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unresolved {
    /// The module's path in the tree.
    pub path: String,
    /// The name of the module that it needs.
    pub needs: String,
}

/// Reads a module file, decompressing by its magic number.
///
/// # Errors
/// When it is unreadable or damaged.
pub fn read_module(path: &Path) -> Result<Vec<u8>, KernelError> {
    let bytes = fs::read(path).map_err(KernelError::io("read", path))?;
    let Some(method) = sniff(&bytes) else { return Ok(bytes) };
    decompress(method, &bytes, MAX_MODULE).map_err(|error| bad(path, error.to_string()))
}

/// The names of the modules that a module needs directly, from its `depends=`.
///
/// # Errors
/// A text that says why this is no module.
pub fn depends(module: &[u8]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for list in entries(module, "depends=")? {
        names.extend(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(names)
}

/// The names of a module's parameters, from its `parmtype=`.
///
/// # Errors
/// A text that says why this is no module.
pub fn parameters(module: &[u8]) -> Result<BTreeSet<String>, String> {
    let entries = entries(module, "parmtype=")?;
    Ok(entries.iter().filter_map(|entry| Some(entry.split_once(':')?.0.to_owned())).collect())
}

/// What follows `key` in the entries of `.modinfo`, each of which ends with a zero.
fn entries(module: &[u8], key: &str) -> Result<Vec<String>, String> {
    let file = object::File::parse(module).map_err(|error| format!("not an ELF file: {error}"))?;
    let section = file.section_by_name(".modinfo").ok_or("not a kernel module: no .modinfo")?;
    let data = section.data().map_err(|error| format!("damaged .modinfo: {error}"))?;
    let with_key = data.split(|&byte| byte == 0).filter_map(|e| e.strip_prefix(key.as_bytes()));
    let as_text = |entry: &[u8]| {
        let text = std::str::from_utf8(entry).map_err(|_| format!("{key} is not text"))?;
        Ok(text.to_owned())
    };
    with_key.map(as_text).collect()
}

/// The name by which modules are called, from a file name: `net/virtio-net.ko.xz` is `virtio_net`.
/// `None` when the file is no module.
#[must_use]
pub fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let stem = ["", ".gz", ".xz", ".zst"]
        .iter()
        .find_map(|packed| file.strip_suffix(packed)?.strip_suffix(".ko"))?;
    (!stem.is_empty()).then(|| stem.replace('-', "_"))
}

/// The module files below `dir` (paths relative to it), by the names of the modules. Nothing is read
/// of them.
///
/// # Errors
/// When the tree is unreadable.
pub fn files(dir: &Path) -> Result<HashMap<String, String>, KernelError> {
    let mut paths = Vec::new();
    walk(dir, "", MAX_DEPTH, &mut paths)?;
    // Sorted, so that of two files for one module that in `updates/` is taken, as depmod does.
    paths.sort();
    Ok(paths.into_iter().filter_map(|path| Some((module_name(&path)?, path))).collect())
}

/// Reads the modules at `roots` and all that they need, also indirectly, and links each with those
/// that it needs. No others are read: a whole distribution's tree, xz-compressed, takes 15 s.
///
/// # Errors
/// When one of them is unreadable or damaged.
pub fn scan(
    dir: &Path,
    files: &HashMap<String, String>,
    roots: impl IntoIterator<Item = String>,
) -> Result<(Graph, BTreeSet<Unresolved>), KernelError> {
    let mut waiting: Vec<String> = roots.into_iter().collect();
    let mut graph = Graph::new();
    let mut unresolved = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if graph.contains_key(&path) {
            continue;
        }
        let file = dir.join(&path);
        let names = depends(&read_module(&file)?).map_err(|reason| bad(&file, reason))?;
        let mut needs = Vec::new();
        for name in names {
            match files.get(&name.replace('-', "_")) {
                Some(found) => needs.push(found.clone()),
                None => drop(unresolved.insert(Unresolved { path: path.clone(), needs: name })),
            }
        }
        waiting.extend(needs.iter().cloned());
        graph.insert(path, needs);
    }
    Ok((graph, unresolved))
}

fn walk(
    dir: &Path,
    prefix: &str,
    depth: usize,
    paths: &mut Vec<String>,
) -> Result<(), KernelError> {
    let here = dir.join(prefix);
    for entry in fs::read_dir(&here).map_err(KernelError::io("list", &here))? {
        let entry = entry.map_err(KernelError::io("list", &here))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(KernelError::io("look at", entry.path()))?;
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        // `build` and `source` are symbolic links to whole kernel sources: never follow.
        if kind.is_dir() && depth > 0 {
            walk(dir, &path, depth - 1, paths)?;
        } else if kind.is_file() && module_name(&path).is_some() {
            paths.push(path);
        }
    }
    Ok(())
}

/// All that `start` needs and itself, each after those it needs. A cycle, which no kernel has, is
/// cut at an arbitrary place rather than followed.
#[must_use]
pub fn load_order<'a>(graph: &'a Graph, start: &'a str) -> Vec<&'a str> {
    let mut order = Vec::new();
    let mut seen = BTreeSet::from([start]);
    // Not recursive: the depth is the file's say-so.
    let mut stack = vec![(start, needs(graph, start))];
    while let Some((path, waiting)) = stack.last_mut() {
        match waiting.next_back() {
            Some(next) => {
                if seen.insert(next) {
                    stack.push((next, needs(graph, next)));
                }
            }
            None => {
                order.push(*path);
                stack.pop();
            }
        }
    }
    order
}

/// Backwards, since in `modules.dep` what must be loaded first stands last.
fn needs<'a>(
    graph: &'a Graph,
    path: &str,
) -> std::iter::Map<std::slice::Iter<'a, String>, fn(&'a String) -> &'a str> {
    graph.get(path).map(Vec::as_slice).unwrap_or_default().iter().map(String::as_str)
}

/// Writes a graph as kmod reads it: per module all that it needs, also indirectly, the last to be
/// loaded first.
///
/// # Errors
/// Of the writer.
pub fn write_dep(graph: &Graph, out: &mut impl Write) -> std::io::Result<()> {
    for path in graph.keys() {
        write!(out, "{path}:")?;
        for needed in load_order(graph, path).iter().rev().skip(1) {
            write!(out, " {needed}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes `modules.dep` into a tree and tells what it could not resolve.
///
/// # Errors
/// As [`scan`], and when the file cannot be written.
pub fn write_modules_dep(dir: &Path) -> Result<BTreeSet<Unresolved>, KernelError> {
    let files = files(dir)?;
    let (graph, unresolved) = scan(dir, &files, files.values().cloned())?;
    save(dir, &graph)?;
    Ok(unresolved)
}

/// Writes a known graph as `dir/modules.dep`.
pub(super) fn save(dir: &Path, graph: &Graph) -> Result<(), KernelError> {
    let path = dir.join("modules.dep");
    let mut text = Vec::new();
    write_dep(graph, &mut text)
        .and_then(|()| fs::write(&path, text))
        .map_err(KernelError::io("write", &path))
}

fn bad(path: &Path, reason: String) -> KernelError {
    KernelError::BadModuleFile { path: path.to_owned(), reason }
}

#[cfg(test)]
pub(crate) mod tests;
