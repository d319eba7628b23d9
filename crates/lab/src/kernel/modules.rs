//! A kernel's module tree: which files to load, in which order, for the modules that are wanted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::error::KernelError;
use super::modinfo::{self, Graph, load_order, module_name, read_module};

/// What a tree knows of a module name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Part of the kernel image: nothing to load.
    Builtin,
    /// These files of the tree (relative paths), in the order of loading, the module itself last.
    Files(Vec<String>),
    /// Neither.
    Missing,
}

/// The modules of one kernel. `-` and `_` in names are the same.
#[derive(Debug, Clone)]
pub struct ModuleTree {
    release: String,
    dir: Option<PathBuf>,
    /// From `modules.dep`; `None` when the modules themselves must be asked.
    graph: Option<Graph>,
    by_name: HashMap<String, String>,
    builtin: BTreeSet<String>,
}

/// One module file, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFile {
    /// The module's name, with `_`.
    pub name: String,
    /// The ELF file for `init_module(2)`.
    pub bytes: Vec<u8>,
}

/// The modules to pack for a guest: each file once, in an order that is good for all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleSet {
    files: Vec<ModuleFile>,
    wanted: BTreeMap<String, Vec<usize>>,
}

impl ModuleTree {
    /// Opens a tree: `modules.dep`, or where there is none, the names of its files (of which each
    /// will be asked for what it needs when it is wanted), and `modules.builtin`.
    ///
    /// # Errors
    /// When the directory is unreadable or `modules.dep` malformed.
    pub fn open(dir: &Path, release: &str) -> Result<Self, KernelError> {
        let dep = dir.join("modules.dep");
        let (graph, by_name) = match read_if_there(&dep)? {
            Some(text) => {
                let graph = parse_dep(&text)
                    .map_err(|reason| KernelError::BadModuleFile { path: dep, reason })?;
                let named = |path: &String| Some((module_name(path)?, path.clone()));
                let by_name = graph.keys().filter_map(named).collect();
                (Some(graph), by_name)
            }
            None => (None, modinfo::files(dir)?),
        };
        let builtin = read_if_there(&dir.join("modules.builtin"))?.unwrap_or_default();
        Ok(Self {
            release: release.to_owned(),
            dir: Some(dir.to_owned()),
            graph,
            by_name,
            builtin: builtin.lines().filter_map(module_name).collect(),
        })
    }

    /// The tree of a kernel that has no modules that are known of; every look-up is
    /// [`Lookup::Missing`].
    #[must_use]
    pub fn without_files(release: &str) -> Self {
        Self {
            release: release.to_owned(),
            dir: None,
            graph: None,
            by_name: HashMap::new(),
            builtin: BTreeSet::new(),
        }
    }

    /// The kernel's release.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// What must be loaded for a module.
    ///
    /// # Errors
    /// When there is no `modules.dep`, and one of the modules that tell is unreadable, damaged, or
    /// missing.
    pub fn lookup(&self, module: &str) -> Result<Lookup, KernelError> {
        let name = module.replace('-', "_");
        let Some(path) = self.by_name.get(&name) else {
            let builtin = self.builtin.contains(&name);
            return Ok(if builtin { Lookup::Builtin } else { Lookup::Missing });
        };
        let asked;
        let graph = match &self.graph {
            Some(graph) => graph,
            None => {
                let (graph, lacking) = modinfo::scan(self.dir(), &self.by_name, [path.clone()])?;
                let lacks = |needs: &str| !self.builtin.contains(&needs.replace('-', "_"));
                if let Some(one) = lacking.iter().find(|one| lacks(&one.needs)) {
                    return Err(self.missing_error(&one.needs));
                }
                asked = graph;
                &asked
            }
        };
        Ok(Lookup::Files(load_order(graph, path).into_iter().map(str::to_owned).collect()))
    }

    /// Those of `wanted` that the kernel does not have at all.
    #[must_use]
    pub fn missing<'a>(&self, wanted: &[&'a str]) -> Vec<&'a str> {
        let lacks = |module: &&str| {
            let name = module.replace('-', "_");
            !self.by_name.contains_key(&name) && !self.builtin.contains(&name)
        };
        wanted.iter().copied().filter(lacks).collect()
    }

    /// Reads and unpacks all files that the `wanted` modules need, and those that the `optional`
    /// ones need as far as they exist.
    ///
    /// # Errors
    /// When a wanted module is missing, or a file is unreadable or damaged.
    pub fn collect(&self, wanted: &[&str], optional: &[&str]) -> Result<ModuleSet, KernelError> {
        let mut set = ModuleSet::default();
        let mut index = HashMap::new();
        for module in wanted.iter().chain(optional) {
            let name = module.replace('-', "_");
            let paths = match self.lookup(&name)? {
                Lookup::Builtin => Vec::new(),
                Lookup::Files(paths) => paths,
                Lookup::Missing if wanted.contains(module) => return Err(self.missing_error(&name)),
                Lookup::Missing => continue,
            };
            let mut files = Vec::new();
            for path in paths {
                let at = match index.get(&path) {
                    Some(&at) => at,
                    None => {
                        set.files.push(self.read(&path)?);
                        index.insert(path, set.files.len() - 1);
                        set.files.len() - 1
                    }
                };
                files.push(at);
            }
            // Ascending is right too, since every file came after what it needs; and it is the order
            // of the names in the initramfs.
            files.sort_unstable();
            set.wanted.insert(name, files);
        }
        Ok(set)
    }

    /// Checks that a module which comes with one of `drivers` takes these parameters: the kernel itself
    /// ignores one that it does not know.
    ///
    /// # Errors
    /// [`KernelError::NoParameter`], or why the modules cannot be read.
    pub fn check_options(
        &self,
        drivers: &[&str],
        module: &str,
        options: &str,
    ) -> Result<(), KernelError> {
        let no_parameter = |parameter: &str, reason: &'static str| KernelError::NoParameter {
            module: module.to_owned(),
            parameter: parameter.to_owned(),
            reason,
        };
        let loaded = self.collect(drivers, &[])?;
        let own = loaded.files.iter().find(|file| file.name == module.replace('-', "_"));
        let Some(file) = own else {
            let reason = match self.lookup(module)? {
                Lookup::Builtin => "it is part of the kernel: use guest.kernel_arguments",
                _ => "no NIC model of the plan loads that module",
            };
            return Err(no_parameter(options, reason));
        };
        let known = modinfo::parameters(&file.bytes)
            .map_err(|reason| KernelError::BadModuleFile { path: module.into(), reason })?;
        let name =
            |option: &str| option.split_once('=').map_or(option, |(name, _)| name).to_owned();
        match options.split_whitespace().map(name).find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(no_parameter(&name, "`modinfo -p` lists those that it has")),
        }
    }

    fn read(&self, path: &str) -> Result<ModuleFile, KernelError> {
        Ok(ModuleFile {
            name: module_name(path).unwrap_or_default(),
            bytes: read_module(&self.dir().join(path))?,
        })
    }

    fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new(""))
    }

    fn missing_error(&self, module: &str) -> KernelError {
        KernelError::MissingModule {
            module: module.to_owned(),
            release: self.release.clone(),
            tree: match &self.dir {
                Some(dir) => dir.display().to_string(),
                None => "no module directory given or found".to_owned(),
            },
        }
    }
}

impl ModuleSet {
    /// Every file once; loading them in this order satisfies all dependencies.
    #[must_use]
    pub fn files(&self) -> &[ModuleFile] {
        &self.files
    }

    /// The wanted modules (with `_`), each with the indices into [`files`](Self::files) of what is
    /// to be loaded for it, in order; none for one that is built into the kernel.
    pub fn wanted(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.wanted.iter().map(|(name, files)| (name.as_str(), files.as_slice()))
    }
}

/// Reads `modules.dep`: per line a path, a colon, and the paths it needs.
fn parse_dep(text: &str) -> Result<Graph, String> {
    let mut graph = Graph::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number + 1;
        let (path, needs) = line.split_once(':').ok_or(format!("line {number} has no colon"))?;
        let needs: Vec<String> = needs.split_whitespace().map(str::to_owned).collect();
        for one in needs.iter().map(String::as_str).chain([path]) {
            let climbs = Path::new(one).components().any(|part| part == Component::ParentDir);
            if climbs || module_name(one).is_none() {
                return Err(format!("line {number}: `{one}` is no module's path"));
            }
        }
        graph.insert(path.to_owned(), needs);
    }
    Ok(graph)
}

fn read_if_there(path: &Path) -> Result<Option<String>, KernelError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KernelError::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests;
