//! A Chromium without a window, driven by its DevTools protocol over two pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, dup2_raw, pipe2};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser that has not answered by then is ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Chromium reads and writes its protocol.
const READS: i32 = 3;
const WRITES: i32 = 4;
/// Descriptors of ours stay clear of these two.
const ABOVE: i32 = 10;

/// When the first text or picture of the page was painted, in ms from the begin of its loading.
const FIRST_PAINT: &str = "new Promise(done => new PerformanceObserver(list => {
    for (const paint of list.getEntriesByName('first-contentful-paint')) done(paint.startTime);
}).observe({ type: 'paint', buffered: true }))";

/// A running browser with a profile of its own; both are gone when it is dropped.
pub struct Browser {
    process: Child,
    to: File,
    from: BufReader<File>,
    calls: u64,
    /// Whether its process was waited for: its number can be somebody else's from then on.
    is_gone: Arc<Mutex<bool>>,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &str) -> Result<Self> {
        let profile =
            tempfile::tempdir().context("cannot make a folder for the browser's profile")?;
        let (its_reading, to) = clear_pipe()?;
        let (from, its_writing) = clear_pipe()?;
        let mut command = Command::new(program);
        command
            .args(["--headless", "--disable-gpu", "--no-first-run", "--window-size=1280,900"])
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            // Chromium has no sandbox of its own for root.
            command.arg("--no-sandbox");
        }
        let prepare = move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // SAFETY: 3 and 4 belong to nobody in this process, which is about to become Chromium.
            let (reads, writes) =
                unsafe { (dup2_raw(&its_reading, READS)?, dup2_raw(&its_writing, WRITES)?) };
            // Chromium owns them from here on.
            std::mem::forget((reads, writes));
            Ok(())
        };
        // SAFETY: only system calls that are allowed between fork and exec.
        unsafe { command.pre_exec(prepare) };
        let process = command.spawn().with_context(|| {
            format!("cannot start {program}: `scripts/setup test` installs Chromium, --browser names another")
        })?;
        let watched = Pid::from_raw(i32::try_from(process.id())?);
        // Ends a browser that hangs, so that what reads from it ends, too; of no effect after its end.
        let is_gone = Arc::new(Mutex::new(false));
        let known = Arc::clone(&is_gone);
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            if known.lock().is_ok_and(|is_gone| !*is_gone) {
                let _ = kill(watched, Signal::SIGKILL);
            }
        });
        Ok(Self {
            process,
            to: to.into(),
            from: BufReader::new(from.into()),
            calls: 0,
            is_gone,
            _profile: profile,
        })
    }

    /// Loads a page of the disk and says when it was first painted, in ms.
    ///
    /// # Errors
    /// When the browser ends, or refuses.
    pub fn first_paint_ms(&mut self, page: &Path) -> Result<f64> {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", &attach)?;
        let session = attached["sessionId"].as_str().context("no session")?.to_owned();
        let url = format!("file://{}", page.canonicalize()?.display());
        self.call(Some(&session), "Page.navigate", &json!({"url": url}))?;
        let ask = json!({"expression": FIRST_PAINT, "awaitPromise": true, "returnByValue": true});
        let told = self.call(Some(&session), "Runtime.evaluate", &ask)?;
        told["result"]["value"].as_f64().with_context(|| format!("no first paint: {told}"))
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Result<Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).context("the browser has ended")?;
        loop {
            let mut line = Vec::new();
            if self.from.read_until(0, &mut line)? == 0 {
                bail!("the browser ended before it answered {method}");
            }
            line.pop();
            let mut answer: Value = serde_json::from_slice(&line)?;
            if answer["id"] != self.calls {
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(answer["result"].take());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let mut is_gone = self.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.process.kill();
        let _ = self.process.wait();
        *is_gone = true;
    }
}

/// A pipe whose ends lie above those that Chromium uses, and are not handed on.
fn clear_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    Ok((above(&read)?, above(&write)?))
}

fn above(descriptor: &OwnedFd) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let copy = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(ABOVE))?;
    debug_assert!(copy >= ABOVE && copy != descriptor.as_raw_fd());
    // SAFETY: the kernel has just made it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
