//! Rate searches against known truth: the real binary at both ends of a veth pair between two
//! namespaces, one of which limits or drops.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "of test programs")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::VIOPERF;
use support::tries::in_one_of_three;

const SERVER: &str = "10.77.0.2";

/// A network namespace without a name: it ends with the process that holds it, which ends by itself.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "this test makes namespaces: run it as root");
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sh", "-c", "echo ready; exec sleep 150"]).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(holder)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }

    /// Runs a command line in it.
    fn run(&self, line: &str) {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap());
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two namespaces with a link between them: where `vioperf test` runs, and where `vioperf serve` does.
fn linked() -> [Namespace; 2] {
    let [client, server] = [Namespace::new(), Namespace::new()];
    let [here, there] = [client.0.id(), server.0.id()];
    client.run(&format!("ip link add left netns {here} type veth peer name right netns {there}"));
    for (end, name, address) in [(&client, "left", "10.77.0.1"), (&server, "right", SERVER)] {
        end.run(&format!("ip address add {address}/24 dev {name}"));
        end.run(&format!("ip link set {name} up"));
    }
    [client, server]
}

/// Searches, and gives the goals as `report --format json` has them, by ascending loss.
fn goals([client, server]: &[Namespace; 2], options: &[&str]) -> Vec<Value> {
    let folder = tempfile::Builder::new().prefix("vioperf-test-").tempdir().unwrap();
    let token = folder.path().join("token");
    let made = Command::new(VIOPERF).args(["serve", "--new-token"]).arg(&token).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut serve = server.command(VIOPERF);
    serve.args(["serve", "--one-off", "--listen", &format!("{SERVER}:5210"), "--token-file"]);
    let mut serve = Server(serve.arg(&token).stderr(Stdio::piped()).spawn().unwrap());
    // It says where it listens.
    let mut said = BufReader::new(serve.0.stderr.take().unwrap()).lines();
    said.next().unwrap().unwrap();
    std::thread::spawn(move || said.for_each(drop));
    let mut test = client.command(VIOPERF);
    test.args(["test", SERVER, "-w", "rate-search", "--json", "--token-file"]).arg(&token);
    let output = test.args(options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {errors}"));
    let cell = &report["cells"][0];
    assert_eq!(cell["trials"]["completed"], 1, "{errors} {}", report["void_trials"]);
    cell["rate_search"]["goals"].as_array().unwrap().clone()
}

fn mean(goal: &Value, metric: &str) -> f64 {
    goal[metric]["summary"]["mean"].as_f64().unwrap_or_else(|| panic!("no {metric} in {goal}"))
}

/// 20 Mbit/s for frames of 442 bytes, as tbf counts them, are 5656 a second. Its queue of 64 KiB takes 148
/// of them, so that in a probe of a second 2.6 % more pass; the width is 2 %. A machine that is busy
/// with something else loses datagrams of its own: its limit is a lower one.
#[test]
fn a_link_that_is_limited_gives_its_limit() {
    let options = [
        "--payload=400 B",
        "--duration=45s",
        "--warmup=0s",
        "--search-width=2%",
        "--search-probe-time=2s",
        "--search-max-rate=20000",
    ];
    let truth = 20e6 / (442.0 * 8.0);
    in_one_of_three(|| {
        let ends = linked();
        ends[0].run("tc qdisc add dev left root tbf rate 20mbit burst 4kb limit 64kb");
        let goals = goals(&ends, &options);
        let names: Vec<&str> = goals.iter().map(|goal| goal["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["NDR", "PDR 0.5 %"]);
        for goal in &goals {
            let lower = mean(goal, "lower_bound_per_second");
            let upper = mean(goal, "upper_bound_per_second");
            assert!(lower < upper && upper - lower <= 0.02 * upper, "{goal}");
            assert_eq!(goal["ends"]["reached"], 1, "{goal}");
            assert!(lower <= 1.04 * truth, "{lower} of {truth}: {goal}");
            if lower < 0.95 * truth {
                return Err(format!("{lower} of {truth}: {goal}"));
            }
        }
        Ok(())
    });
}

/// One datagram in a hundred, at every rate.
#[test]
fn a_path_that_drops_at_every_rate_is_refused_for_what_it_cannot_be() {
    let ends = linked();
    ends[1].run("nft add table inet drops");
    ends[1].run("nft add chain inet drops in { type filter hook input priority 0 ; }");
    ends[1].run("nft add rule inet drops in meta l4proto udp numgen random mod 100 == 0 drop");
    let goals = goals(
        &ends,
        &[
            "--duration=40s",
            "--warmup=0s",
            "--search-loss-goals=0%,0.5%,5%",
            "--search-width=5%",
            "--search-probe-time=1s",
            "--search-min-rate=2000",
            "--search-max-rate=20000",
        ],
    );
    let [ndr, pdr, tolerant] = &goals[..] else { panic!("{goals:?}") };
    for goal in [ndr, pdr] {
        assert_eq!(goal["ends"]["loses at the lowest rate"], 1, "{goal}");
        let lost = mean(goal, "loss_at_min_rate_percent");
        assert!((0.4..2.0).contains(&lost), "{goal}");
        assert_eq!(goal["lower_bound_per_second"]["summary"], Value::Null);
    }
    assert!(mean(tolerant, "lower_bound_per_second") >= 2_000.0, "{tolerant}");
}
