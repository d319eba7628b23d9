//! Drops that are planted along the path of a lab, and what the packet ledger says of them. What was
//! planted is told by witnesses: rules of nft(8) that count the load's datagrams before and behind
//! each place, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::planting::{Inside, Namespaces};
use support::tries::in_one_of_three;
use support::world::World;
use support::write;

const PAYLOAD_BYTES: u64 = 200;

/// What tells the load's datagrams from every other packet: their length, and that they do not begin
/// with what the words before and after a load begin with (`vioperf1`).
fn is_of_load() -> String {
    format!("udp length {} @th,64,64 != 0x76696f7065726631", PAYLOAD_BYTES + 8)
}

/// A scenario of one trial a cell.
fn scenario(world: &World, further: &str) {
    write(
        &world.path("here/planted.toml"),
        &format!(
            "name = \"planted\"\nquestion = \"Where do they go?\"\n\
             [workload]\nkind = \"packet-rate\"\nduration = \"1s\"\nwarmup = \"200ms\"\n\
             payload = \"{PAYLOAD_BYTES} B\"\n{further}"
        ),
    );
}

/// Runs the scenario; `plant` is called when the lab stands and before anything moves, `meanwhile` when
/// it goes on.
fn measured(
    world: &World,
    plant: impl FnOnce(&Namespaces),
    meanwhile: impl FnOnce(&Namespaces),
) -> Namespaces {
    let run = ["run", "planted.toml", "--blocks=1", "--seed=3", "--out=run", "--quiet"];
    let mut run = world.start(&run);
    // Nothing moves on from where the lab is seen until the rules are in place: the load comes soon
    // after, and a test that is slow to look would miss its first datagrams.
    let lab = run.until_some("a lab", |run| {
        run.signal_all(Signal::SIGSTOP);
        let lab = Namespaces::of(run);
        if lab.is_none() {
            run.signal_all(Signal::SIGCONT);
        }
        lab
    });
    plant(&lab);
    run.signal_all(Signal::SIGCONT);
    meanwhile(&lab);
    run.ends().succeeded();
    lab
}

/// The cells of the run: their names and ledgers.
fn ledgers(world: &World) -> Vec<(String, Value)> {
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let cell = |cell: &Value| (cell["id"].as_str().unwrap().to_owned(), cell["ledger"].clone());
    cells.iter().map(cell).collect()
}

/// The ledger of the one cell.
fn ledger(world: &World) -> Value {
    let [(_, ledger)] = &ledgers(world)[..] else { panic!("not one cell") };
    ledger.clone()
}

fn lost_at(ledger: &Value, place: &str) -> u64 {
    let mut losses = ledger["losses"].as_array().unwrap().iter();
    losses.find(|loss| loss["place"] == place).map_or(0, |loss| loss["datagrams"].as_u64().unwrap())
}

/// Of what was lost at least 99.9 % has a place, and no more than all.
fn assert_placed(ledger: &Value) {
    let [lost, unaccounted] = ["lost", "unaccounted"].map(|name| ledger[name].as_f64().unwrap());
    assert!(unaccounted.abs() <= lost / 1000.0, "{ledger:#}");
    assert!(lost > 0.0, "{ledger:#}");
}

/// Where counters of drops tell it is exact. The difference of two counters may be off by what else was
/// on the link: a question of ARP, and its answer.
fn assert_near(told: u64, planted: u64, place: &str, ledger: &Value) {
    let others = if ["switch", "receiver-filter"].contains(&place) { 4 } else { 0 };
    assert!(told.abs_diff(planted) <= others, "{place}: {planted} planted\n{ledger:#}");
}

/// Counts the load's datagrams at a hook of an endpoint, and those that are dropped there.
fn endpoint_rules(hook: &str, counter: &str, drop: &str) -> String {
    let ours = is_of_load();
    format!(
        "table inet witness {{\n counter {counter} {{ }}\n counter dropped {{ }}\n counter given {{ }}\n\
         chain it {{ type filter hook {hook} priority 0;\n\
         {ours} counter name {counter}\n\
         {drop}\n {ours} counter name given\n }}\n}}\n"
    )
}

/// Counts the load's datagrams that come to the bridge and leave it, and drops one of twenty.
fn witness_switch(switch: &Inside) {
    let ours = format!("ip protocol udp {}", is_of_load());
    switch.rules(&format!(
        "table bridge witness {{\n counter came {{ }}\n counter dropped {{ }}\n counter left {{ }}\n\
         chain pre {{ type filter hook prerouting priority 0;\n\
         {ours} counter name came\n }}\n\
         chain forward {{ type filter hook forward priority 0;\n\
         {ours} numgen random mod 20 < 1 counter name dropped drop\n }}\n\
         chain post {{ type filter hook postrouting priority 0;\n\
         {ours} counter name left\n }}\n}}\n"
    ));
}

#[test]
fn drops_at_six_places_between_namespaces_are_told_to_the_datagram() {
    let world = World::new();
    scenario(&world, "datagrams_per_second = 40000\nsocket_buffer = \"32 KiB\"\n");
    let plant = |lab: &Namespaces| {
        // 77 Mbit/s come, or what the machine can send of it; 20 go on, 19 come to the port, and 16 leave it.
        // Far apart, so that a sender that is kept from its core half the time still fills both.
        let bucket = ["burst", "5000", "latency", "1ms"];
        let shape = |inside: &Inside, device: &str, rate: &str| {
            let tbf = ["qdisc", "add", "dev", device, "root", "tbf", "rate", rate];
            inside.run("tc", &[&tbf[..], &bucket].concat(), "");
        };
        shape(&lab.peer, "eth0", "20mbit");
        shape(&lab.switch, "second", "16mbit");
        lab.peer.rules(&endpoint_rules("output", "out", ""));
        witness_switch(&lab.switch);
        let ours = format!("ip protocol udp {}", is_of_load());
        lab.second.rules(&format!(
            "table netdev witness {{\n counter came {{ }}\n counter cut {{ }}\n\
             chain it {{ type filter hook ingress device \"eth0\" priority 0;\n\
             {ours} counter name came\n\
             {ours} numgen random mod 100 < 3 counter name cut drop\n }}\n}}\n"
        ));
        let drop = format!("{} numgen random mod 100 < 2 counter name dropped drop", is_of_load());
        lab.second.rules(&endpoint_rules("input", "reached", &drop));
    };
    // A reader that stands still now and then, with room for a hundred.
    let stop_reader = |lab: &Namespaces| {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(200));
            lab.second.stand_still(Duration::from_millis(25));
        }
    };
    let lab = measured(&world, plant, stop_reader);
    let ledger = ledger(&world);
    assert_placed(&ledger);
    let number = |name: &str| ledger[name].as_u64().unwrap();
    assert_eq!(number("sent"), lab.peer.counted("out"), "{ledger:#}");
    let planted = [
        ("sender-qdisc", lab.peer.counted("out") - lab.switch.counted("came")),
        ("switch", lab.switch.counted("dropped")),
        ("port-qdisc", lab.switch.counted("left") - lab.second.counted("came")),
        ("receiver-filter", lab.second.counted("cut") + lab.second.counted("dropped")),
        ("receiver-socket", lab.second.counted("given") - number("received")),
    ];
    for (place, planted) in planted {
        assert!(planted > 100, "{place}: only {planted} were planted\n{ledger:#}");
        assert_near(lost_at(&ledger, place), planted, place, &ledger);
    }
    assert_eq!(number("lost"), planted.iter().map(|(_, planted)| planted).sum::<u64>());
}

/// Both ways, over a card that the guest shares memory with and one that is emulated whole.
#[test]
fn drops_on_the_way_to_a_guest_and_from_it_have_a_place() {
    let world = World::new();
    scenario(
        &world,
        "socket_buffer = \"32 KiB\"\n\
         [factors]\nnic = [\"virtio\", \"e1000\"]\ndirection = [\"to-guest\", \"from-guest\"]\n",
    );
    let plant = |lab: &Namespaces| {
        witness_switch(&lab.switch);
        let drop = format!("{} numgen random mod 100 < 3 counter name dropped drop", is_of_load());
        lab.peer.rules(&endpoint_rules("input", "reached", &drop));
    };
    let lab = measured(&world, plant, |_| {});
    let cells = ledgers(&world);
    assert_eq!(cells.len(), 6);
    let total = |place: &str, of: &str| -> u64 {
        let cells = cells.iter().filter(|(id, _)| id.contains(of));
        cells.map(|(_, ledger)| lost_at(ledger, place)).sum()
    };
    for (id, ledger) in &cells {
        assert_placed(ledger);
        let is_flooded = id.contains("to-guest") && !id.starts_with("baseline");
        assert_eq!(lost_at(ledger, "tap-queue") > 1000, is_flooded, "{id} {ledger:#}");
    }
    let near = |told: u64, planted: u64, what: &str| {
        assert!(planted > 100 && told.abs_diff(planted) <= 12, "{what}: {told}, {planted} planted");
    };
    near(total("switch", ""), lab.switch.counted("dropped"), "switch");
    near(total("receiver-filter", "from-guest"), lab.peer.counted("dropped"), "filter");
    let received: u64 = cells
        .iter()
        .filter(|(id, _)| id.contains("from-guest"))
        .map(|(_, ledger)| ledger["received"].as_u64().unwrap())
        .sum();
    let full = lab.peer.counted("given") - received;
    assert_eq!(total("receiver-socket", "from-guest"), full);
}

/// How many packets a core keeps for later: of the whole machine, put back in the end.
struct Backlog {
    before: String,
}

const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

impl Backlog {
    fn of(packets: u32) -> Self {
        let before = fs::read_to_string(BACKLOG).unwrap();
        fs::write(BACKLOG, packets.to_string()).unwrap();
        Self { before }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        fs::write(BACKLOG, self.before.trim()).unwrap();
    }
}

#[test]
fn a_full_backlog_is_counted_once() {
    // A sender that the scheduler keeps out of the way fills no backlog.
    in_one_of_three(fill_a_backlog);
}

fn fill_a_backlog() -> Result<(), String> {
    let world = World::new();
    scenario(&world, "");
    let plant = |lab: &Namespaces| {
        lab.switch.rules(&format!(
            "table bridge witness {{\n counter left {{ }}\n\
             chain post {{ type filter hook postrouting priority 0;\n\
             ip protocol udp {} counter name left\n }}\n}}\n",
            is_of_load()
        ));
        lab.second.rules(&endpoint_rules("input", "reached", ""));
        // What comes to the bridge and what leaves it is for two cores to take: whichever the sender
        // is on, another gets its bursts.
        lab.switch.steer_to_core("peer", 0);
        lab.second.steer_to_core("eth0", 1);
    };
    let backlog = Backlog::of(4);
    let lab = measured(&world, plant, |_| {});
    drop(backlog);
    let ledger = ledger(&world);
    // Between the bridge and the second endpoint, and from the sender to the bridge.
    let planted = lab.switch.counted("left") - lab.second.counted("reached");
    let before = ledger["sent"].as_u64().unwrap() - lab.switch.counted("left");
    assert_eq!(lost_at(&ledger, "host-backlog"), planted + before, "{before}\n{ledger:#}");
    if planted + before < 100 {
        return Err(format!("{planted} and {before} were planted"));
    }
    assert_placed(&ledger);
    Ok(())
}

/// A packet is 64 datagrams, or as many as the path has left in one.
#[test]
fn datagrams_that_pass_as_one_packet_are_counted_one_by_one() {
    let world = World::new();
    scenario(
        &world,
        "segmentation = true\nsocket_buffer = \"256 KiB\"\n\
         [factors]\nnic = [\"virtio\"]\ndirection = [\"to-guest\", \"from-guest\"]\n",
    );
    let ours = "ip protocol udp @th,64,64 != 0x76696f7065726631";
    let plant = |lab: &Namespaces| {
        lab.switch.rules(&format!(
            "table bridge witness {{\n counter dropped {{ }}\n\
             chain forward {{ type filter hook forward priority 0;\n\
             {ours} numgen random mod 20 < 1 counter name dropped drop\n }}\n}}\n"
        ));
        let drop = format!("{ours} numgen random mod 100 < 5 counter name dropped drop");
        for end in [&lab.peer, &lab.second] {
            end.rules(&format!(
                "table inet witness {{\n counter dropped {{ }}\n\
                 chain it {{ type filter hook input priority 0;\n {drop}\n }}\n}}\n"
            ));
        }
    };
    let lab = measured(&world, plant, |_| {});
    let cells = ledgers(&world);
    assert_eq!(cells.len(), 4);
    for (id, ledger) in &cells {
        assert_placed(ledger);
        let is_flooded = id.contains("to-guest") && !id.starts_with("baseline");
        assert_eq!(lost_at(ledger, "tap-queue") > 1000, is_flooded, "{id} {ledger:#}");
    }
    // Each packet has one header, of 28 bytes.
    let datagrams = |inside: &Inside| {
        (inside.counted_bytes("dropped") - 28 * inside.counted("dropped")) / PAYLOAD_BYTES
    };
    let total = |place: &str| cells.iter().map(|(_, ledger)| lost_at(ledger, place)).sum::<u64>();
    let planted = [
        ("switch", datagrams(&lab.switch)),
        ("receiver-filter", datagrams(&lab.peer) + datagrams(&lab.second)),
    ];
    for (place, planted) in planted {
        let told = total(place);
        let near = told.abs_diff(planted) <= planted / 1000 + 12;
        assert!(planted > 1000 && near, "{place}: {told}, {planted} planted\n{cells:#?}");
    }
}

/// A scenario of requests over UDP, two directions.
fn requests(world: &World, further: &str) {
    write(
        &world.path("here/planted.toml"),
        &format!(
            "name = \"planted\"\nquestion = \"Where do they go?\"\n\
             [workload]\nkind = \"request-response\"\ntransport = \"udp\"\nstreams = 4\n\
             requests_per_second = 8000\noutstanding = 100\nduration = \"1s\"\nwarmup = \"200ms\"\n\
             request_size = \"100 B\"\nresponse_size = \"60 B\"\n{further}"
        ),
    );
}

/// Drops one of so many datagrams of that payload which come to an endpoint.
fn drop_some(inside: &Inside, payload_bytes: u32, one_of: u32) {
    inside.rules(&format!(
        "table inet witness {{\n counter dropped {{ }}\n\
         chain it {{ type filter hook input priority 0;\n udp length {} \
         numgen random mod {one_of} < 1 counter name dropped drop\n }}\n}}\n",
        payload_bytes + 8
    ));
}

#[test]
fn requests_and_responses_are_followed_each_way() {
    let world = World::new();
    requests(&world, "");
    let plant = |lab: &Namespaces| {
        drop_some(&lab.second, 100, 20);
        drop_some(&lab.peer, 60, 40);
    };
    let lab = measured(&world, plant, |_| {});
    let ledger = ledger(&world);
    assert_placed(&ledger);
    let lost = [&lab.second, &lab.peer].map(|end| end.counted("dropped"));
    assert!(lost.iter().all(|lost| *lost > 50), "{lost:?}\n{ledger:#}");
    let told = [&ledger, &ledger["responses"]].map(|ledger| lost_at(ledger, "receiver-filter"));
    assert_near(told[0], lost[0] + lost[1], "receiver-filter", &ledger);
    assert_near(told[1], lost[1], "receiver-filter", &ledger);
    assert_eq!(ledger["lost"].as_u64().unwrap(), lost[0] + lost[1], "{ledger:#}");
}

/// Streams over TCP fill the same queues: what the queue drops is of both.
#[test]
fn requests_that_are_lost_beside_streams_have_a_place() {
    let world = World::new();
    requests(&world, "background = \"tcp-stream\"\nbackground_streams = 2\n");
    let plant = |lab: &Namespaces| {
        let bucket = "qdisc add dev eth0 root tbf rate 15mbit burst 10000 limit 10000";
        lab.peer.run("tc", &bucket.split(' ').collect::<Vec<_>>(), "");
    };
    measured(&world, plant, |_| {});
    let ledger = ledger(&world);
    assert_placed(&ledger);
    assert!(lost_at(&ledger, "sender-qdisc") > 20, "{ledger:#}");
}
