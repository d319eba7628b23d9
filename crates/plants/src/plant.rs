//! One planted bottleneck, or a control in which nothing is planted.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::hog::Hog;
use crate::testbed::{Middle, Testbed};
use crate::trial::{Told, between, in_lab};

/// What stands for a cell of which nothing is told.
pub const NOTHING: &str = "nothing";

/// What every test is told besides.
const TRIALS: [&str; 2] = ["--blocks=3", "--warmup=300ms"];

/// One entry of the table.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// Names it, in kebab case.
    pub name: &'static str,
    /// What is planted, for a reader.
    pub about: &'static str,
    /// Where.
    pub place: Place,
    /// Options of `vioperf test` or `vioperf run`: the load.
    pub load: &'static [&'static str],
    /// Rules that are right when told first; [`NOTHING`] where nothing may be told as well.
    pub right: &'static [&'static str],
    /// Why there are several, or what else a reader should know.
    pub why: &'static str,
}

/// Where something is planted.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// Between two machines, by this function.
    Between(Middle, fn(&mut Testbed) -> Result<()>),
    /// Into a lab with a guest, by its scenario, beside so many threads that burn each core.
    Lab(&'static str, usize),
}

impl Plant {
    /// Whether nothing is planted: then everything that is told but what is right is false.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.name.starts_with("clean-")
    }

    /// Plants it, makes three short trials, and tells what vioperf says. `folder` takes the run.
    ///
    /// # Errors
    /// Where it cannot be planted here, or no trial counts.
    pub fn tried(&self, vioperf: &Path, folder: &Path) -> Result<Told> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let load = [&TRIALS, self.load].concat();
        match self.place {
            Place::Lab(scenario, hogs) => {
                let cores = std::thread::available_parallelism()?.get();
                let _hogs =
                    (0..cores).map(|core| Hog::start(core, hogs)).collect::<Result<Vec<_>>>()?;
                in_lab(vioperf, scenario, self.load, folder)
            }
            Place::Between(middle, plant) => {
                let mut testbed = Testbed::new(middle)?;
                plant(&mut testbed).context("cannot plant it")?;
                between(&testbed, vioperf, &load, folder)
            }
        }
    }

    /// Whether that is right when told first.
    #[must_use]
    pub fn is_right(&self, told: &str) -> bool {
        self.right.contains(&told)
    }
}

impl Told {
    /// The rule that is told first.
    #[must_use]
    pub fn first(&self) -> &str {
        self.rules.first().map_or(NOTHING, String::as_str)
    }
}
