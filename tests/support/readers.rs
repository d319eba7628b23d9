//! Programs of others that read what vioperf writes, in a Python environment of their own, and run directories
//! for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vioperf_analysis::testing::Synthetic;

use super::write;

/// Where they are.
pub const READERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/readers");

/// Python with what they need, made once and kept beside the build.
pub fn python() -> PathBuf {
    let wanted = fs::read_to_string(Path::new(READERS).join("requirements.txt")).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers");
    let python = folder.join("bin/python");
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    let run = |what: &str, command: &mut Command| {
        let done = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(done.status.success(), "{what}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run(
        "cannot make a Python environment: install python3-venv (`scripts/setup test`)",
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder),
    );
    run(
        "cannot install what reads tables (tests/readers/requirements.txt) from PyPI: check the network",
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--requirement",
            ])
            .arg(Path::new(READERS).join("requirements.txt")),
    );
    write(&installed, &wanted);
    python
}

/// The browser, whatever it is called here.
pub fn browser() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let runs = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|done| done.status.success())
    };
    names.iter().find(runs).expect("no Chromium here: `scripts/setup test` installs it")
}

/// A run directory with these records.
pub fn store(folder: &Path, name: &str, run: &Synthetic) -> String {
    let directory = folder.join(name);
    fs::create_dir(&directory).unwrap();
    write(&directory.join("run.json"), &serde_json::to_string(&run.run).unwrap());
    let lines: Vec<String> =
        run.trials.iter().map(|trial| serde_json::to_string(trial).unwrap() + "\n").collect();
    write(&directory.join("trials.jsonl"), &lines.concat());
    directory.to_str().unwrap().to_owned()
}
