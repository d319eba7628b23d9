//! How soon a report's page is painted, and what it weighs: `make first-paint RUN=DIR`.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::browser::Browser;

/// What a page may take to its first paint, in ms, and what it may weigh, in bytes.
const BAR_MS: f64 = 1000.0;
const BAR_BYTES: u64 = 2 << 20;

/// Opens pages of reports in Chromium, each time in a browser that has just started, and tells how soon the
/// first of them is seen. Fails where the median is above a second, or a page above 2 MiB.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run directories, or pages.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
    /// How often each is opened.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    times: u16,
    /// The browser.
    #[arg(long, default_value = "chromium")]
    browser: String,
    /// vioperf's program; the one beside this program where absent.
    #[arg(long)]
    vioperf: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut holds = true;
    for report in &arguments.reports {
        let folder = tempfile::tempdir().context("cannot make a folder for the page")?;
        let page = match report.is_dir() {
            true => rendered(report, folder.path(), &arguments)?,
            false => report.clone(),
        };
        let bytes =
            fs::metadata(&page).with_context(|| format!("cannot read {}", page.display()))?.len();
        let mut times = Vec::new();
        for _ in 0..arguments.times {
            times.push(Browser::start(&arguments.browser)?.first_paint_ms(&page)?);
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        holds &= median <= BAR_MS && bytes <= BAR_BYTES;
        println!(
            "{}: first paint {median:.0} ms (median of {}, {:.0} to {:.0}), {:.2} MiB",
            report.display(),
            times.len(),
            times[0],
            times[times.len() - 1],
            bytes as f64 / f64::from(1 << 20),
        );
    }
    if !holds {
        println!("above the bar: {BAR_MS:.0} ms, {} MiB", BAR_BYTES >> 20);
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The page of a run, made anew.
fn rendered(run: &Path, folder: &Path, arguments: &Arguments) -> Result<PathBuf> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("vioperf"));
    let vioperf = arguments.vioperf.clone().map_or_else(beside, Ok)?;
    let done = Command::new(&vioperf)
        .args(["report".as_ref(), run.as_os_str(), "--format".as_ref(), "html".as_ref()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| {
            format!("cannot run {}: build it, or name it by --vioperf", vioperf.display())
        })?;
    if !done.status.success() {
        bail!("{} has no report", run.display());
    }
    let page = folder.join("report.html");
    fs::write(&page, done.stdout).with_context(|| format!("cannot write {}", page.display()))?;
    Ok(page)
}
