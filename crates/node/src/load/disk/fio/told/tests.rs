//! What fio prints, and what nobody should.

use proptest::prelude::*;

use super::*;

/// A status of fio 3.33 of one worker, with what is read of it and some of what is not.
fn status(reads: &str, writes: &str) -> String {
    let way = |times: &str, bytes: u64| {
        format!(
            "{{\n\"io_bytes\" : {bytes},\n\"iops\" : 21908.553742,\n\"clat_ns\" : {{\n\"min\" : 130\n}},\n\
             \"lat_ns\" : {times}\n}}"
        )
    };
    format!(
        "{{\n  \"fio version\" : \"fio-3.33\",\n  \"time\" : \"Mon\",\n  \"jobs\" : [\n    {{\n\"error\" : 0,\n\"read\" : {},\n\
         \"write\" : {},\n\"job_runtime\" : 2000,\n\"usr_cpu\" : 20.0,\n\"sys_cpu\" : 30.0\n    }}\n  ]\n}}\n",
        way(reads, 8192),
        way(writes, 4096)
    )
}

const TWO: &str = "{ \"min\" : 100, \"max\" : 10300, \"mean\" : 5200.0, \"N\" : 2, \"bins\" : { \"100\" : 1, \"10304\" : 1 } }";
const NONE: &str = "{ \"min\" : 0, \"max\" : 0, \"mean\" : 0.0, \"N\" : 0 }";

fn told(text: &str) -> Told {
    Told::read(text.as_bytes()).unwrap()
}

fn cut(documents: &mut Documents, text: &str) -> Vec<Vec<u8>> {
    documents.take(text.as_bytes()).unwrap()
}

#[test]
fn a_status_is_counted_as_fio_counts() {
    let told = told(&status(TWO, NONE));
    assert_eq!(told.version(), "fio-3.33");
    let counters = told.counters();
    assert_eq!((counters.reads, counters.writes), (2, 0));
    assert_eq!((counters.bytes_read, counters.bytes_written), (8192, 4096));
    assert_eq!(told.jobs[0].times_ns(), (2_000_000_000, 1_000_000_000));
    let histogram = told.reads().since(&Times::default());
    // 10304 is the middle of 10240 to 10367: 64 buckets from 8192 to 16383.
    assert_eq!(histogram.buckets, [[100, 1], [10_367, 1]]);
    assert_eq!(
        (histogram.minimum_ns, histogram.maximum_ns, histogram.sum_ns),
        (100, 10_300, 10_400)
    );
    assert_eq!(told.writes().since(&Times::default()), LatencyHistogram::default());
}

#[test]
fn what_was_before_the_warm_up_ended_is_taken_off() {
    let later = "{ \"min\" : 100, \"max\" : 10300, \"mean\" : 4000.0, \"N\" : 4, \"bins\" : { \"100\" : 1, \"2832\" : 2, \"10304\" : 1 } }";
    let (earlier, later) = (told(&status(TWO, NONE)).reads(), told(&status(later, NONE)).reads());
    let since = later.since(&earlier);
    assert_eq!(since.buckets, [[2847, 2]]);
    // Neither came since: the ends of the bucket stand for them.
    assert_eq!((since.minimum_ns, since.maximum_ns, since.sum_ns), (2816, 2847, 5600));
    assert_eq!(later.since(&later), LatencyHistogram::default());
    assert_eq!(earlier.since(&later), LatencyHistogram::default());
}

#[test]
fn workers_are_added_up() {
    let one = told(&status(TWO, NONE)).reads();
    let both = Times::default().with(&one).with(&one).with(&Times::default());
    assert_eq!((both.count, both.min, both.max), (4, 100, 10_300));
    assert_eq!(both.bins.values().sum::<u64>(), 4);
    assert!((both.mean - 5200.0).abs() < 1e-6);
}

#[test]
fn documents_are_found_between_other_lines_however_they_are_cut() {
    let (first, second) = (status(TWO, NONE), status(NONE, TWO));
    let text = format!("note: psync\n{first}\nfio: terminating on signal 2\n{second}");
    let whole = cut(&mut Documents::default(), &text);
    assert_eq!(whole, [first.as_bytes(), second.as_bytes()]);
    let mut documents = Documents::default();
    let byte_by_byte: Vec<Vec<u8>> =
        text.bytes().flat_map(|byte| documents.take(&[byte]).unwrap()).collect();
    assert_eq!(byte_by_byte, whole);
    assert_eq!(documents.beside, "fio: terminating on signal 2");
}

#[test]
fn what_is_cut_off_gives_nothing_and_what_never_ends_is_refused() {
    let text = status(TWO, NONE);
    assert_eq!(cut(&mut Documents::default(), &text[..text.len() - 2]), Vec::<Vec<u8>>::new());
    let mut endless = Documents::default();
    let megabyte = vec![b'x'; 1 << 20];
    let refused = (0..40).find_map(|_| endless.take(&megabyte).err());
    assert!(refused.unwrap().contains("more than 32 MiB"));
}

#[test]
fn what_no_fio_would_tell_is_refused_or_bounded() {
    for wrong in [
        "{}",
        "{\"jobs\": [{}]}",
        &status(TWO, NONE).replace("\"N\" : 2", "\"N\" : -2"),
        &status(TWO, NONE).replace("\"N\" : 2", "\"N\" : 99999999999999999999999"),
        &status(TWO, NONE).replace("\"10304\" : 1", "\"-5\" : 1"),
        &status(TWO, NONE).replace("5200.0", "-nan"),
    ] {
        assert!(Told::read(wrong.as_bytes()).unwrap_err().contains("cannot be read"), "{wrong}");
    }
    let huge = u64::MAX.to_string();
    let absurd = status(TWO, TWO)
        .replace("\"N\" : 2", &format!("\"N\" : {huge}"))
        .replace("\"10304\" : 1", &format!("\"{huge}\" : {huge}, \"0\" : {huge}"))
        .replace("8192", &huge)
        .replace("5200.0", "-1e300");
    let absurd = told(&absurd);
    assert_eq!(absurd.counters().operations(), u64::MAX);
    assert_eq!(absurd.jobs[0].bytes(), u64::MAX);
    let both = absurd.reads().with(&absurd.writes()).since(&Times::default());
    assert_eq!(both.sum_ns, 0);
    assert_eq!(both.buckets.last().unwrap(), &[u64::MAX, u64::MAX]);
}

proptest! {
    #[test]
    fn a_bucket_holds_its_middle_and_is_as_narrow_as_fio_s(value in any::<u64>()) {
        let (first, last) = bucket(value);
        prop_assert!(first <= value && value <= last);
        prop_assert!(value < 128 || (last - first) <= value / 64);
        prop_assert!(value >= 128 || first == last);
    }

    #[test]
    fn nothing_that_is_read_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut documents = Documents::default();
        for document in documents.take(&bytes).unwrap() {
            let _ = Told::read(&document);
        }
    }
}
