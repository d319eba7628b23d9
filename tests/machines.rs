//! Between two machines: every load, every way, what is stored of it, and who may do what.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::machines::{Running, SERVER, SERVER_6, Wire};
use support::{Finished, VIOPERF, vioperf};

/// As short as it can be.
const SHORT: &[&str] = &["--duration=800ms", "--warmup=100ms", "--json"];

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

fn mean(cell: &Value, path: &[&str]) -> f64 {
    let metric = path.iter().fold(cell, |value, key| &value[key]);
    metric["summary"]["mean"].as_f64().unwrap_or_else(|| panic!("no {path:?} in {metric:#}"))
}

#[test]
fn every_load_goes_every_way() {
    let wire = Wire::new();
    let token = token(&wire);
    let _server = wire.serve(&["--listen", SERVER, "--token-file", &token.file]);
    let loads: &[(&str, &[&str], &[&str])] = &[
        ("tcp-stream", &["--streams=2"], &["receiver_bits_per_second"]),
        ("udp-stream", &["--rate=20M"], &["receiver_bits_per_second"]),
        ("packet-rate", &[], &["datagrams", "received_per_second"]),
        ("request-response", &[], &["transactions", "per_second"]),
        ("request-response", &["--transport=udp"], &["transactions", "per_second"]),
        ("connect-rate", &[], &["transactions", "per_second"]),
    ];
    for (kind, options, metric) in loads {
        for direction in ["to", "from", "both"] {
            if direction == "both" && *kind != "tcp-stream" {
                continue;
            }
            let load = [SERVER, "-w", kind, "--direction", direction, "--token-file", &token.file];
            let finished = wire.test(&[&load, *options, SHORT].concat()).succeeded();
            let report = json(&finished);
            let cell = &report["cells"][0];
            assert!(mean(cell, metric) > 0.0, "{kind} {direction}: {cell:#}");
            for end in ["client", "server"] {
                mean(cell, &["between", end, "machine", "busy_percent_of_core"]);
                mean(cell, &["between", end, "node_percent_of_core"]);
            }
            if *kind == "tcp-stream" {
                assert!(mean(cell, &["tcp", "rtt_us"]) > 0.0);
                assert!(mean(cell, &["tcp", "congestion_window_bytes"]) > 0.0);
            }
        }
    }
}

/// Made by the server's side, as the documentation says.
struct Token {
    folder: tempfile::TempDir,
    file: String,
}

fn token(wire: &Wire) -> Token {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token").to_str().unwrap().to_owned();
    let made = Wire::vioperf(&wire.server(), &["serve", "--new-token", &file]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    Token { folder, file }
}

#[test]
fn what_is_stored_is_reported_in_every_format_as_it_was_printed() {
    let wire = Wire::new();
    let token = token(&wire);
    let _server = wire.serve(&["--listen", "[::]", "--token-file", &token.file]);
    let stored = token.folder.path().join("run").to_str().unwrap().to_owned();
    let arguments = [SERVER_6, "-6", "--blocks=3", "--token-file", &token.file, "--out", &stored];
    let test = wire.test(&[&arguments, SHORT].concat()).succeeded();
    let again = vioperf(&["report", &stored, "--format", "json"]).succeeded();
    assert_eq!(test.stdout, again.stdout);
    let report = json(&again);
    assert_eq!(report["cells"][0]["trials"]["completed"], 3);
    assert_eq!(report["run"]["scenario"]["testbed"]["server"], SERVER_6);
    assert_eq!(report["run"]["scenario"]["testbed"]["mtu"], 1500);
    // The machine was looked at before.
    assert!(report["run"]["machine_before"]["took_ms"].as_u64().unwrap() >= 600);
    for format in ["terminal", "csv", "markdown", "html"] {
        let text = vioperf(&["report", &stored, "--format", format]).succeeded().stdout;
        assert!(text.contains(SERVER_6), "{format}: {text}");
        if format != "csv" {
            let text = text.rsplit("</style>").next().unwrap();
            let words = text.to_lowercase();
            // What only a lab has.
            for word in ["guest", "baseline", "qemu", "doctor"] {
                let at = words.find(word).map(|at| &words[at.saturating_sub(60)..at + 20]);
                assert_eq!(at, None, "{format} says {word}");
            }
        }
    }
}

#[test]
fn tls_is_with_the_server_that_is_meant() {
    let wire = Wire::new();
    let token = token(&wire);
    let with_token = ["--token-file", &token.file];
    let mut server = wire.serve(&[&["--listen", SERVER, "--tls"], with_token.as_slice()].concat());
    let line = server.until("--tls-pin");
    let pin = line.split_ascii_whitespace().last().unwrap().to_owned();
    let test = |tls: &[&str]| wire.test(&[&[SERVER], tls, &with_token, SHORT].concat());
    test(&["--tls-pin", &pin]).succeeded();
    // The proof of the token is bound to the channel.
    test(&["--tls"]).succeeded();
    let other = format!("sha256:{}", "5".repeat(64));
    test(&["--tls-pin", &other]).failed_with(1, &["certificate", "--tls-pin"]);
    test(&[]).failed_with(1, &["--tls-pin"]);
    wire.test(&[SERVER, "--tls"]).failed_with(2, &["--tls-pin", "--token-file"]);
    drop(server);
    let _plain = wire.serve(&[&["--listen", SERVER], with_token.as_slice()].concat());
    test(&["--tls"]).failed_with(1, &["TLS"]);
}

#[test]
fn nobody_gets_in_without_the_token() {
    let wire = Wire::new();
    let refused = Wire::vioperf(&wire.server(), &["serve", "--listen", SERVER]).output().unwrap();
    Finished::of(refused).failed_with(2, &["--new-token", "--token-file"]);
    let token = token(&wire);
    let mut server = wire.serve(&["--listen", SERVER, "--token-file", &token.file]);
    let other = token.folder.path().join("other").to_str().unwrap().to_owned();
    vioperf(&["serve", "--new-token", &other]).succeeded();
    wire.test(&[SERVER, "--token-file", &other]).failed_with(1, &["same token"]);
    server.until("does not know the same token");
    wire.test(&[SERVER]).failed_with(1, &["--token-file"]);
    // A file that others can read is no secret.
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    wire.test(&[SERVER, "--token-file", &other]).failed_with(2, &["chmod 600"]);
    let mut from_environment = Wire::vioperf(&wire.client(), &["test", SERVER]);
    from_environment.args(SHORT).env("VIOPERF_TOKEN", fs::read_to_string(&token.file).unwrap());
    Running::start(from_environment).ends().succeeded();
}

#[test]
fn a_client_that_proves_demands_proof() {
    let wire = Wire::new();
    let token = token(&wire);
    // A server without a token listens on loopback only: so both are on one machine.
    let _server = Running::start(Wire::vioperf(&wire.client(), &["serve", "--listen=:5299"]));
    let loopback = "127.0.0.1:5299";
    let mut tries = 0;
    while wire.test(&[&[loopback], SHORT].concat()).code != Some(0) {
        tries += 1;
        assert!(tries < 50, "the server never listens");
    }
    wire.test(&[loopback, "--token-file", &token.file]).failed_with(1, &["leave the token away"]);
}

#[test]
fn a_server_keeps_to_its_limits_and_says_which() {
    let wire = Wire::new();
    let token = token(&wire);
    let limits = ["--max-duration=2s", "--max-streams=2", "--max-rate=50M", "--max-memory=1M"];
    let with_token = ["--token-file", &token.file];
    let _server =
        wire.serve(&[&["--listen", SERVER], limits.as_slice(), with_token.as_slice()].concat());
    let test = |options: &[&str]| wire.test(&[&[SERVER], options, &with_token].concat());
    let rate = "--rate=10M";
    test(&[rate, "--duration=3s"]).failed_with(1, &["2 s", "--max-duration"]);
    test(&[rate, "--duration=1s", "--streams=3"]).failed_with(1, &["2", "--max-streams"]);
    test(&["--rate=30M", "--duration=1s", "--streams=2"])
        .failed_with(1, &["60 Mbit/s", "--max-rate"]);
    test(&["--duration=1s"]).failed_with(1, &["--max-rate", "--rate"]);
    test(&[rate, "--duration=1s", "--socket-buffer=1M"]).failed_with(1, &["--max-memory"]);
    test(&[&[rate, "--streams=2"], SHORT].concat()).succeeded();
}

#[test]
fn a_full_server_says_so_and_serves_the_next() {
    let wire = Wire::new();
    let token = token(&wire);
    let with_token = ["--token-file", &token.file];
    let mut server =
        wire.serve(&[&["--listen", SERVER, "--max-clients=1"], with_token.as_slice()].concat());
    let mut first = wire
        .start_test(&[&[SERVER, "--duration=3s", "--warmup=0s"], with_token.as_slice()].concat());
    first.until("received");
    let second = wire.test(&[&[SERVER], SHORT, &with_token].concat());
    second.failed_with(1, &["1 clients at once", "try again", "--max-clients"]);
    first.ends().succeeded();
    server.until("finished");
    wire.test(&[&[SERVER], SHORT, &with_token].concat()).succeeded();
}

#[test]
fn several_clients_are_served_at_once() {
    let wire = Wire::new();
    let token = token(&wire);
    let with_token = ["--token-file", &token.file];
    let _server = wire.serve(&[&["--listen", SERVER], with_token.as_slice()].concat());
    let options = ["--duration=2s", "--rate=20M"];
    let clients: Vec<Running> = (0..3)
        .map(|_| wire.start_test(&[&[SERVER], options.as_slice(), &with_token].concat()))
        .collect();
    for client in clients {
        let report = client.ends().succeeded().stdout;
        assert!(report.contains("arrived at 192.0.2.1"), "{report}");
    }
}

#[test]
fn a_blocked_data_port_is_named() {
    let wire = Wire::new();
    let token = token(&wire);
    let with_token = ["--token-file", &token.file];
    let _server = wire.serve(&[&["--listen", SERVER], with_token.as_slice()].concat());
    let rules = "table inet t { chain c { type filter hook input priority 0; \
                 ip daddr 192.0.2.1 tcp dport != 5210 reject with tcp reset; }; }";
    let nft = std::process::Command::new("ip")
        .args(["netns", "exec", &wire.server(), "nft", rules])
        .status()
        .unwrap();
    assert!(nft.success());
    let test = wire.test(&[&[SERVER], SHORT, &with_token].concat());
    test.failed_with(1, &["cannot connect stream 1 of 1 to 192.0.2.1:", "refused", "firewall"]);
}

#[test]
fn the_command_line_of_a_test_is_checked_before_anybody_is_asked() {
    let test = |options: &[&str]| vioperf(&[&["test", "192.0.2.9"], options].concat());
    test(&["--streams=0"]).failed_with(2, &["--streams 0", "1 to 256"]);
    test(&["-w", "tcp-steam"]).failed_with(2, &["did you mean `tcp-stream`?"]);
    test(&["--rate=fast"]).failed_with(2, &["--rate fast", "not a rate"]);
    test(&["--batch=5"]).failed_with(2, &["packet-rate"]);
    vioperf(&["test", "a b"]).failed_with(2, &["names no machine"]);
    vioperf(&["serve", "--listen", "nowhere"]).failed_with(2, &["--listen nowhere"]);
    assert!(std::path::Path::new(VIOPERF).exists());
}
