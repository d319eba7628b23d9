//! What has to hold of every kind of load.

use vioperf_model::record::{Place, StorageFacts, TrialRecord};
use vioperf_model::sample::{BlockDeviceCounters, DiskCounters, LayerCounters, StreamOutcome};
use vioperf_model::scenario::{CacheMode, StorageKind};
use vioperf_model::units::BitRate;
use vioperf_model::wire::Role;
use vioperf_model::workload::WorkloadKind;

use crate::analyse;
use crate::measure::{Measure, headline_of};
use crate::result::{CellAnalysis, RunAnalysis, Severity};
use crate::testing::{PACKETS_SENT_FACTOR, Synthetic, UDP_LOST_PERCENT};

fn analysed(kind: WorkloadKind) -> RunAnalysis {
    let Synthetic { run, trials } = Synthetic::of_kind(kind);
    analyse(&run, &trials)
}

fn cell<'a>(analysis: &'a RunAnalysis, id: &str) -> &'a CellAnalysis {
    let found = analysis.cells.iter().find(|cell| cell.id.0 == id);
    found.unwrap_or_else(|| panic!("no {id} in {:?}", analysis.cells.iter().map(|c| &c.id)))
}

fn near(got: Option<f64>, want: f64, slack: f64) {
    let got = got.unwrap();
    assert!((got - want).abs() <= want.abs() * slack, "{got} is not {want}");
}

#[test]
fn every_kind_has_its_headline_where_it_says_and_is_ranked_by_it() {
    for kind in WorkloadKind::ALL {
        let analysis = analysed(kind);
        for cell in &analysis.cells {
            let json = serde_json::to_value(cell).unwrap();
            let path = cell.headline_metric.split('.');
            let metric = path.fold(&json, |value, name| &value[name]);
            assert_eq!(metric["summary"]["mean"].as_f64(), cell.headline().mean(), "{kind:?}");
            assert!(cell.headline().mean().unwrap() > 0.0, "{kind:?} {}", cell.id);
            let demand = (cell.measure().demand)(cell).unwrap();
            assert!(demand[0].mean().unwrap() > 0.0, "{kind:?} {}", cell.id);
            assert_eq!(demand[2].mean().is_some(), !cell.is_baseline);
        }
        let order: Vec<&str> = analysis.ranking.iter().map(|r| r.path.as_str()).collect();
        assert_eq!(order, ["virtio", "e1000e", "rtl8139"], "{kind:?}");
        let kept = format!("of the host's own {}", Measure::of(kind).kept);
        assert!(analysis.headline[0].contains(&kept), "{:?}", analysis.headline);
    }
}

#[test]
fn a_calm_run_of_any_kind_has_no_warning() {
    for kind in WorkloadKind::ALL {
        let analysis = analysed(kind);
        let known = ["datagrams-lost", "requests-timed-out"];
        let odd = analysis.findings.iter().find(|finding| {
            finding.severity != Severity::Note && !known.contains(&finding.rule.as_str())
        });
        assert_eq!(odd, None, "{kind:?}");
        let rules: Vec<&str> = analysis.findings.iter().map(|f| f.rule.as_str()).collect();
        assert!(!rules.contains(&"link-speed-not-a-limit"), "{kind:?}");
        let loses = matches!(kind, WorkloadKind::UdpStream | WorkloadKind::PacketRate);
        assert_eq!(rules.contains(&"datagrams-lost"), loses, "{kind:?}");
        let times_out = kind == WorkloadKind::RequestResponse;
        assert_eq!(rules.contains(&"requests-timed-out"), times_out, "{kind:?}");
    }
}

#[test]
fn a_packet_rate_is_what_arrived_and_the_rest_is_loss() {
    let analysis = analysed(WorkloadKind::PacketRate);
    let small = cell(&analysis, "e1000e/18-bytes/one/1-stream/to-guest");
    let datagrams = small.datagrams.as_ref().unwrap();
    near(datagrams.received_per_second.mean(), 50e3, 0.01);
    near(datagrams.sent_per_second.mean(), 50e3 * PACKETS_SENT_FACTOR, 0.01);
    near(datagrams.lost_percent.mean(), 20.0, 1e-3);
    near(small.percent_of_baseline.mean(), 10.0, 0.02);
    // 60 % of a core for 50 000 a second.
    near(datagrams.service_demand.guest_ns.mean(), 0.6e9 / 50e3, 0.03);
    assert_eq!(datagrams.bytes_on_wire, Some(84));
    near(datagrams.percent_of_wire_rate.mean(), 100.0 * 50e3 * 84.0 * 8.0 / 1e9, 0.01);
    let large = cell(&analysis, "e1000e/1472-bytes/one/1-stream/to-guest");
    assert_eq!(large.datagrams.as_ref().unwrap().bytes_on_wire, Some(1538));
    let virtio = cell(&analysis, "virtio/18-bytes/one/1-stream/to-guest");
    let unknown = &virtio.datagrams.as_ref().unwrap().percent_of_wire_rate;
    assert_eq!(unknown.reason(), Some("the link's speed is not known"));
}

#[test]
fn a_link_that_is_held_to_a_rate_is_the_wire() {
    let Synthetic { mut run, trials } = Synthetic::of_kind(WorkloadKind::PacketRate);
    let rate = BitRate::from_bits_per_second(100_000_000);
    run.plan.cells.iter_mut().for_each(|cell| cell.testbed.rate = Some(rate));
    let analysis = analyse(&run, &trials);
    // Also where the card claims another speed, and where it claims none.
    for cell in ["e1000e/18-bytes/one/1-stream/to-guest", "virtio/18-bytes/one/1-stream/to-guest"] {
        let datagrams = self::cell(&analysis, cell).datagrams.as_ref().unwrap();
        let per_second = datagrams.received_per_second.mean().unwrap();
        near(datagrams.percent_of_wire_rate.mean(), 100.0 * per_second * 84.0 * 8.0 / 1e8, 0.01);
    }
}

#[test]
fn segmented_datagrams_are_no_packets_on_a_wire() {
    let Synthetic { mut run, trials } = Synthetic::of_kind(WorkloadKind::PacketRate);
    run.plan.cells.iter_mut().for_each(|cell| cell.workload.segmentation = true);
    let analysis = analyse(&run, &trials);
    let datagrams =
        cell(&analysis, "e1000e/18-bytes/one/1-stream/to-guest").datagrams.as_ref().unwrap();
    assert!(datagrams.segmentation && datagrams.received_per_second.mean().is_some());
    assert_eq!(datagrams.bytes_on_wire, None);
    assert!(datagrams.percent_of_wire_rate.reason().unwrap().contains("segmentation"));
}

#[test]
fn a_numbered_streams_loss_is_what_its_receiver_missed() {
    let analysis = analysed(WorkloadKind::UdpStream);
    let virtio = cell(&analysis, "virtio/1-stream/to-guest");
    let datagrams = virtio.datagrams.as_ref().unwrap();
    near(datagrams.lost_percent.mean(), UDP_LOST_PERCENT, 1e-3);
    near(datagrams.jitter_us.mean(), 12.5, 1e-9);
    near(datagrams.duplicated.mean(), 3.0, 1e-9);
    near(datagrams.reordered.mean(), 7.0, 1e-9);
    assert!(datagrams.socket_drops.mean().unwrap() > 1.0);
    near(virtio.headline().mean(), 300e3 * 1470.0 * 8.0, 0.01);
    let lost = analysis.findings.iter().find(|f| f.rule == "datagrams-lost").unwrap();
    assert!(lost.evidence.contains("1.00 %") && lost.evidence.contains("sockets"), "{lost:?}");
}

#[test]
fn latency_is_paired_with_the_baseline_of_its_block() {
    let analysis = analysed(WorkloadKind::RequestResponse);
    let virtio = cell(&analysis, "virtio/tcp/1-stream/to-guest").transactions.as_ref().unwrap();
    let baseline = cell(&analysis, "baseline/tcp/1-stream/to-guest").transactions.as_ref().unwrap();
    // 0.7 of 50 µs and of 20 µs.
    near(virtio.latency.percentile("p50").unwrap().us.mean(), 35.0, 1e-6);
    near(baseline.latency.percentile("p50").unwrap().us.mean(), 14.0, 1e-6);
    near(virtio.latency.percentile("p50").unwrap().added_us.mean(), 21.0, 1e-6);
    let of_baseline = &baseline.latency.percentile("p50").unwrap().added_us;
    assert_eq!(of_baseline.reason(), Some("it is the baseline"));
    // 50 000 a trial: not enough for p99.99 of one, but all three together are for the curve.
    let rare = &virtio.latency.percentile("p99.99").unwrap().us;
    assert_eq!(rare.reason(), Some("p99.99 needs 100000 transactions a trial"));
    assert!(virtio.latency.transactions > 140_000);
    let curve = &virtio.latency.curve;
    assert!(curve.last().unwrap().one_in > 9_999.0, "{:?}", curve.last());
    assert!(curve.windows(2).all(|pair| pair[0].us <= pair[1].us));
    let headline = analysis.headline.join(" ");
    assert!(headline.contains("virtio adds 21.0 µs to p50"), "{headline}");
    assert!(analysis.ranking[0].workloads[0].added_p99_us.is_some());
    // A request weighs what it weighs: a rate of bytes and a sender that sends less is no doubt.
    assert!(analysis.findings.iter().all(|f| f.rule != "sender-receiver-disagree"));
}

#[test]
fn added_latency_needs_a_baseline_in_its_block() {
    let Synthetic { run, mut trials } = Synthetic::of_kind(WorkloadKind::RequestResponse);
    trials.retain(|trial| trial.cell.0.starts_with("baseline") == (trial.block == 0));
    let analysis = analyse(&run, &trials);
    let virtio = cell(&analysis, "virtio/tcp/1-stream/to-guest").transactions.as_ref().unwrap();
    let p50 = virtio.latency.percentile("p50").unwrap();
    assert_eq!(p50.added_us.reason(), Some("no baseline in the same block"));
    assert!(p50.us.mean().is_some());
}

#[test]
fn a_line_of_progress_says_what_its_kind_is_measured_by() {
    let line = |kind| {
        let Synthetic { run, trials } = Synthetic::of_kind(kind);
        let virtio = |trial: &&TrialRecord| trial.cell.0.starts_with("virtio");
        headline_of(&run.scenario.workload, trials.iter().find(virtio).unwrap()).unwrap()
    };
    assert!(line(WorkloadKind::TcpStream).ends_with("Gbit/s"));
    assert!(line(WorkloadKind::UdpStream).ends_with("Gbit/s"));
    assert!(line(WorkloadKind::PacketRate).ends_with(" k datagrams/s"));
    let latency = line(WorkloadKind::RequestResponse);
    assert!(latency.contains(" k transactions/s, p50 35.0 µs"), "{latency}");
    assert_eq!(line(WorkloadKind::RateSearch), "300 k datagrams/s");
    let Synthetic { run, mut trials } = Synthetic::of_kind(WorkloadKind::PacketRate);
    trials[0].timeline = None;
    assert_eq!(headline_of(&run.scenario.workload, &trials[0]), None);
}

#[test]
fn a_search_is_told_by_the_bounds_that_its_probes_prove() {
    let analysis = analysed(WorkloadKind::RateSearch);
    let found = cell(&analysis, "e1000e/18-bytes/1-stream/to-guest").rate_search.as_ref().unwrap();
    let [ndr, pdr] = &found.goals[..] else { panic!("{:?}", found.goals) };
    assert_eq!((ndr.name.as_str(), pdr.name.as_str()), ("NDR", "PDR 0.5 %"));
    near(ndr.lower_bound_per_second.mean(), 40e3, 1e-9);
    near(ndr.upper_bound_per_second.mean(), 40.4e3, 1e-9);
    near(pdr.lower_bound_per_second.mean(), 50e3, 1e-9);
    near(pdr.upper_bound_per_second.mean(), 50.5e3, 1e-9);
    near(pdr.throughput_per_second.mean(), 49.8e3, 1e-4);
    assert_eq!(pdr.ends.get("reached"), Some(&3));
    near(found.percent_of_wire_rate.mean(), 100.0 * 50e3 * 84.0 * 8.0 / 1e9, 1e-9);
}

#[test]
fn a_record_that_lacks_what_its_kind_counts_has_a_reason() {
    for kind in [WorkloadKind::PacketRate, WorkloadKind::RequestResponse] {
        let Synthetic { run, mut trials } = Synthetic::of_kind(kind);
        for party in trials.iter_mut().flat_map(|trial| &mut trial.parties) {
            party.report.load = None;
            for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
                (load.datagrams, load.transactions) = (None, None);
            }
        }
        for cell in &analyse(&run, &trials).cells {
            assert_eq!(cell.headline().reason(), Some("load: not in the samples"));
            let latency = cell.transactions.as_ref().map(|t| t.latency.percentiles[0].us.reason());
            assert!(latency.is_none_or(|reason| reason.unwrap().contains("no latency")));
        }
    }
}

#[test]
fn nothing_that_arrives_is_said_and_divides_nothing() {
    for kind in WorkloadKind::ALL.into_iter().filter(|kind| *kind != WorkloadKind::RateSearch) {
        let Synthetic { run, mut trials } = Synthetic::of_kind(kind);
        for party in trials.iter_mut().flat_map(|trial| &mut trial.parties) {
            let sends = matches!(party.role, Role::Sender { .. });
            party.report.load = None;
            for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
                load.transactions = load.transactions.map(|_| 0);
                load.disk = load.disk.map(|_| DiskCounters::default());
                if !sends {
                    (load.bytes, load.datagrams) = (0, load.datagrams.map(|_| 0));
                }
            }
        }
        let analysis = analyse(&run, &trials);
        for cell in &analysis.cells {
            assert_eq!(cell.headline().mean(), Some(0.0), "{kind:?}");
            let demand = (cell.measure().demand)(cell).unwrap();
            assert_eq!(demand[0].reason(), Some("nothing arrived"), "{kind:?}");
            if let Some(datagrams) = &cell.datagrams {
                assert_eq!(datagrams.lost_percent.mean(), Some(100.0), "{kind:?}");
            }
        }
        let text = serde_json::to_string(&analysis).unwrap();
        assert!(!text.contains("NaN"), "{kind:?}");
    }
}

/// What the host's only disk did in every trial: so many percent of the load's bytes, and busy all the time.
fn with_device(percent: u64) -> RunAnalysis {
    with_device_and(percent, &|_| ())
}

/// The same of a run that is otherwise as `change` has it.
fn with_device_and(percent: u64, change: &dyn Fn(&mut Synthetic)) -> RunAnalysis {
    let mut synthetic = Synthetic::of_kind(WorkloadKind::Disk);
    change(&mut synthetic);
    let Synthetic { run, mut trials } = synthetic;
    for trial in &mut trials {
        let load = trial.parties.iter_mut().find(|party| party.role == Role::Disk).unwrap();
        let moved = load.report.samples.last().unwrap().load.unwrap().disk.unwrap();
        let bytes = moved.bytes_read + moved.bytes_written;
        load.report.load.as_mut().unwrap().streams =
            vec![StreamOutcome { bytes, ..StreamOutcome::default() }];
        let host = trial.parties.iter_mut().find(|party| party.place == Place::Host).unwrap();
        let bytes_read = bytes * percent / 100;
        let device = BlockDeviceCounters {
            bytes_read,
            busy_ms: 2_950,
            in_flight_ms: 2_940,
            ..Default::default()
        };
        let at = |monotonic_ns, device| LayerCounters {
            monotonic_ns,
            disks: Some([("vda".to_owned(), device)].into()),
            ..LayerCounters::default()
        };
        host.report.layers = vec![at(0, BlockDeviceCounters::default()), at(3_000_000_000, device)];
    }
    analyse(&run, &trials)
}

#[test]
fn a_disk_is_told_by_operations_bytes_and_response_times() {
    let analysis = with_device(110);
    let virtio = cell(&analysis, "virtio");
    let disk = virtio.disk.as_ref().unwrap();
    near(disk.operations_per_second.mean(), 20e3, 0.01);
    near(disk.reads_per_second.mean(), 15e3, 0.01);
    near(disk.writes_per_second.mean(), 5e3, 0.01);
    near(disk.mb_per_second.mean(), 20e3 * 4096.0 / 1e6, 0.01);
    near(disk.mib_per_second.mean(), 20e3 * 4096.0 / 1_048_576.0, 0.01);
    near(disk.mb_written_per_second.mean(), 5e3 * 4096.0 / 1e6, 0.01);
    near(disk.latency.percentile("p50").unwrap().us.mean(), 35.0, 1e-6);
    near(disk.latency.percentile("p50").unwrap().added_us.mean(), 21.0, 1e-6);
    assert!(disk.reads.mean_us.mean().is_some() && disk.writes.max_us.mean().is_some());
    assert_eq!((disk.engines.as_slice(), disk.direct), (["io_uring"].as_slice(), Some(true)));
    assert!(virtio.transactions.is_none() && virtio.tcp.is_none());
    near(disk.device_percent_of_load.mean(), 110.0, 1e-6);
    near(disk.device_in_flight.mean(), 0.98, 1e-6);
}

#[test]
fn a_disk_that_is_busy_all_the_time_is_what_limits_unless_memory_answers() {
    let busy = with_device(100);
    let limits = &cell(&busy, "virtio").limits;
    assert_eq!(limits.first().map(|limit| limit.rule.as_str()), Some("disk-busy"), "{limits:?}");
    assert!(busy.findings.iter().all(|finding| finding.rule != "host-cache-in-path"));
    let cached = with_device(30);
    assert!(cell(&cached, "virtio").limits.is_empty());
    let finding = cached.findings.iter().find(|f| f.rule == "host-cache-in-path").unwrap();
    assert!(finding.evidence.contains("30.0 %"), "{finding:?}");
}

#[test]
fn a_cache_mode_is_named_as_the_cause_and_memory_as_no_disk() {
    let evidence = |analysis: &RunAnalysis| {
        let found = analysis.findings.iter().find(|f| f.rule == "host-cache-in-path");
        found.map(|finding| finding.evidence.clone())
    };
    let writeback = |synthetic: &mut Synthetic| {
        for guest in synthetic.run.plan.cells.iter_mut().filter_map(|cell| cell.guest.as_mut()) {
            guest.drive.cache = CacheMode::Writeback;
        }
    };
    let told = evidence(&with_device_and(3, &writeback)).unwrap();
    assert!(told.contains("guest.drive.cache = \"writeback\""), "{told}");
    assert!(told.contains("the host's disk vda moved 3.00 %"), "{told}");
    assert_eq!(evidence(&with_device_and(100, &writeback)), None, "the disk did all of it");
    let on_loop = |synthetic: &mut Synthetic| {
        for cell in &mut synthetic.run.plan.cells {
            cell.testbed.storage.kind = StorageKind::Device;
            cell.testbed.storage.device = Some("/dev/loop3".to_owned());
        }
    };
    let told = evidence(&with_device_and(3, &on_loop)).unwrap();
    assert!(told.contains("the loop device /dev/loop3 asks the page cache"), "{told}");
    assert_eq!(evidence(&with_device_and(100, &on_loop)), None, "it was set up with direct I/O");
    let beside_it = |synthetic: &mut Synthetic| {
        on_loop(synthetic);
        for cell in &mut synthetic.run.plan.cells {
            cell.testbed.storage.kind = StorageKind::File;
        }
    };
    let told = evidence(&with_device_and(3, &beside_it)).unwrap();
    assert!(!told.contains("loop"), "a device that is named is not the one of a file: {told}");
    let in_memory = |synthetic: &mut Synthetic| {
        for trial in &mut synthetic.trials {
            trial.storage = Some(StorageFacts { device: None, in_memory: true });
        }
    };
    // Somebody else's bytes moved the only disk there is.
    let memory = with_device_and(100, &in_memory);
    assert!(evidence(&memory).unwrap().contains("in memory"));
    let disk = cell(&memory, "virtio").disk.as_ref().unwrap();
    assert!(disk.device_percent_of_load.mean().is_none() && disk.devices.is_empty());
}

#[test]
fn the_device_below_is_told_and_not_the_one_that_moved_most() {
    let on_another = |synthetic: &mut Synthetic| {
        for trial in &mut synthetic.trials {
            trial.storage = Some(StorageFacts { device: Some("nvme0n1".into()), in_memory: false });
        }
    };
    let analysis = with_device_and(100, &on_another);
    let disk = cell(&analysis, "virtio").disk.as_ref().unwrap();
    assert_eq!(disk.devices, ["nvme0n1"]);
    assert_eq!(disk.device_percent_of_load.mean(), Some(0.0), "vda is another's");
    assert!(cell(&analysis, "virtio").limits.iter().all(|limit| limit.rule != "disk-busy"));
}
