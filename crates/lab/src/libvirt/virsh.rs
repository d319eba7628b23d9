//! libvirt's program `virsh`: started with a vector of arguments, bounded in time and in what it says.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What it is called.
const PROGRAM: &str = "virsh";
/// No answer is longer than this: a domain's XML has some ten thousand bytes.
const MOST_BYTES: u64 = 8 << 20;
/// How long a question may take; the first one may start libvirtd by its socket.
const ASK_WITHIN: Duration = Duration::from_secs(30);
/// How long an order may take: starting a domain prepares its disks and networks.
const DO_WITHIN: Duration = Duration::from_secs(120);
/// How long after its end its last words may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Why libvirt did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VirshError {
    /// The program is not there.
    #[error(
        "virsh is not installed: Debian, Ubuntu: `sudo apt-get install libvirt-clients`; Fedora: `sudo dnf \
         install libvirt-client`"
    )]
    NotInstalled,
    /// It cannot be started.
    #[error("cannot start virsh: {0}")]
    Start(#[source] io::Error),
    /// There is no way to that libvirt.
    #[error(
        "cannot connect to libvirt at {uri}: {said}; does libvirtd (or virtqemud) run there, and may you use \
         it (group libvirt, or root)? `virsh -c '{uri}' list` tries the same"
    )]
    NoConnection {
        /// Which.
        uri: String,
        /// What virsh said.
        said: String,
    },
    /// There is no such domain.
    #[error("libvirt knows no domain `{0}`")]
    NoDomain(String),
    /// It refused.
    #[error("`virsh {what}` failed: {said}")]
    Refused {
        /// The command.
        what: String,
        /// What virsh said.
        said: String,
    },
    /// It took too long.
    #[error("`virsh {what}` took longer than {seconds} s: is libvirtd stuck? Try the same by hand")]
    TooSlow {
        /// The command.
        what: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It said too much, or what is no text.
    #[error("`virsh {what}` said what is no answer: {reason}")]
    Gibberish {
        /// The command.
        what: String,
        /// Why.
        reason: String,
    },
}

/// One libvirt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Virsh {
    uri: Option<String>,
}

impl Virsh {
    /// That at a URI; absent takes what virsh itself would (`LIBVIRT_DEFAULT_URI`, its configuration).
    #[must_use]
    pub fn new(uri: Option<&str>) -> Self {
        Self { uri: uri.map(str::to_owned) }
    }

    /// Its canonical URI, which connects to it.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn canonical_uri(&self) -> Result<String, VirshError> {
        Ok(self.ask(&["uri"])?.trim().to_owned())
    }

    /// What the user calls it.
    fn name(&self) -> String {
        self.uri.clone().unwrap_or_else(|| "its default URI".to_owned())
    }

    /// Asks something that alters nothing.
    ///
    /// # Errors
    /// What virsh said against it.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, VirshError> {
        self.run(arguments, ASK_WITHIN)
    }

    /// Has something done.
    ///
    /// # Errors
    /// What virsh said against it.
    pub(super) fn order(&self, arguments: &[&str]) -> Result<String, VirshError> {
        self.run(arguments, DO_WITHIN)
    }

    fn run(&self, arguments: &[&str], within: Duration) -> Result<String, VirshError> {
        let mut command = Command::new(PROGRAM);
        // No colours, no questions, and words that can be recognised.
        command.env("LC_ALL", "C").arg("--quiet");
        if let Some(uri) = &self.uri {
            command.args(["--connect", uri]);
        }
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => VirshError::NotInstalled,
            _ => VirshError::Start(error),
        })?;
        let what = arguments.join(" ");
        let Some(answer) = Answer::of(child, within).map_err(VirshError::Start)? else {
            return Err(VirshError::TooSlow { what, seconds: within.as_secs() });
        };
        let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
        if !answer.status.success() {
            return Err(self.refusal(what, &said));
        }
        if answer.stdout.len() as u64 > MOST_BYTES {
            let reason = format!("it is longer than {} MiB", MOST_BYTES >> 20);
            return Err(VirshError::Gibberish { what, reason });
        }
        String::from_utf8(answer.stdout)
            .map_err(|error| VirshError::Gibberish { what, reason: error.to_string() })
    }

    fn refusal(&self, what: String, said: &str) -> VirshError {
        let said = in_one_line(said);
        if let Some(reason) = said.strip_prefix("failed to connect to the hypervisor") {
            let said = reason.trim_start_matches([';', ' ']).to_owned();
            return VirshError::NoConnection { uri: self.name(), said };
        }
        if let Some(rest) = said.split("failed to get domain '").nth(1) {
            let name = rest.split_once('\'').map_or(rest, |(name, _)| name);
            return VirshError::NoDomain(name.to_owned());
        }
        VirshError::Refused { what, said }
    }
}

/// `error: A\nerror: B` as `A; B`.
fn in_one_line(said: &str) -> String {
    let lines = said.lines().map(|line| line.trim().trim_start_matches("error:").trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// What a program said until its end.
struct Answer {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Answer {
    /// Waits for it; nothing where it took too long, and was killed.
    fn of(mut child: Child, within: Duration) -> io::Result<Option<Self>> {
        let [stdout, stderr] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
            child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        ]
        .map(|pipe| {
            let (sender, receiver) = mpsc::channel();
            // Nobody listens any more where it took too long.
            thread::spawn(move || sender.send(pipe.map(read_bounded).unwrap_or_default()));
            receiver
        });
        let deadline = Instant::now() + within;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() < deadline => thread::sleep(LOOK),
                None => {
                    // Fails only when it has just ended.
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
            }
        };
        let Some(status) = status else { return Ok(None) };
        // What it left behind (a shared connection of ssh) may hold a pipe open for ever.
        let [stdout, stderr] = [stdout, stderr].map(|said| said.recv_timeout(LAST_WORDS));
        let stdout = stdout.map_err(|_| io::Error::other("its output does not end"))?;
        Ok(Some(Self { status, stdout, stderr: stderr.unwrap_or_default() }))
    }
}

/// The rest is read too, so that the program comes to its end, but not kept.
fn read_bounded(mut pipe: Box<dyn Read + Send>) -> Vec<u8> {
    let mut kept = Vec::new();
    // What cannot be read was not said.
    let _ = pipe.by_ref().take(MOST_BYTES + 1).read_to_end(&mut kept);
    let _ = io::copy(&mut pipe, &mut io::sink());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_virsh_says_is_told_apart() {
        let virsh = Virsh::new(Some("qemu:///system"));
        let refusal = |said| virsh.refusal("dumpxml x".into(), said);
        let none = "error: failed to connect to the hypervisor\nerror: Failed to connect socket to \
                    '/run/libvirt-sock': No such file or directory\n";
        let message = refusal(none).to_string();
        assert!(message.contains("at qemu:///system: Failed to connect socket"), "{message}");
        assert!(message.contains("group libvirt"), "{message}");
        let unknown = "error: failed to get domain 'we b'\nerror: Domain not found: no domain";
        assert!(matches!(refusal(unknown), VirshError::NoDomain(name) if name == "we b"));
        let message = refusal("error: a\nerror: b\n").to_string();
        assert_eq!(message, "`virsh dumpxml x` failed: a; b");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let began = Instant::now();
        assert!(Answer::of(child, Duration::from_millis(50)).unwrap().is_none());
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
