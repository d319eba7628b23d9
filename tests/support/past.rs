//! A history of its own, and runs for it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use vioperf_analysis::testing::{Synthetic, with_flat_rate};

use super::{Finished, VIOPERF, write};

/// A history of its own, and no root needed.
pub struct Past {
    pub folder: TempDir,
}

impl Past {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn vioperf(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().unwrap())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(VIOPERF);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
            .env("XDG_DATA_HOME", self.folder.path().join("data"))
            .env_remove("VIOPERF_NO_HISTORY");
        command
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let done = self.vioperf(&[arguments, &["--format=json"]].concat()).succeeded();
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// Stores a run of one guest's cell beside its baseline, in two blocks.
    pub fn store(&self, name: &str, day: usize, kernel: &str, guest_bits_per_second: f64) {
        self.store_blocks(name, day, kernel, guest_bits_per_second, 2);
    }

    /// The same in so many blocks.
    pub fn store_blocks(&self, name: &str, day: usize, kernel: &str, rate: f64, blocks: u32) {
        let mut run = Synthetic::calm_kvm().run;
        let guest = run.plan.cells.iter().find(|cell| !cell.is_baseline()).unwrap().clone();
        let baseline = run.plan.cells.iter().find(|cell| Some(&cell.id) == guest.baseline.as_ref());
        run.plan.cells = vec![baseline.unwrap().clone(), guest];
        run.plan.blocks = vec![vec![0, 1]; blocks as usize];
        run.started_at = format!("2026-01-{day:02}T03:04:05.000Z");
        run.host.kernel_release = kernel.into();
        let directory = self.folder.path().join(name);
        fs::create_dir(&directory).unwrap();
        write(&directory.join("run.json"), &serde_json::to_string(&run).unwrap());
        let mut lines = String::new();
        for sequence in 0..2 * blocks {
            let cell = &run.plan.cells[sequence as usize % 2];
            let rate = if cell.is_baseline() { 1e10 } else { rate };
            let trial = with_flat_rate(cell, sequence / 2, sequence, rate);
            lines += &(serde_json::to_string(&trial).unwrap() + "\n");
        }
        write(&directory.join("trials.jsonl"), &lines);
    }
}
