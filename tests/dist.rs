//! What others install: packed, installed in an empty root, and run there. `scripts/dist` does it and fails where a part
//! is missing or the program does not work; here it is not optimised, which takes too long for a test.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_package_installs_and_works_in_an_empty_root() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let packed = Command::new(root.join("scripts/dist")).arg("check").output().unwrap();
    let said = String::from_utf8_lossy(&packed.stderr);
    assert!(packed.status.success(), "{said}");
    let folder = root.join("target/dist-check");
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--status", "SHA256SUMS"]).current_dir(&folder);
    assert!(sums.status().unwrap().success());
    let names = |ending: &str| {
        let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_str().unwrap().ends_with(ending)).collect::<Vec<_>>()
    };
    let ([tarball], [_package]) = (&names(".tar.gz")[..], &names(".deb")[..]) else {
        panic!("not one tarball and one package in {}", folder.display());
    };
    let listed = Command::new("tar").arg("-tzf").arg(tarball).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for part in [
        "/bin/vioperf",
        "/man/vioperf.1",
        "/man/vioperf-run.1",
        "/completions/vioperf.zsh",
        "/docs/tutorial.md",
        "/contrib/grafana/",
        "/LICENSE",
    ] {
        assert!(listed.lines().any(|line| line.contains(part)), "{part} is not in\n{listed}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
