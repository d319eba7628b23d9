//! Scenarios in the pages: every one is read, and so is every part of one.

use toml::{Table, Value};
use vioperf_model::scenario_file;

use super::markdown::{Block, Page};
use super::{none_of, pages, root};

#[test]
fn every_scenario_is_read() {
    let wrong: Vec<String> = pages().iter().flat_map(unread).collect();
    none_of(&wrong);
}

#[test]
fn a_scenario_that_is_none_is_told() {
    let text = "```toml\n[factors]\nnic = [\"virtio\"]\n```\n\n```toml\n[factors]\nstreamz = 3\n```\n\n\
                \x20   [guest]\n    vcpu = 3\n";
    let wrong = unread(&Page::of(&root().join("README.md"), text));
    assert_eq!(wrong.len(), 2, "{wrong:#?}");
    assert!(wrong[0].starts_with("README.md:7: ") && wrong[1].starts_with("README.md:11: "));
}

fn unread(page: &Page) -> Vec<String> {
    let blocks = page.blocks.iter().filter(|block| is_scenario(block));
    let said = |block: &Block| {
        let why = read(&block.lines.join("\n")).err()?;
        Some(format!("{}: {why}", page.place(block.line)))
    };
    blocks.filter_map(said).collect()
}

/// Fenced as TOML, or an indented block that begins with a section.
fn is_scenario(block: &Block) -> bool {
    let first = block.lines.first().map_or("", String::as_str);
    block.language == "toml" || (block.language.is_empty() && first.starts_with('['))
}

/// A part is read with what every scenario has to have around it.
fn read(text: &str) -> Result<(), String> {
    let mut table: Table = text.parse().map_err(|error| format!("{error}"))?;
    let text = |word: &str| Value::String(word.to_owned());
    for key in ["name", "question"] {
        table.entry(key).or_insert_with(|| text("part"));
    }
    let section = |table: &mut Table, name: &str, key: &str, value: Value| {
        let section = table.entry(name).or_insert_with(|| Table::new().into());
        section.as_table_mut().unwrap().entry(key).or_insert(value);
    };
    section(&mut table, "workload", "kind", text("tcp-stream"));
    let is_of_machines = table.get("testbed").is_some_and(|own| own.get("server").is_some());
    let is_of_disk =
        table.get("workload").and_then(|own| own.get("kind")?.as_str()) == Some("disk");
    if !is_of_machines && !is_of_disk {
        section(&mut table, "factors", "nic", text("virtio"));
    }
    let whole = toml::to_string(&table).map_err(|error| error.to_string())?;
    scenario_file::parse("scenario", &whole, &[]).map(drop).map_err(|error| error.to_string())
}
