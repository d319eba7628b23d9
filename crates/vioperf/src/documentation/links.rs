//! Links between the pages.

use std::path::Path;

use super::markdown::Page;
use super::{none_of, pages, root};

#[test]
fn every_link_leads_somewhere() {
    let wrong: Vec<String> = pages().iter().flat_map(broken).collect();
    none_of(&wrong);
}

#[test]
fn a_link_that_leads_nowhere_is_told() {
    let text = "# Here\n\n[a](#here) [b](#there) [c](docs/none.md) [d](docs/design.md#words) \
                [e](docs/design.md#no-words) `[f](x)` [g](https://example.org)\n";
    let page = Page::of(&root().join("README.md"), text);
    assert_eq!(
        broken(&page),
        [
            "README.md:3: no heading for #there",
            "README.md:3: no file docs/none.md",
            "README.md:3: no heading for docs/design.md#no-words",
        ]
    );
}

fn broken(page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in &page.prose {
        for target in targets(line) {
            if let Some(what) = missing(page, target) {
                wrong.push(format!("{}: {what}", page.place(*number)));
            }
        }
    }
    wrong
}

/// What the line's links lead to, those to the web left out.
fn targets(line: &str) -> Vec<&str> {
    // What stands in code is no link.
    let text = line.split('`').step_by(2);
    let ends = text.flat_map(|part| part.split("](").skip(1));
    let all = ends.filter_map(|rest| rest.split(')').next());
    all.filter(|target| !target.contains("://")).collect()
}

fn missing(page: &Page, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.path.clone(),
        _ => page.path.parent().unwrap_or(Path::new("")).join(file),
    };
    if file.is_empty() {
        let known = page.anchors().iter().any(|own| own == anchor);
        return (!known).then(|| format!("no heading for {target}"));
    }
    if !path.exists() {
        return Some(format!("no file {target}"));
    }
    let known = anchor.is_empty() || Page::read(&path).anchors().iter().any(|own| own == anchor);
    (!known).then(|| format!("no heading for {target}"))
}
