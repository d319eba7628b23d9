//! Commands in the pages: the program takes every one, with its scenario and what is set in it, and
//! `make` knows its target.

use std::fs;

use clap::Parser;
use clap::error::ErrorKind;

use super::markdown::Page;
use super::{none_of, pages, root};
use crate::cli::{Cli, Command};
use crate::prepare;

#[test]
fn every_command_is_one() {
    let wrong: Vec<String> = pages().iter().flat_map(wrong_commands).collect();
    none_of(&wrong);
}

#[test]
fn a_command_that_is_none_is_told() {
    let text = "Say `vioperf runn` or `vioperf run --bogus`, not `vioperf run`.\n\n\
                \x20   vioperf run nic-models --set nic=virtio    # fine\n\
                \x20   vioperf run nic-model\n\
                \x20   vioperf run nic-models --set nic=virtoi\n\
                \x20   make runn\n\n\
                ```console\n$ vioperf plan nic-models \\\n    --sed 7\nvioperf is output here\n```\n";
    let page = Page::of(&root().join("README.md"), text);
    let wrong = wrong_commands(&page);
    let places: Vec<&str> = wrong.iter().filter_map(|said| said.split(": ").next()).collect();
    let expected = [4, 5, 6, 9, 1, 1].map(|line| format!("README.md:{line}"));
    assert_eq!(places, expected, "{wrong:#?}");
}

fn wrong_commands(page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, command) in commands(page) {
        if let Err(why) = check(&command, true) {
            wrong.push(format!("{}: `{command}`: {why}", page.place(number)));
        }
    }
    for (number, code) in page.inline_code() {
        // Square brackets say what may be left out.
        let code = code.replace(['[', ']'], "");
        if let Err(why) = check(&code, false) {
            wrong.push(format!("{}: `{code}`: {why}", page.place(number)));
        }
    }
    wrong
}

/// The lines of blocks that a reader may type, each with its number.
fn commands(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for block in page.blocks.iter().filter(|block| is_typed(&block.language)) {
        // With a prompt anywhere, the rest is what was answered.
        let prompted = block.lines.iter().any(|line| line.starts_with("$ "));
        let mut lines = block.lines.iter().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some(line) = line.strip_prefix("$ ").or((!prompted).then_some(line)) else {
                continue;
            };
            let mut command = line.to_owned();
            while let Some(begun) = command.strip_suffix('\\') {
                let next = lines.next().map_or("", |(_, next)| next.trim());
                command = format!("{begun}{next}");
            }
            found.push((block.line + at, command));
        }
    }
    found
}

fn is_typed(language: &str) -> bool {
    ["", "sh", "console"].contains(&language)
}

/// Whether a command of vioperf's or of make's is one. In prose it need not be whole.
fn check(command: &str, whole: bool) -> Result<(), String> {
    let mut words = words(command);
    let is_program =
        |word: &String| !["sudo", "time"].contains(&word.as_str()) && !word.contains('=');
    let program = words.iter().position(is_program).unwrap_or(words.len());
    words.drain(..program);
    match words.first().map(String::as_str) {
        Some("make") => check_make(&words[1..]),
        Some(name) if name.rsplit('/').next() == Some("vioperf") => check_own(&words, whole),
        _ => Ok(()),
    }
}

fn check_make(words: &[String]) -> Result<(), String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let is_target = |word: &String| {
        word.contains('=') || makefile.lines().any(|line| line.starts_with(&format!("{word}:")))
    };
    match words.iter().find(|word| !is_target(word)) {
        Some(word) => Err(format!("the Makefile has no target {word}")),
        None => Ok(()),
    }
}

fn check_own(words: &[String], whole: bool) -> Result<(), String> {
    use ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
        MissingRequiredArgument, MissingSubcommand,
    };
    let partly =
        [MissingRequiredArgument, MissingSubcommand, DisplayHelpOnMissingArgumentOrSubcommand];
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if [DisplayHelp, DisplayVersion].contains(&error.kind()) => return Ok(()),
        Err(error) if !whole && partly.contains(&error.kind()) => return Ok(()),
        Err(error) => return Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    };
    let (name, changes) = match cli.command {
        Command::Run(args) => (args.scenario, args.changes),
        Command::Plan(args) => (Some(args.scenario), args.changes),
        _ => return Ok(()),
    };
    // A file of the reader's own, or a word that stands for any.
    let Some(name) = name.filter(|name| !name.contains('.') && *name == name.to_lowercase()) else {
        return Ok(());
    };
    prepare::scenario(&name, &changes).map(drop).map_err(|failure| format!("{failure:#}"))
}

/// The words of the first command of a line, as a shell takes them apart; comments are left out, and so
/// is an ellipsis that stands for more.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.trim().chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => words.last_mut().unwrap().push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '#' && words.last().unwrap().is_empty() => break,
            None if "|;&<>".contains(c) => break,
            None if c.is_whitespace() => words.push(String::new()),
            None => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty() && word != "…" && word != "...");
    words
}
