//! What goes wrong between two machines: ends that die, a wire that is cut, and strangers at the door.
//! Each ends within a bound, with what was measured so far, and the server serves the next.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::machines::{Running, SERVER, Wire};
use support::{VIOPERF, vioperf};
use vioperf_model::scenario::IpVersion;
use vioperf_model::units::{Ratio, TimeSpan};
use vioperf_model::wire::{
    ForwardingConfig, ForwardingWay, Impairment, InterfaceConfig, InterfaceSelector,
    PROTOCOL_VERSION, Prepare, Request, Response, Role, WatchedProcess, read_frame, write_frame,
};
use vioperf_model::workload::{Workload, WorkloadKind};

/// Long enough that what ends it is what the test does.
const LONG: &[&str] = &["--duration=50s", "--warmup=0s"];
const SHORT: &[&str] = &["--duration=300ms", "--warmup=100ms"];
/// No end takes longer to notice that the other is gone.
const BOUND: Duration = Duration::from_secs(30);

struct Pair {
    wire: Wire,
    folder: tempfile::TempDir,
    token: String,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token").to_str().unwrap().to_owned();
        vioperf(&["serve", "--new-token", &token]).succeeded();
        Self { wire: Wire::new(), folder, token }
    }

    fn serve(&self) -> Running {
        self.wire.serve(&["--listen", SERVER, "--token-file", &self.token])
    }

    fn out(&self) -> String {
        self.folder.path().join("run").to_str().unwrap().to_owned()
    }

    /// A client under way: it has said how fast it is twice.
    fn client_under_way(&self, options: &[&str]) -> Running {
        let out = self.out();
        let mut client = self.start(&[LONG, options, &["--out", &out]].concat());
        client.until("received");
        client.until("received");
        client
    }

    fn start(&self, options: &[&str]) -> Running {
        self.wire.start_test(&[&[SERVER, "--token-file", &self.token], options].concat())
    }

    /// The server is none the worse for it.
    fn assert_serves(&self) {
        self.start(SHORT).ends().succeeded();
    }

    /// The one record of the client's run.
    fn record(&self) -> Value {
        let records = fs::read_to_string(self.folder.path().join("run/trials.jsonl")).unwrap();
        serde_json::from_str(records.trim()).unwrap()
    }
}

#[test]
fn a_client_that_dies_is_noticed() {
    let pair = Pair::new();
    let mut server = pair.serve();
    for direction in ["--direction=to", "--direction=from"] {
        let client = pair.start(&[LONG, &[direction]].concat());
        server.until("1.0 s");
        client.signal(Signal::SIGKILL);
        let line = server.until("the client went away");
        assert!(line.contains("until then") && line.contains("GB in"), "{line}");
    }
    pair.assert_serves();
}

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    let pair = Pair::new();
    let server = pair.serve();
    let client = pair.client_under_way(&[]);
    let began = Instant::now();
    server.signal(Signal::SIGKILL);
    let ended = client.ends().failed_with(1, &["closed"]);
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert!(ended.stdout.contains("until then"), "{}", ended.stdout);
    let record = pair.record();
    assert_eq!(record["outcome"]["result"], "void");
    let samples = |party: usize| record["parties"][party]["report"]["samples"].as_array().unwrap();
    assert!(samples(0).len() >= 2 && samples(1).len() >= 2, "{record:#}");
    let report = vioperf(&["report", &pair.out()]).succeeded().stdout;
    assert_eq!(report, ended.stdout);
}

#[test]
fn a_server_that_is_stopped_says_so() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let pair = Pair::new();
        let server = pair.serve();
        let client = pair.client_under_way(&[]);
        let began = Instant::now();
        server.signal(signal);
        client.ends().failed_with(1, &["the server was told to end"]);
        let code = if signal == Signal::SIGINT { 130 } else { 143 };
        server.ends().failed_with(code, &["the server is ending", "until then"]);
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }
}

#[test]
fn a_client_that_is_stopped_reports_what_it_measured() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let pair = Pair::new();
        let mut server = pair.serve();
        let client = pair.client_under_way(&["--direction=from"]);
        client.signal(signal);
        let ended = client.ends().failed_with(code, &["received"]);
        assert!(ended.stdout.contains("arrived here"), "{}", ended.stdout);
        assert!(ended.stdout.contains("interrupted"), "{}", ended.stdout);
        assert_eq!(pair.record()["outcome"]["result"], "completed");
        server.until("finished");
        pair.assert_serves();
    }
}

#[test]
fn a_wire_that_is_cut_ends_both() {
    for options in [&[][..], &["-w", "udp-stream", "--rate=10M", "--direction=from"]] {
        let pair = Pair::new();
        let mut server = pair.serve();
        let client = pair.client_under_way(options);
        let began = Instant::now();
        pair.wire.cut();
        let ended = client.ends().failed_with(1, &["did not answer within"]);
        assert!(ended.stdout.contains("until then"), "{}", ended.stdout);
        server.until("the client was silent");
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }
}

#[test]
fn a_node_that_dies_takes_nobody_with_it() {
    let pair = Pair::new();
    let mut server = pair.serve();
    let other = pair.start(&["--duration=6s", "--rate=10M"]);
    server.until("[1]    1.0 s");
    let client = pair.client_under_way(&["--rate=10M"]);
    let nodes = Command::new("pgrep").args(["-P", &server.pid().to_string()]).output().unwrap();
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let youngest = nodes.lines().last().unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(youngest), Signal::SIGKILL).unwrap();
    client.ends().failed_with(1, &["node ended"]);
    other.ends().succeeded();
    pair.assert_serves();
}

/// A server of this machine's own, and its address.
fn local_server(options: &[&str]) -> (Running, String) {
    let mut command = Command::new(VIOPERF);
    command.args(["serve", "--listen=:0"]).args(options).env_remove("VIOPERF_TOKEN");
    let mut server = Running::start(command);
    let line = server.until("listening on");
    let address = line.split_ascii_whitespace().nth(2).unwrap().to_owned();
    (server, address)
}

fn hello() -> Vec<u8> {
    let mut hello = b"vioperfC".to_vec();
    hello.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    hello.extend([7; 32]);
    hello
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

/// A client that was let in, by hand.
fn let_in(address: &str) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(&hello()).unwrap();
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[..10], b"vioperfS\x01\x00");
    let verdict: Value = read_frame(&mut stream).unwrap();
    assert_eq!(verdict["verdict"], "welcome");
    stream
}

#[track_caller]
fn refused(stream: &mut TcpStream, request: &Request, word: &str) {
    write_frame(stream, request).unwrap();
    match read_frame::<Response>(stream).unwrap() {
        Response::Failed { message } => assert!(message.contains(word), "{message}"),
        other => panic!("{request:?} was answered with {other:?}"),
    }
}

fn part(role: Role) -> Prepare {
    Prepare {
        role,
        spread: vioperf_model::wire::Spread::default(),
        workload: Box::new(Workload::new(WorkloadKind::UdpStream)),
        sample_interval: TimeSpan::from_millis(100),
        processes: vec![],
        burn: None,
        burn_threads: None,
        open_vswitch: None,
        counts_hardware: false,
        disk: None,
        deadline: TimeSpan::from_millis(20_000),
    }
}

#[test]
fn what_only_a_lab_may_ask_is_refused() {
    let (_server, address) = local_server(&[]);
    let mut stream = let_in(&address);
    let config = InterfaceConfig {
        settings: Default::default(),
        ports: None,
        interface: InterfaceSelector::Name("lo".into()),
        address: "127.0.0.9".parse().unwrap(),
        further_addresses: vec![],
        routes: vec![],
        prefix_length: 8,
        mtu: 1500,
        timeout: TimeSpan::from_millis(100),
    };
    refused(&mut stream, &Request::ConfigureInterface(config), "lab");
    refused(
        &mut stream,
        &Request::LoadModules { names: vec!["dummy".into()], options: [].into() },
        "lab",
    );
    let forwarding = ForwardingConfig {
        way: ForwardingWay::Router,
        interfaces: ["lo", "lo"].map(|name| InterfaceSelector::Name(name.into())),
        ip: IpVersion::Ipv4,
        firewall_rules: 0,
    };
    refused(&mut stream, &Request::Forward(forwarding), "lab");
    refused(&mut stream, &Request::SetWallClock { unix_ns: 0 }, "lab");
    let sleeps = Request::TimeSleeps { sleep: TimeSpan::from_millis(1), count: 1 };
    refused(&mut stream, &sleeps, "lab");
    let interface = InterfaceSelector::Name("lo".into());
    let impairment =
        Some(Impairment { delay: TimeSpan::from_millis(1), loss: Ratio::from_ppm(1_000) });
    refused(&mut stream, &Request::Impair { interface, impairment }, "lab");
    let receiver = Role::Receiver { bind: "127.0.0.1".parse().unwrap() };
    let watching = WatchedProcess { label: "init".into(), pid: 1 };
    let watching = Prepare { processes: vec![watching], ..part(receiver) };
    refused(&mut stream, &Request::Prepare(watching), "processes");
    let burning = Prepare { burn: Some(Ratio::from_ppm(500_000)), ..part(receiver) };
    refused(&mut stream, &Request::Prepare(burning), "burns no CPU time");
    let asking = Prepare { open_vswitch: Some("/run/some.ctl".into()), ..part(receiver) };
    refused(&mut stream, &Request::Prepare(asking), "switches");
    // Nothing is sent to somebody who did not ask.
    for stranger in ["192.0.2.77:53", "127.0.0.2:53", "[::1]:53"] {
        let sender = Role::Sender { peer: stranger.parse().unwrap() };
        refused(&mut stream, &Request::Prepare(part(sender)), "only to the address");
    }
    // And the client is served all the same.
    write_frame(&mut stream, &Request::Hello { version: PROTOCOL_VERSION }).unwrap();
    assert!(matches!(read_frame(&mut stream).unwrap(), Response::Hello(_)));
}

#[test]
fn strangers_at_the_door_cost_nothing_and_harm_nobody() {
    let (mut server, address) = local_server(&[]);
    // Some say nothing, some half a word: all are closed within a bound.
    let mut silent: Vec<TcpStream> = (0..6).map(|_| connect(&address)).collect();
    for stream in &mut silent[..3] {
        stream.write_all(&hello()[..20]).unwrap();
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20_usize {
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random.to_be_bytes()[0]
        })
        .take(48 + 40 * round)
        .collect();
        if round % 2 == 1 {
            bytes[..8].copy_from_slice(b"vioperfC");
        }
        let mut stream = connect(&address);
        // It may be closed before all was said.
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "a stranger was told {answer:?}");
    }
    server.until("neither `vioperf serve`");
    // Those who were let in and then say what is no request.
    for bytes in [&[0xff_u8; 64][..], &[0, 0, 0, 9, b'{'], &[0, 0, 0, 2, b'{', b'}'], b"GET / HTTP"]
    {
        let mut stream = let_in(&address);
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // It may be reset, as not all of it was read.
        let _ = stream.read_to_end(&mut rest);
    }
    let test = || vioperf(&[&["test", &address], SHORT].concat());
    test().succeeded();
    let began = Instant::now();
    for mut stream in silent {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    test().succeeded();
    server.signal(Signal::SIGTERM);
    server.ends().failed_with(143, &["turned away", "dropped what is no request"]);
}

#[test]
fn a_one_off_server_ends_with_its_client() {
    let (server, address) = local_server(&["--one-off"]);
    vioperf(&[&["test", &address], SHORT].concat()).succeeded();
    assert_eq!(server.ends().code, Some(0));
}
