//! The load against real files.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vioperf_model::sample::{DiskCounters, LatencyHistogram};
use vioperf_model::units::{ByteSize, Ratio, TimeSpan};
use vioperf_model::workload::WorkloadKind;

use super::memory::Memory;
use super::pattern::Operation;
use super::queue::{Ended, Queue, order};
use super::*;

const BLOCK: usize = 4096;

pub(super) struct Scratch {
    _directory: TempDir,
    pub(super) path: PathBuf,
}

/// A file of so many KiB, every byte the same.
pub(super) fn scratch(kib: usize, byte: u8) -> Scratch {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    File::create(&path).unwrap().write_all(&vec![byte; kib << 10]).unwrap();
    Scratch { _directory: directory, path }
}

fn workload() -> Workload {
    Workload {
        warmup: TimeSpan::from_millis(0),
        file_size: Some(ByteSize::from_mib(1)),
        ..Workload::new(WorkloadKind::Disk)
    }
}

pub(super) fn share(percent: u64) -> Option<Ratio> {
    Some(Ratio::from_ppm(percent * 10_000))
}

/// Lets it run until so much has ended, but not for ever.
fn run_until(
    disk: &Scratch,
    workload: &Workload,
    enough: impl Fn(DiskCounters) -> bool,
) -> (LoadOutcome, DiskCounters) {
    let mut load = Disk::prepare(&Role::Disk, workload, Some(&disk.path)).unwrap();
    load.await_peer().unwrap();
    load.begin().unwrap();
    let moved = |load: &Disk| load.control().moved().disk.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !enough(moved(&load)) && !load.control().stopping() {
        assert!(Instant::now() < deadline, "{:?}", moved(&load));
        std::thread::sleep(Duration::from_millis(2));
    }
    (load.end(), moved(&load))
}

fn count(histogram: &LatencyHistogram) -> u64 {
    histogram.buckets.iter().map(|[_, count]| count).sum()
}

#[test]
fn every_operation_is_counted_and_timed_once() {
    let disk = scratch(1024, 1);
    let workload = Workload {
        streams: 2,
        queue_depth: Some(8),
        read_share: share(50),
        random_share: share(100),
        ..workload()
    };
    let (outcome, moved) = run_until(&disk, &workload, |moved| moved.operations() > 500);
    assert_eq!(outcome.ended_early, None);
    assert!(moved.reads > 100 && moved.writes > 100, "{moved:?}");
    assert_eq!(
        (moved.bytes_read, moved.bytes_written),
        (moved.reads * BLOCK as u64, moved.writes * BLOCK as u64)
    );
    let told = outcome.disk.unwrap();
    assert_eq!((count(&told.reads), count(&told.writes)), (moved.reads, moved.writes));
    assert_eq!(count(&outcome.latency.unwrap()), moved.operations());
    assert!(told.reads.minimum_ns > 0 && told.reads.maximum_ns < 20_000_000_000);
    assert_eq!((told.reach_bytes, told.size_bytes, told.given_up), (1 << 20, 1 << 20, 0));
    let of_workers: u64 = outcome.streams.iter().map(|stream| stream.bytes).sum();
    assert_eq!(of_workers, moved.operations() * BLOCK as u64);
    assert!(outcome.streams.iter().all(|stream| stream.bytes > 0));
}

#[test]
fn writes_reach_every_block_that_is_in_reach_and_no_other() {
    let disk = scratch(2048, 0);
    let workload = Workload { queue_depth: Some(4), read_share: share(0), ..workload() };
    run_until(&disk, &workload, |moved| moved.writes >= 260);
    let content = std::fs::read(&disk.path).unwrap();
    let (reached, beyond) = content.split_at(1 << 20);
    assert!(reached.chunks(BLOCK).all(|block| block.iter().any(|byte| *byte != 0)));
    assert!(beyond.iter().all(|byte| *byte == 0));
    // Not the same everywhere.
    assert_ne!(reached.chunks(BLOCK).next(), reached.chunks(BLOCK).nth(1));
}

#[test]
fn what_begins_in_the_warm_up_is_counted_but_not_timed() {
    let disk = scratch(1024, 1);
    let workload = Workload { warmup: TimeSpan::from_millis(60_000), ..workload() };
    let (outcome, moved) = run_until(&disk, &workload, |moved| moved.reads > 10);
    assert_eq!(count(&outcome.latency.unwrap()), 0);
    assert!(moved.reads > 10);
}

#[test]
fn a_pause_comes_after_every_burst() {
    let disk = scratch(1024, 1);
    let workload = Workload {
        queue_depth: Some(2),
        burst: Some(3),
        delay: Some(TimeSpan::from_millis(20)),
        ..workload()
    };
    let began = Instant::now();
    let (_, moved) = run_until(&disk, &workload, |moved| moved.reads >= 12);
    let pauses = began.elapsed().as_millis() / 20;
    assert!(u128::from(moved.reads) <= 3 * (pauses + 1), "{moved:?} {pauses}");
    assert!(pauses >= 3);
}

#[test]
fn a_file_that_becomes_shorter_ends_the_load_and_says_so() {
    let disk = scratch(1024, 1);
    let mut load = Disk::prepare(&Role::Disk, &workload(), Some(&disk.path)).unwrap();
    File::options().write(true).open(&disk.path).unwrap().set_len(8192).unwrap();
    load.begin().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !load.control().stopping() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
    let reason = load.end().ended_early.unwrap();
    assert!(reason.contains("ended after 0: has the file become shorter?"), "{reason}");
}

#[test]
fn a_load_without_a_disk_or_that_contradicts_itself_is_refused() {
    let disk = scratch(1024, 1);
    let refused = |workload: &Workload, path| {
        Disk::prepare(&Role::Disk, workload, path).err().unwrap().to_string()
    };
    assert!(refused(&workload(), None).contains("name the file or block device"));
    let odd = Workload { block_size: Some(ByteSize::from_bytes(1000)), ..workload() };
    let error = refused(&odd, Some(disk.path.as_path()));
    assert!(error.contains("workload.block_size") && error.contains("sector"), "{error}");
}

/// Writes three blocks, then reads them back, by either way of handing operations over.
fn write_and_read_back(mut queue: Queue, file: &File) {
    queue.begin().unwrap();
    let memory = Memory::new(4, BLOCK, 42).unwrap();
    let mut carry_out = |writes: bool| {
        for number in 0..3 {
            let operation =
                Operation { offset: number as u64 * BLOCK as u64, bytes: BLOCK, writes };
            queue.push(order(&memory, number, operation, number as u64)).unwrap();
        }
        let mut ended: Vec<Ended> = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while ended.len() < 3 && Instant::now() < deadline {
            queue.wait(Duration::from_millis(100), &mut ended).unwrap();
        }
        ended.sort_by_key(|one| one.number);
        assert!(ended.iter().zip(0..).all(|(one, n)| one.number == n && one.moved == Ok(BLOCK)));
    };
    carry_out(true);
    carry_out(false);
    let mut content = vec![0; 3 * BLOCK];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut content, 0).unwrap();
    for (number, block) in content.chunks(BLOCK).enumerate() {
        // SAFETY: a block from there is mapped, and no operation is under way any more.
        let read = unsafe {
            std::slice::from_raw_parts(memory.place(number).as_ptr().cast_const(), BLOCK)
        };
        assert_eq!(read, block);
        assert!(read.iter().any(|byte| *byte != 7));
    }
    // Nothing is under way: the wait ends by itself.
    queue.wait(Duration::from_millis(1), &mut Vec::new()).unwrap();
}

#[test]
fn both_ways_of_handing_operations_over_move_the_same_bytes() {
    let disk = scratch(64, 7);
    let file = Arc::new(File::options().read(true).write(true).open(&disk.path).unwrap());
    write_and_read_back(Queue::Helpers(helpers::Helpers::start(&file, 4).unwrap()), &file);
    // Where the kernel has no io_uring the load works all the same, by the first way.
    match ring::Ring::new(file.clone(), 4) {
        Ok(ring) => write_and_read_back(Queue::Ring(Box::new(ring)), &file),
        Err(error) => eprintln!("no io_uring here: {error}"),
    }
}

#[test]
fn an_error_of_the_kernel_is_told_as_one() {
    // A pipe has no offsets.
    let (reader, _writer) = nix::unistd::pipe().unwrap();
    let file = Arc::new(File::from(reader));
    let memory = Memory::new(1, BLOCK, 1).unwrap();
    let mut queue = Queue::Helpers(helpers::Helpers::start(&file, 1).unwrap());
    let operation = Operation { offset: 0, bytes: BLOCK, writes: false };
    queue.push(order(&memory, 0, operation, 0)).unwrap();
    let mut ended = Vec::new();
    queue.wait(Duration::from_secs(20), &mut ended).unwrap();
    assert_eq!(ended, [Ended { number: 0, moved: Err(libc::ESPIPE) }]);
}
