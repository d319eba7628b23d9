//! A synthetic run with known numbers, for tests of the analysis and of the reports.

mod loads;
pub mod noise;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use vioperf_model::nic::NicModel;
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::{
    ClockRelation, GuestOrigin, GuestSetup, HostFacts, HypervisorFacts, LeftOut, Outcome, Party,
    Place, Purpose, RunEnd, RunEnding, RunInfo, SCHEMA_VERSION, TemplateTimes, Timeline,
    TrialRecord,
};
use vioperf_model::sample::{
    CoreTicks, InterfaceCounters, InterfaceFacts, LoadCounters, NodeReport, QueueCounts, Sample,
    TcpCounters, ThreadTimes,
};
use vioperf_model::scenario::{Changes, Factors, Guest, Repeat, Scenario, Testbed, Variant};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{NodeIdentity, PROTOCOL_VERSION, Role};
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

pub use self::loads::{PACKETS_SENT_FACTOR, UDP_LOST_PERCENT};

/// A run and its trials, to be changed by the test that needs it otherwise.
#[derive(Debug, Clone)]
pub struct Synthetic {
    /// `run.json`.
    pub run: RunInfo,
    /// `trials.jsonl`.
    pub trials: Vec<TrialRecord>,
}

const SEED: u64 = 42;
const START_NS: u64 = 5_000_000_000_000;
const SAMPLE_NS: u64 = 100_000_000;
const SAMPLES: u64 = 25;
const GUEST_OFFSET_NS: i64 = -4_900_000_000_000;

/// How one trial went: rates in bit/s, CPU in percent of a core.
#[derive(Debug, Clone, Copy)]
struct Course {
    rate: f64,
    vcpu: f64,
    main_loop: f64,
    vhost: f64,
    guest_busy: f64,
    node: f64,
    has_guest: bool,
    driver: &'static str,
    speed_mbit_per_s: Option<u32>,
}

impl Synthetic {
    /// A calm run under KVM in which no rule finds a fault: virtio, e1000e and rtl8139, each rate
    /// within 1 % of its mean.
    pub fn calm_kvm() -> Self {
        let mut run = run_info(&["virtio", "e1000e", "rtl8139"]);
        run.hypervisor = Some(hypervisor(false));
        let trials = trials(&run, |cell, block| Course {
            rate: kvm_rate(cell) * scatter(cell, block, 0.01),
            vcpu: 50.0,
            main_loop: 10.0,
            vhost: 30.0,
            guest_busy: 60.0,
            node: 15.0,
            has_guest: !cell.is_baseline(),
            driver: driver(cell),
            speed_mbit_per_s: None,
        });
        Self { run, trials }
    }

    /// A run as it is under software emulation: seven models, saturated threads, one void trial,
    /// one level left out.
    pub fn tcg() -> Self {
        let models: Vec<&str> = NicModel::made_by_qemu().map(NicModel::name).collect();
        let mut run = run_info(&models);
        run.hypervisor = Some(hypervisor(true));
        run.left_out.push(LeftOut {
            what: "switch ovs".into(),
            reason: "Open vSwitch is not installed: apt-get install openvswitch-switch".into(),
        });
        let mut trials = trials(&run, |cell, block| Course {
            rate: tcg_rate(cell) * scatter(cell, block, 0.05),
            vcpu: 88.0,
            main_loop: if cell.path_name() == "rtl8139" { 96.0 } else { 60.0 },
            vhost: 0.0,
            guest_busy: if cell.workload.streams > 1 { 97.0 } else { 82.0 },
            node: if cell.is_baseline() { 75.0 } else { 10.0 },
            has_guest: !cell.is_baseline(),
            driver: driver(cell),
            speed_mbit_per_s: match &*cell.path_name() {
                "virtio" => None,
                "vmxnet3" => Some(10_000),
                "rtl8139" | "pcnet" => Some(100),
                _ => Some(1_000),
            },
        });
        if let Some(trial) = trials.iter_mut().find(|trial| trial.cell.0.starts_with("pcnet/4")) {
            void(trial);
        }
        Self { run, trials }
    }
}

fn void(trial: &mut TrialRecord) {
    trial.outcome = Outcome::Void {
        reason: "the guest did not answer within 60 s".into(),
        console_tail: vec![
            "[    4.031337] pcnet32: no PHY".into(),
            "[   64.000000] Kernel panic - not syncing: Attempted to kill init!".into(),
        ],
        never_ready: true,
    };
    trial.timeline = None;
    trial.parties.clear();
}

impl Synthetic {
    /// A run of so many blocks with exactly the rate (bit/s) that each cell and block is given:
    /// virtio and e1000e.
    pub fn of_blocks(blocks: u32, bits_per_second: impl Fn(&Cell, u32) -> f64) -> Self {
        Self::of_variants(blocks, &[], bits_per_second)
    }

    /// The same with variants of these names.
    pub fn of_variants(
        blocks: u32,
        variants: &[&str],
        bits_per_second: impl Fn(&Cell, u32) -> f64,
    ) -> Self {
        let mut run = run_info(&["virtio", "e1000e"]);
        let variant = |name: &&str| Variant {
            name: (*name).to_owned(),
            guest: Changes::default(),
            testbed: Changes::default(),
            workload: Changes::default(),
        };
        run.scenario.variants = variants.iter().map(variant).collect();
        run.hypervisor = Some(hypervisor(false));
        run.scenario.repeat.blocks = blocks;
        run.plan = Plan::new(&run.scenario, SEED);
        let mut trials = Vec::new();
        for (block, cells) in (0..).zip(&run.plan.blocks) {
            for cell in cells.iter().filter_map(|index| run.plan.cells.get(*index)) {
                let sequence = u32::try_from(trials.len()).unwrap_or(u32::MAX);
                trials.push(with_flat_rate(cell, block, sequence, bits_per_second(cell, block)));
            }
        }
        Self { run, trials }
    }
}

/// A trial that counts, with exactly `bits_per_second` at both ends.
pub fn with_flat_rate(cell: &Cell, block: u32, sequence: u32, bits_per_second: f64) -> TrialRecord {
    let course = Course {
        rate: bits_per_second,
        vcpu: 50.0,
        main_loop: 10.0,
        vhost: 30.0,
        guest_busy: 60.0,
        node: 15.0,
        has_guest: !cell.is_baseline(),
        driver: driver(cell),
        speed_mbit_per_s: None,
    };
    trial(cell, block, sequence, &course)
}

/// An observer with these samples, its clock being the conductor's.
pub fn party_with_samples(samples: Vec<Sample>) -> Party {
    let report = NodeReport { ticks_per_second: 100, samples, ..NodeReport::default() };
    party(Place::Host, Role::Observer, None, report)
}

/// A window in nanoseconds.
pub fn timeline(measured_from_ns: u64, measured_until_ns: u64) -> Timeline {
    Timeline { started_ns: measured_from_ns, measured_from_ns, measured_until_ns }
}

fn driver(cell: &Cell) -> &'static str {
    cell.nic.map_or("veth", |nic| nic.row().driver)
}

fn kvm_rate(cell: &Cell) -> f64 {
    let base = match &*cell.path_name() {
        "baseline" => 36e9,
        "virtio" => 25e9,
        "e1000e" => 5e9,
        _ => 1e9,
    };
    base * load_factor(cell)
}

fn tcg_rate(cell: &Cell) -> f64 {
    let base = match &*cell.path_name() {
        "baseline" => 36e9,
        "vmxnet3" => 1022e6,
        "virtio" => 1005e6,
        "igb" => 634e6,
        "e1000e" => 569e6,
        "e1000" => 556e6,
        "rtl8139" => 363e6,
        _ => 246e6,
    };
    base * load_factor(cell)
}

fn load_factor(cell: &Cell) -> f64 {
    let streams = if cell.workload.streams > 1 { 1.3 } else { 1.0 };
    let direction = if cell.workload.direction == Direction::ToGuest { 1.0 } else { 1.2 };
    streams * direction
}

/// A factor around 1 that is always the same for a cell and block.
fn scatter(cell: &Cell, block: u32, size: f64) -> f64 {
    let sum: u64 = cell.id.0.bytes().map(u64::from).sum::<u64>() + u64::from(block) * 7;
    1.0 + size * ((sum * 2_654_435_761 % 1000) as f64 / 500.0 - 1.0)
}

fn run_info(models: &[&str]) -> RunInfo {
    let workload = Workload {
        duration: TimeSpan::from_millis(2_000),
        warmup: TimeSpan::from_millis(300),
        ..Workload::new(WorkloadKind::TcpStream)
    };
    let nics: Vec<NicModel> = models.iter().filter_map(|name| name.parse().ok()).collect();
    let scenario = Scenario {
        scale: None,
        parts: Vec::new(),
        variants: Vec::new(),
        name: "nic-models".into(),
        question: "What does each virtual NIC keep of the host's own path?".into(),
        reference: Vec::new(),
        testbed: Testbed::default(),
        guest: Guest::default(),
        workload,
        factors: loads::varied(
            loads::varied(Factors::of_nics(nics), "streams", [1, 4]),
            "direction",
            ["to-guest", "from-guest"],
        ),
        repeat: Repeat::default(),
    };
    let plan = Plan::new(&scenario, SEED);
    RunInfo {
        schema_version: SCHEMA_VERSION,
        vioperf_version: "0.1.0".into(),
        started_at: "2026-01-02T03:04:05Z".into(),
        command_line: ["vioperf", "run", "nic-models", "--set", "workload.duration=2s"]
            .map(String::from)
            .into(),
        scenario_origin: "built-in".into(),
        scenario,
        left_out: Vec::new(),
        plan,
        host: host_facts(),
        hypervisor: None,
        variant_hypervisors: [].into(),
        placement: None,
        variant_placements: [].into(),
        resumed: Vec::new(),
        calibration: None,
        machine_before: None,
        domain: None,
        ended: Some(RunEnd { at: "2026-01-02T03:09:00Z".into(), how: RunEnding::Completed }),
    }
}

fn host_facts() -> HostFacts {
    HostFacts {
        name: "lab-1".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        kernel_release: "6.1.0-28-amd64".into(),
        cpu_model: "Some CPU @ 2.00GHz".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        load_average_1min: 0.1,
        settings: BTreeMap::from([("governor".into(), "performance".into())]),
    }
}

fn hypervisor(emulated: bool) -> HypervisorFacts {
    HypervisorFacts {
        qemu_path: "/usr/bin/qemu-system-x86_64".into(),
        qemu_version: "10.0.2".into(),
        emulated,
        accel_reason: if emulated { "/dev/kvm is missing" } else { "a guest answered" }.into(),
        guest_kernel_release: "6.1.0-28-amd64".into(),
        guest_kernel_origin: "/boot/vmlinuz-6.1.0-28-amd64".into(),
        vcpus: 1,
        template: Some(TemplateTimes { boot_ms: 4_100, snapshot_ms: 130 }),
    }
}

fn trials(run: &RunInfo, course: impl Fn(&Cell, u32) -> Course) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    let mut sequence = 0;
    for (block, number) in run.plan.blocks.iter().zip(0..) {
        for cell in block.iter().filter_map(|index| run.plan.cells.get(*index)) {
            trials.push(trial(cell, number, sequence, &course(cell, number)));
            sequence += 1;
        }
    }
    trials
}

fn trial(cell: &Cell, block: u32, sequence: u32, course: &Course) -> TrialRecord {
    let near = if cell.is_baseline() { Place::Second } else { Place::Guest };
    let to_guest = cell.workload.direction == Direction::ToGuest;
    let mut parties = vec![end(Place::Peer, to_guest, course), end(near, !to_guest, course)];
    parties.push(host(cell, course));
    TrialRecord {
        schema_version: SCHEMA_VERSION,
        sequence,
        block,
        cell: cell.id.clone(),
        attempt: 1,
        started_at: "2026-01-02T03:04:06Z".into(),
        started_after_ms: u64::from(sequence) * 3_000,
        ended_after_ms: Some(u64::from(sequence) * 3_000 + 2_900),
        outcome: Outcome::Completed,
        guest: (!cell.is_baseline()).then_some(GuestSetup {
            ready_ms: Some(1_200),
            ..GuestSetup::of(GuestOrigin::Restored)
        }),
        core_speed: None,
        storage: None,
        timeline: Some(Timeline {
            started_ns: START_NS,
            measured_from_ns: START_NS + 3 * SAMPLE_NS,
            measured_until_ns: START_NS + 23 * SAMPLE_NS,
        }),
        parties,
        search: None,
    }
}

/// One end of the traffic. Both ends move the same, so that throughput is what the course says.
fn end(place: Place, sends: bool, course: &Course) -> Party {
    let address = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
    let role = if sends {
        Role::Sender { peer: (address, 5001).into() }
    } else {
        Role::Receiver { bind: address }
    };
    let facts = facts(place, course);
    let at = |i: u64| {
        let seconds = (i * SAMPLE_NS) as f64 / 1e9;
        let bytes = whole(course.rate / 8.0 * seconds);
        let packets = bytes / if sends { 60_000 } else { 1_500 };
        let counters = if sends {
            InterfaceCounters { tx_bytes: bytes, tx_packets: packets, ..Default::default() }
        } else {
            InterfaceCounters { rx_bytes: bytes, rx_packets: packets, ..Default::default() }
        };
        Sample {
            monotonic_ns: on_clock(place, START_NS + i * SAMPLE_NS),
            load: Some(LoadCounters { bytes, calls: bytes >> 17, ..LoadCounters::default() }),
            cores: Some(core_ticks(place, seconds, course)),
            interfaces: Some(BTreeMap::from([(facts.name.clone(), counters)])),
            tcp: Some(TcpCounters {
                segments_received: packets,
                segments_sent: bytes / 1_448,
                segments_retransmitted: i,
            }),
            ..Sample::default()
        }
    };
    let seconds = (SAMPLES * SAMPLE_NS) as f64 / 1e9;
    let report = NodeReport {
        ticks_per_second: 100,
        samples: (0..=SAMPLES).map(at).collect(),
        node_cpu_ns: whole(course.node / 100.0 * seconds * 1e9),
        ..NodeReport::default()
    };
    party(place, role, Some(facts), report)
}

fn host(cell: &Cell, course: &Course) -> Party {
    let at = |i: u64| {
        let seconds = (i * SAMPLE_NS) as f64 / 1e9;
        let bytes = whole(course.rate / 8.0 * seconds);
        let tap = InterfaceCounters {
            rx_bytes: bytes,
            rx_packets: bytes / 64_000,
            tx_bytes: bytes,
            tx_packets: bytes / 30_000,
            ..Default::default()
        };
        let thread = |tid, name: &str, percent: f64| ThreadTimes {
            process: "qemu".into(),
            tid,
            name: name.into(),
            on_cpu_ns: whole(percent / 100.0 * seconds * 1e9),
            waiting_ns: Some(0),
        };
        let threads = vec![
            thread(900, "qemu-system-x86", course.main_loop),
            thread(903, "CPU 0/TCG", course.vcpu),
            thread(904, "vhost-900", course.vhost),
        ];
        let guest = !cell.is_baseline();
        Sample {
            monotonic_ns: on_clock(Place::Host, START_NS + i * SAMPLE_NS),
            cores: Some(core_ticks(Place::Host, seconds, course)),
            interfaces: guest.then(|| BTreeMap::from([("tap0".to_owned(), tap)])),
            threads: guest.then_some(threads),
            ..Sample::default()
        }
    };
    let report = NodeReport {
        ticks_per_second: 100,
        samples: (0..=SAMPLES).map(at).collect(),
        ..NodeReport::default()
    };
    party(Place::Host, Role::Observer, None, report)
}

/// The host's two cores share what runs on it; the guest has one core.
fn core_ticks(place: Place, seconds: f64, course: &Course) -> Vec<CoreTicks> {
    let ticks = |percent: f64| whole(percent * seconds);
    if place == Place::Guest {
        let (softirq, system) = (course.guest_busy * 0.4, course.guest_busy * 0.6);
        return vec![CoreTicks {
            softirq: ticks(softirq),
            system: ticks(system),
            idle: ticks(100.0 - course.guest_busy),
            ..CoreTicks::default()
        }];
    }
    // Half of everything that runs on the host: QEMU's threads, both nodes, and interrupts.
    let qemu = if course.has_guest { course.vcpu + course.main_loop + course.vhost } else { 0.0 };
    let busy = [((qemu + 2.0 * course.node) * 0.55).min(99.0); 2];
    let core = |(core, busy): (u32, f64)| CoreTicks {
        core,
        user: ticks(busy * 0.5),
        system: ticks(busy * 0.33),
        softirq: ticks(busy * 0.17),
        idle: ticks(100.0 - busy),
        ..CoreTicks::default()
    };
    (0..).zip(busy).map(core).collect()
}

fn facts(place: Place, course: &Course) -> InterfaceFacts {
    let in_guest = place == Place::Guest;
    InterfaceFacts {
        name: if in_guest { "eth0" } else { "veth0" }.into(),
        mac: "52:54:00:12:34:56".into(),
        mtu: 1500,
        carrier: true,
        driver: Some(if in_guest { course.driver } else { "veth" }.into()),
        driver_version: Some("1.0.0".into()),
        speed_mbit_per_s: course.speed_mbit_per_s.filter(|_| in_guest),
        queues: Some(QueueCounts { rx: 1, tx: 1 }),
        offloads: BTreeMap::from([
            ("rx-gro".into(), true),
            ("tx-tcp-segmentation".into(), true),
            ("rx-lro".into(), false),
        ]),
        ..InterfaceFacts::default()
    }
}

fn party(place: Place, role: Role, interface: Option<InterfaceFacts>, report: NodeReport) -> Party {
    let guest = place == Place::Guest;
    let offset_ns = if guest { GUEST_OFFSET_NS } else { 0 };
    Party {
        place,
        role,
        purpose: Purpose::Measured,
        further_legs: Vec::new(),
        identity: NodeIdentity {
            version: PROTOCOL_VERSION,
            kernel_release: "6.1.0-28-amd64".into(),
            cores: if guest { 1 } else { 2 },
            boot_id: Some(if guest { "guest" } else { "host" }.into()),
            is_virtual: Some(guest),
        },
        clock: ClockRelation { offset_ns, error_ns: if guest { 150_000 } else { 0 } },
        interface,
        report,
    }
}

fn on_clock(place: Place, ns: u64) -> u64 {
    if place == Place::Guest { ns.saturating_add_signed(GUEST_OFFSET_NS) } else { ns }
}

fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    {
        value as u64
    }
}
