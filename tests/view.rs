//! `vioperf view`: who gets in, and what a reader finds there. The real server, a real history, and Chromium.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::past::Past;
use support::readers::{self, READERS};

/// A server that does not answer within this never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `vioperf view`.
struct View {
    child: Child,
    address: String,
}

impl View {
    fn of(past: &Past, arguments: &[&str]) -> Self {
        Self::start(past.command(&[&["view"], arguments].concat()))
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let view = Self { child, address: address.trim().to_owned() };
        assert!(view.address.starts_with("http://127.0.0.1:"), "{}", view.address);
        view
    }

    /// Ctrl-C; gives the exit code and what it said.
    fn interrupt(mut self) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "it does not end"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    /// `127.0.0.1:PORT`, and the path in.
    fn parts(&self) -> (&str, &str) {
        let rest = self.address.strip_prefix("http://").unwrap();
        rest.split_at(rest.find('/').unwrap())
    }

    /// Sends these bytes, and that nothing else follows; gives what comes back until the other end closes.
    fn send_all(&self, bytes: &[u8]) -> String {
        self.send(bytes, |stream| drop(stream.shutdown(Shutdown::Write)))
    }

    fn send(&self, bytes: &[u8], and_then: impl Fn(&TcpStream)) -> String {
        let mut stream = TcpStream::connect(self.parts().0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may have closed before everything was sent; what it said is there all the same.
        let _ = stream.write_all(bytes);
        and_then(&stream);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no end of the answer: {error}"),
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The answer to a request for this path, with these headers beside `Host`.
    fn ask(&self, method: &str, path: &str, host: &str, headers: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        );
        Answer(self.send(request.as_bytes(), |_| {}))
    }

    /// The page of that name.
    fn page(&self, name: &str) -> Answer {
        let (host, path) = self.parts();
        self.ask("GET", &format!("{path}{name}"), host, "")
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // One that has ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back.
struct Answer(String);

impl Answer {
    fn status(&self) -> u16 {
        let line = self.0.lines().next().unwrap_or_else(|| panic!("no answer"));
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn header(&self, name: &str) -> &str {
        let head = self.0.split("\r\n\r\n").next().unwrap();
        let of = |line: &'_ str| line.split_once(": ").map(|(of, _)| of.to_ascii_lowercase());
        let line = head.lines().find(|line| of(line).as_deref() == Some(name));
        line.map_or("", |line| line.split_once(": ").unwrap().1)
    }

    fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").unwrap().1
    }
}

/// Six runs of one cell, faster from the fourth on under a newer kernel, and one whose directory is gone.
fn past() -> Past {
    let past = Past::new();
    for day in 1..=6 {
        let (kernel, rate) = if day < 4 { ("6.1.0", 1e9) } else { ("6.12.0", 1.5e9) };
        past.store_blocks(
            &format!("run-{day}"),
            day,
            kernel,
            rate * (1.0 + day as f64 / 1000.0),
            6,
        );
    }
    past.store("gone", 7, "6.12.0", 1e9);
    let names = ["gone", "run-1", "run-2", "run-3", "run-4", "run-5", "run-6"];
    past.vioperf(&[&["history", "add"], &names[..]].concat()).succeeded();
    fs::remove_dir_all(past.folder.path().join("gone")).unwrap();
    past
}

#[test]
fn who_does_not_know_the_token_or_comes_by_another_name_gets_nothing() {
    let past = past();
    let view = View::of(&past, &[]);
    let (host, path) = view.parts();
    let token = path.trim_matches('/');
    assert!(token.len() >= 43, "{token}");
    let listed = past.json(&["history"]);
    let id = listed[1]["id"].as_str().unwrap();

    let wrong = format!("/{}A/", &token[1..]);
    let query = format!("/?token={token}");
    for path in ["/", "/run", "/favicon.ico", &wrong, "/../", &query, "//", "/%2e%2e/"] {
        let refused = view.ask("GET", path, host, "");
        assert_eq!(refused.status(), 403, "{path}");
        assert!(!refused.0.contains(id) && !refused.0.contains(token), "{path}: {}", refused.0);
    }
    for other in ["evil.example", "127.0.0.1.evil.example", "", "0.0.0.0", "10.0.0.1:80"] {
        let refused = view.ask("GET", path, other, "");
        assert!([400, 421].contains(&refused.status()), "{other}: {}", refused.0);
        assert!(!refused.0.contains(id), "{other}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        assert_eq!(view.ask(method, path, host, "").status(), 405, "{method}");
    }
    assert_eq!(view.ask("GET", path, host, "Content-Length: 5\r\n").status(), 413);

    let page = view.page("");
    assert_eq!(page.status(), 200);
    assert!(page.body().contains(id) && !page.0.contains(token));
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    assert_eq!(page.header("cache-control"), "no-store");
    let policy = page.header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("script-src 'unsafe") && page.header("set-cookie").is_empty());
    let head = view.ask("HEAD", path, "localhost:1", "");
    assert_eq!((head.status(), head.body()), (200, ""));
    // Nothing that is asked for is a path.
    for name in
        ["run?id=../run-1", "run?id=/etc/passwd", "run?id=", "etc/passwd", "run?id=%00", "compare"]
    {
        let answer = view.page(name);
        assert!([400, 404].contains(&answer.status()), "{name}: {}", answer.0);
        assert!(!answer.0.contains("root:"), "{name}");
    }
    assert_eq!(view.page("trend?metric=nonsense").status(), 400);
    let gone = listed[0]["id"].as_str().unwrap();
    assert_eq!(view.page(&format!("run?id={gone}")).status(), 404);
}

#[test]
fn garbage_slow_and_many_requests_end_and_it_goes_on() {
    let past = past();
    let view = View::of(&past, &[]);
    let (host, path) = view.parts();
    let long_line =
        format!("GET {path}?x={} HTTP/1.1\r\nHost: {host}\r\n\r\n", "x".repeat(100_000));
    let many_lines =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", "a: b\r\n".repeat(1000));
    let garbage: [&[u8]; 8] = [
        b"",
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long_line.as_bytes(),
        many_lines.as_bytes(),
    ];
    for bytes in garbage {
        let answer = view.send_all(bytes);
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(
            is_refused,
            "{:?}: {answer}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(40)])
        );
    }
    // Those who say nothing take places only for a while, and further ones are turned away.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(host).unwrap()).collect();
    let deadline = Instant::now() + PATIENCE;
    let is_answered = || view.ask("GET", path, host, "").0.starts_with("HTTP/1.1 200");
    while !is_answered() {
        assert!(Instant::now() < deadline, "the silent keep others out");
        thread::sleep(Duration::from_millis(200));
    }
    drop(silent);
    let (code, said) = view.interrupt();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("ended by SIGINT") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_browser_that_is_started_is_given_an_address_that_is_good_once() {
    let past = past();
    let folder = past.folder.path();
    let opener = folder.join("xdg-open");
    support::write(&opener, "#!/bin/sh\necho \"$1\" > opened.new\nmv opened.new opened\n");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = past.command(&["view", "--open"]);
    command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let view = View::start(command);
    let deadline = Instant::now() + PATIENCE;
    let opened = loop {
        match fs::read_to_string(folder.join("opened")) {
            Ok(opened) => break opened.trim().to_owned(),
            Err(_) => assert!(Instant::now() < deadline, "no browser was started"),
        }
        thread::sleep(Duration::from_millis(20));
    };
    let (host, path) = view.parts();
    assert_ne!(opened, view.address);
    let once = opened.strip_prefix("http://").and_then(|rest| rest.strip_prefix(host)).unwrap();
    assert_eq!(view.ask("GET", once, "evil.example", "").status(), 421);
    let first = view.ask("GET", once, host, "");
    assert_eq!((first.status(), first.header("location")), (303, path));
    assert_eq!(view.ask("GET", once, host, "").status(), 403);
}

#[test]
fn a_run_is_its_report_and_named_runs_need_no_history() {
    let past = past();
    let view = View::of(&past, &["run-2", "run-5"]);
    let list = view.page("");
    assert_eq!(list.body().matches("class=\"gone").count(), 0);
    assert_eq!(list.body().matches("name=\"a\"").count(), 2, "{}", list.body());
    let listed = past.json(&["history"]);
    let id = |day: usize| listed[7 - day]["id"].as_str().unwrap().to_owned();
    assert!(
        list.body().contains(&id(2))
            && list.body().contains(&id(5))
            && !list.body().contains(&id(3))
    );
    let report = past.vioperf(&["report", "run-2", "--format", "html"]).succeeded().stdout;
    let from = |page: &str| page[page.find("<header>").unwrap()..].to_owned();
    for _ in 0..2 {
        let shown = view.page(&format!("run?id={}", id(2)));
        assert_eq!(from(shown.body()), from(&report));
    }
    // Other files, another report.
    let trials = past.folder.path().join("run-2/trials.jsonl");
    let fewer: Vec<String> =
        fs::read_to_string(&trials).unwrap().lines().take(6).map(str::to_owned).collect();
    support::write(&trials, &(fewer.join("\n") + "\n"));
    let shown = view.page(&format!("run?id={}", id(2)));
    assert_ne!(from(shown.body()), from(&report));
    past.vioperf(&["view", "nonsense"]).failed_with(1, &["holds no run"]);
    let port = view.parts().0.rsplit(':').next().unwrap();
    past.vioperf(&["view", "--port", port]).failed_with(1, &["give another --port"]);
}

#[test]
fn a_reader_filters_compares_and_follows_a_cell_with_the_numbers_of_the_command_line() {
    let past = past();
    let view = View::of(&past, &[]);
    let looked = Command::new(readers::python())
        .args(["-B", &format!("{READERS}/view.py"), &view.address, readers::browser()])
        .args(std::env::var_os("VIEW_PICTURES"))
        .output()
        .unwrap();
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    let seen: Value = serde_json::from_slice(&looked.stdout).unwrap();
    let listed = past.json(&["history"]);
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    for (reader, met) in seen.as_object().unwrap() {
        assert_eq!(met["console"], serde_json::json!([]), "{reader}");
        assert_eq!(met["too_wide"], serde_json::json!([]), "{reader}");
        for request in met["requests"].as_array().unwrap() {
            let request = request.as_str().unwrap();
            assert!(
                request.starts_with(&view.address) || request == "data:,",
                "{reader}: {request}"
            );
        }
        let serious = |fault: &&Value| {
            ["serious", "critical"].contains(&fault["impact"].as_str().unwrap_or(""))
        };
        let serious: Vec<&Value> =
            met["faults"].as_array().unwrap().iter().filter(serious).collect();
        assert!(serious.is_empty(), "{reader}: {serious:#?}");

        let walked = &met["walked"];
        assert_eq!(walked["all"], serde_json::json!(ids), "{reader}");
        assert_eq!(walked["filtered"], serde_json::json!(ids[..4]), "{reader}");
        assert_eq!(
            (&walked["filter_in_address"], &walked["gone"]),
            (&true.into(), &1.into()),
            "{reader}"
        );
        assert_compared(&past, walked, reader);
        assert_trend(&past, walked, reader);
        assert!(walked["run"].as_str().unwrap().ends_with(ids[6]), "{reader}: {}", walked["run"]);
        assert_eq!(walked["back"], walked["all"], "{reader}");
    }
    let mut oldest_first = ids;
    oldest_first.reverse();
    assert_eq!(seen["light"]["oldest_first"], serde_json::json!(oldest_first));
}

/// What is shown of two runs is what `vioperf compare` says.
fn assert_compared(past: &Past, walked: &Value, reader: &str) {
    let said = past.json(&["compare", "run-1", "run-6"]);
    assert_eq!(walked["lead"], said["summary"][0], "{reader}");
    let rows = said["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["verdict"] == "better"), "{rows:#?}");
    let shown = walked["compared"].as_object().unwrap();
    assert_eq!(
        shown.values().map(|rows| rows.as_array().unwrap().len()).sum::<usize>(),
        rows.len()
    );
    for row in rows {
        let shown = shown[row["metric"].as_str().unwrap()].as_array().unwrap();
        let shown = shown.iter().find(|shown| shown[0] == row["cell"]).unwrap();
        let told = [&row["a"]["mean"], &row["b"]["mean"], &row["difference"]["value"]];
        for (shown, told) in shown.as_array().unwrap()[1..].iter().zip(told) {
            assert_near(shown, told, reader);
        }
    }
}

/// What is shown of a cell over time is what `vioperf trend` says.
fn assert_trend(past: &Past, walked: &Value, reader: &str) {
    let trends = past.json(&["trend", "headline", "--cell", "virtio"]);
    let trend = &trends[0];
    let points = trend["points"].as_array().unwrap();
    let shown = walked["trend"].as_array().unwrap();
    assert_eq!((shown.len(), points.len()), (7, 7), "{reader}: {shown:?}");
    for (shown, point) in shown.iter().zip(points) {
        assert_eq!(shown[1], point["run_id"], "{reader}");
        assert_near(&shown[2], &point["mean"], reader);
    }
    assert_eq!(
        walked["changes"].as_array().unwrap().len(),
        trend["changes"].as_array().unwrap().len(),
        "{reader}"
    );
}

/// The same number, or none; not to the last bit, which is lost where numbers are read.
fn assert_near(shown: &Value, told: &Value, reader: &str) {
    let (a, b) = (shown.as_f64(), told.as_f64());
    let is_apart = a.zip(b).is_some_and(|(a, b)| (a - b).abs() > b.abs() * 1e-12);
    assert!(a.is_some() == b.is_some() && !is_apart, "{reader}: {shown} is not {told}");
}
