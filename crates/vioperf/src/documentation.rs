//! The written documentation, held against the program: commands parse, scenarios are read, links lead
//! somewhere. What is made from the program's own tables ([`crate::reference`]) is compared there.

mod commands;
mod links;
mod markdown;
mod rules;
mod scenario_texts;

use std::fs;
use std::path::{Path, PathBuf};

use markdown::Page;

/// Where the repository is.
fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    crates.to_owned()
}

/// Every page that a reader is given.
fn pages() -> Vec<Page> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    let own = |path: PathBuf| path.extension().is_some_and(|end| end == "md").then_some(path);
    files.extend(fs::read_dir(root()).unwrap().filter_map(|entry| own(entry.unwrap().path())));
    files.sort();
    files.iter().map(|path| Page::read(path)).collect()
}

/// Fails with all that is wrong, one a line.
fn none_of(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The README is where readers start, so every page is reached from there.
#[test]
fn every_page_is_in_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let missing: Vec<String> = pages()
        .iter()
        .filter_map(|page| page.path.strip_prefix(root().join("docs")).ok())
        .map(|name| format!("docs/{}", name.display()))
        .filter(|name| !readme.contains(&format!("({name})")))
        .map(|name| format!("README.md does not lead to {name}"))
        .collect();
    none_of(&missing);
}
