//! The rules' names: those of the page are those of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{none_of, root};

#[test]
fn every_rule_is_on_the_page_and_every_one_on_the_page_is_a_rule() {
    let page = fs::read_to_string(root().join("docs/diagnosis.md")).unwrap();
    let from = page.find("\n## The rules").unwrap();
    let until = page.find("\n## What it cannot tell").unwrap();
    let told = names_in_tables(&page[from..until]);
    let rules = root().join("crates/analysis/src/diagnose");
    let mut known = names_in_code(&rules.join("limits"), &["name: \""]);
    let called = ["about_cells(\"", "about_run(\"", "with_pictures(\"", "rule: \""];
    known.extend(names_in_code(&rules, &called));
    assert!(known.len() > 60, "only {} rules were found: is the search still right?", known.len());
    let missing = known.difference(&told).map(|name| format!("docs/diagnosis.md lacks {name}"));
    let more = told
        .difference(&known)
        .map(|name| format!("docs/diagnosis.md has {name}, which is no rule"));
    none_of(&missing.chain(more).collect::<Vec<_>>());
}

/// The first column of every table; several names stand with commas between.
fn names_in_tables(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let first = rows.filter_map(|row| row.split(" |").next());
    let names =
        first.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned());
    names.filter(|name| is_name(name) && !["rule", "finding"].contains(&name.as_str())).collect()
}

/// The words in quotes behind any of the beginnings, in the files of a folder.
fn names_in_code(folder: &Path, beginnings: &[&str]) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names = BTreeSet::new();
    for file in files.filter(|path| path.is_file() && !path.ends_with("tests.rs")) {
        // A call over several lines is read as one.
        let text: String = fs::read_to_string(&file).unwrap().replace("(\n", "(");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
        for begin in beginnings {
            let found = text.split(begin).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.filter(|name| is_name(name)).map(str::to_owned));
        }
    }
    names
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.chars().all(|c| c == '-')
}
