//! fio itself, against real files.

use std::time::Instant;

use vioperf_model::sample::DiskCounters;
use vioperf_model::units::ByteSize;
use vioperf_model::workload::{Engine, WorkloadKind};

use super::super::tests::{Scratch, scratch, share};
use super::*;

fn workload() -> Workload {
    Workload {
        engine: Some(Engine::Fio),
        warmup: TimeSpan::from_millis(100),
        file_size: Some(ByteSize::from_mib(1)),
        ..Workload::new(WorkloadKind::Disk)
    }
}

fn prepare(disk: &Scratch, workload: &Workload) -> Result<Fio, LoadError> {
    Fio::prepare(&Role::Disk, workload, Some(&disk.path), TimeSpan::from_millis(20_000))
}

fn run(disk: &Scratch, workload: &Workload, time: Duration) -> (LoadOutcome, DiskCounters) {
    let mut load = prepare(disk, workload).unwrap();
    load.await_peer().unwrap();
    load.begin().unwrap();
    assert!(load.control().moved().disk.unwrap().operations() > 0, "it has begun");
    std::thread::sleep(time);
    let outcome = load.end();
    (outcome, load.control().moved().disk.unwrap())
}

/// The fio that a load has started.
fn pid_of(load: &Fio) -> u32 {
    match &load.stage {
        Stage::Ready(process, _) => process.pid(),
        _ => panic!("not ready"),
    }
}

fn is_there(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

#[test]
fn it_reads_as_asked_and_tells_of_it() {
    let disk = scratch(1024, 7);
    let workload =
        Workload { streams: 2, queue_depth: Some(4), random_share: share(100), ..workload() };
    let (outcome, moved) = run(&disk, &workload, Duration::from_millis(700));
    assert_eq!(outcome.ended_early, None);
    let told = outcome.disk.unwrap();
    assert!(told.fio.unwrap().starts_with("fio-"));
    assert_eq!((told.reach_bytes, told.size_bytes), (1 << 20, 1 << 20));
    assert_eq!((moved.writes, moved.bytes_written), (0, 0));
    assert_eq!(moved.bytes_read, moved.reads * 4096);
    let streams: Vec<u64> = outcome.streams.iter().map(|stream| stream.bytes).collect();
    assert_eq!(streams.iter().sum::<u64>(), moved.bytes_read);
    assert!(streams.len() == 2 && streams.iter().all(|bytes| *bytes > 0), "{streams:?}");
    // Without those of the warm-up.
    let counted: u64 = told.reads.buckets.iter().map(|[_, count]| count).sum();
    assert!(counted > 0 && counted < moved.reads, "{counted} of {}", moved.reads);
    assert_eq!(outcome.latency.unwrap().buckets, told.reads.buckets);
    assert!(std::fs::read(&disk.path).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn it_writes_the_share_that_is_asked_for_and_only_what_is_in_reach() {
    let disk = scratch(2048, 7);
    let workload = Workload { random_share: share(100), read_share: share(67), ..workload() };
    let (outcome, moved) = run(&disk, &workload, Duration::from_millis(500));
    assert_eq!(outcome.ended_early, None);
    let part = moved.reads as f64 / moved.operations() as f64;
    assert!((0.55..0.79).contains(&part), "{moved:?}");
    let bytes = std::fs::read(&disk.path).unwrap();
    assert!(bytes[..1 << 20].iter().any(|byte| *byte != 7), "nothing was written");
    assert!(bytes[1 << 20..].iter().all(|byte| *byte == 7), "written beyond the reach");
    assert_eq!(bytes.len(), 2 << 20);
}

#[test]
fn what_is_another_load_to_fio_is_refused() {
    let disk = scratch(1024, 7);
    let mixed = Workload { read_share: share(50), ..workload() };
    let error = prepare(&disk, &mixed).err().unwrap().to_string();
    assert!(error.contains("engine cannot be") && error.contains("a place for reads"), "{error}");
}

#[test]
fn a_fio_that_ends_by_itself_ends_the_load_with_what_it_says() {
    let disk = scratch(1024, 7);
    let mut load = prepare(&disk, &workload()).unwrap();
    load.job = "[worker]\nioengine=none-such\n".to_owned();
    let error = load.begin().err().unwrap().to_string();
    assert!(
        error.contains("ended before it was told to") && error.contains("none-such"),
        "{error}"
    );
}

#[test]
fn nothing_is_left_of_a_load_that_never_began_or_was_dropped() {
    let disk = scratch(1024, 7);
    let load = prepare(&disk, &workload()).unwrap();
    let pid = pid_of(&load);
    assert!(is_there(pid));
    drop(load);
    assert!(!is_there(pid));
    let mut load = prepare(&disk, &workload()).unwrap();
    let pid = pid_of(&load);
    load.begin().unwrap();
    let before = Instant::now();
    drop(load);
    assert!(!is_there(pid) && before.elapsed() < Duration::from_secs(5));
    let names: Vec<_> = std::fs::read_dir(disk.path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
