//! Puts into the binary what it carries: the guest's agent, the built-in scenarios and references.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    embed_agent(&out, &root)?;
    embed_scenarios(&out, &root)?;
    embed_references(&out, &root)?;
    Ok(())
}

/// The agent is for another target (static, musl) and profile, so it is built before this crate.
fn embed_agent(out: &Path, root: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=VIOPERF_AGENT");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let built = target.join("x86_64-unknown-linux-musl/agent/vioperf-agent");
    let agent = env::var_os("VIOPERF_AGENT").map_or(built, PathBuf::from);
    println!("cargo::rerun-if-changed={}", agent.display());
    if !agent.is_file() {
        println!(
            "cargo::error=the guest's agent is not built yet: `make agent` does it, `make build` all"
        );
        return Ok(());
    }
    fs::copy(&agent, out.join("agent"))?;
    Ok(())
}

/// Every file below `scenarios/` is a built-in scenario, named by its path without the ending
/// (`article/kvm-pps`).
fn embed_scenarios(out: &Path, root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = root.join("scenarios");
    let mut files = Vec::new();
    collect_scenarios(&folder, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&folder)?.with_extension("");
        let name = name.to_str().ok_or("scenario name")?;
        writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string())?;
    }
    table.push(']');
    fs::write(out.join("scenarios.rs"), table)?;
    Ok(())
}

fn collect_scenarios(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_scenarios(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Every file of `references/` is a built-in reference, named as its file without the ending.
fn embed_references(out: &Path, root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = root.join("references");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.file_stem().and_then(|stem| stem.to_str()).ok_or("reference name")?;
        writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string())?;
    }
    table.push(']');
    fs::write(out.join("references.rs"), table)?;
    Ok(())
}
