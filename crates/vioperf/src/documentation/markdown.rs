//! As much of Markdown as the documentation is written in.

use std::fs;
use std::path::{Path, PathBuf};

/// A page, taken apart.
pub(super) struct Page {
    /// The file.
    pub path: PathBuf,
    /// Its blocks of code.
    pub blocks: Vec<Block>,
    /// Its other lines, each with its number from 1.
    pub prose: Vec<(usize, String)>,
}

/// A block of code, fenced or indented.
pub(super) struct Block {
    /// The number of its first line of code.
    pub line: usize,
    /// What stands behind the fence; empty of an indented one.
    pub language: String,
    /// Its lines, without the indent.
    pub lines: Vec<String>,
}

impl Page {
    pub(super) fn read(path: &Path) -> Self {
        Self::of(path, &fs::read_to_string(path).unwrap())
    }

    pub(super) fn of(path: &Path, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), blocks: Vec::new(), prose: Vec::new() };
        let mut fenced = false;
        // Four spaces make a block of code only after an empty line.
        let mut may_begin = true;
        let mut indented = false;
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let begin = |line: usize, language: &str| Block {
                line,
                language: language.to_owned(),
                lines: Vec::new(),
            };
            if let Some(language) = line.trim_start().strip_prefix("```") {
                fenced = !fenced;
                if fenced {
                    page.blocks.push(begin(number + 1, language));
                }
                indented = false;
            } else if fenced {
                page.blocks.last_mut().unwrap().lines.push(line.to_owned());
            } else if let Some(code) = line.strip_prefix("    ").filter(|_| may_begin || indented) {
                if !indented {
                    page.blocks.push(begin(number, ""));
                }
                indented = true;
                page.blocks.last_mut().unwrap().lines.push(code.to_owned());
            } else if indented && line.is_empty() {
                page.blocks.last_mut().unwrap().lines.push(String::new());
            } else {
                indented = false;
                page.prose.push((number, line.to_owned()));
            }
            may_begin = line.trim().is_empty();
        }
        page
    }

    /// Where a line is, for a person.
    pub(super) fn place(&self, line: usize) -> String {
        let name = self.path.strip_prefix(super::root()).unwrap_or(&self.path);
        format!("{}:{line}", name.display())
    }

    /// The anchors of its headings, as GitHub makes them.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in &self.prose {
            let heading = line.trim_start_matches('#');
            if heading.len() == line.len() || !heading.starts_with(' ') {
                continue;
            }
            let anchor = anchor(heading.trim());
            let same = anchors.iter().filter(|other| **other == anchor).count();
            anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
        }
        anchors
    }

    /// Code inside of lines of prose, each with its line.
    pub(super) fn inline_code(&self) -> Vec<(usize, &str)> {
        let odd = |line: &'_ str| line.split('`').count().is_multiple_of(2);
        self.prose
            .iter()
            .filter(|(_, line)| !odd(line))
            .flat_map(|(number, line)| {
                line.split('`').skip(1).step_by(2).map(|code| (*number, code))
            })
            .collect()
    }
}

/// Lower case, dashes for spaces, and no punctuation.
fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# A `b`, c!\n\nSee `x y`.\n\n    vioperf run\n\n    more\n\n```toml\na = 1\n```\n";
    let page = Page::of(Path::new("p.md"), text);
    assert_eq!(page.anchors(), ["a-b-c"]);
    assert_eq!(page.inline_code(), [(1, "b"), (3, "x y")]);
    let blocks: Vec<_> = page.blocks.iter().map(|b| (b.line, b.language.as_str())).collect();
    assert_eq!(blocks, [(5, ""), (10, "toml")]);
    assert_eq!(page.blocks[1].lines, ["a = 1"]);
}
