//! Two "machines": network namespaces with a wire between them, a server in one, clients in the other.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::listener::Listener;
use super::{Finished, VIOPERF};

/// The server's addresses.
pub const SERVER: &str = "192.0.2.1";
pub const SERVER_6: &str = "2001:db8::1";
/// Nothing of a test waits longer for anything.
const BOUND: Duration = Duration::from_secs(60);
/// How long it may take until the last line of one that ended is heard.
const LAST_WORDS: Duration = Duration::from_secs(2);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Two namespaces with a wire between them; gone when dropped.
pub struct Wire {
    name: String,
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_ascii_whitespace()).status().unwrap();
    assert!(done.success(), "ip {arguments}");
}

impl Wire {
    pub fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "this test makes namespaces: run it as root");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("viotest{}x{number}", std::process::id());
        let wire = Self { name };
        let (server, client) = (wire.server(), wire.client());
        ip(&format!("netns add {server}"));
        ip(&format!("netns add {client}"));
        ip(&format!("link add wire netns {server} type veth peer name wire netns {client}"));
        for (end, number) in [(&server, 1), (&client, 2)] {
            ip(&format!("-n {end} addr add 192.0.2.{number}/24 dev wire"));
            ip(&format!("-n {end} addr add 2001:db8::{number}/64 dev wire nodad"));
            ip(&format!("-n {end} link set wire up"));
            ip(&format!("-n {end} link set lo up"));
        }
        wire
    }

    pub fn server(&self) -> String {
        format!("{}s", self.name)
    }

    pub fn client(&self) -> String {
        format!("{}c", self.name)
    }

    /// Cuts the wire.
    pub fn cut(&self) {
        ip(&format!("-n {} link set wire down", self.server()));
    }

    /// A vioperf in a namespace.
    pub fn vioperf(namespace: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, VIOPERF]).args(arguments);
        command.env_remove("VIOPERF_TOKEN").env("VIOPERF_NO_HISTORY", "1");
        command
    }

    /// A server that listens.
    pub fn serve(&self, arguments: &[&str]) -> Running {
        let arguments = [&["serve"], arguments].concat();
        let mut server = Running::start(Self::vioperf(&self.server(), &arguments));
        server.until("listening");
        server
    }

    /// A client that runs.
    pub fn start_test(&self, arguments: &[&str]) -> Running {
        Running::start(Self::vioperf(&self.client(), &[&["test"], arguments].concat()))
    }

    /// A client, to its end.
    pub fn test(&self, arguments: &[&str]) -> Finished {
        self.start_test(arguments).ends()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in [self.server(), self.client()] {
            // What is left of a test that failed must not fail it again.
            let _ = Command::new("ip").args(["netns", "delete", &end]).status();
        }
    }
}

/// A vioperf that runs; killed when dropped.
pub struct Running {
    child: Child,
    listener: Listener,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let listener = Listener::of(&mut child);
        Self { child, listener }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Reads on until it says `word`; gives that line.
    #[track_caller]
    pub fn until(&mut self, word: &str) -> String {
        match self.listener.until(word, Instant::now() + BOUND) {
            Ok(line) => line,
            Err(reason) => panic!("{reason} but:\n{}", self.listener.said(LAST_WORDS)),
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(self) -> Finished {
        self.ends_within(BOUND)
    }

    /// Waits so long for its end.
    #[track_caller]
    pub fn ends_within(mut self, bound: Duration) -> Finished {
        let deadline = Instant::now() + bound;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= deadline {
                panic!("it does not end; it said:\n{}", self.listener.said(LAST_WORDS));
            }
            thread::sleep(Duration::from_millis(5));
        };
        let stdout = self.listener.stdout();
        let stderr = self.listener.said(LAST_WORDS).to_owned();
        Finished {
            code: status.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&status),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
