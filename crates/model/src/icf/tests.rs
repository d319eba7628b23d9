use proptest::prelude::*;

use super::*;
use crate::scenario_file;
use crate::testing::{edits, mutated};

/// As IOmeter saves one, of two workers of disks and one of the network.
const SAVED: &str = "Version 2006.07.27\r
'TEST SETUP ====================================================================\r
'Test Description\r
\tThe old host\r
'Run Time\r
'\thours      minutes    seconds\r
\t0          5          30\r
'Ramp Up Time (s)\r
\t10\r
'Queue Depth Cycling\r
'\tstart      end        step       step type\r
\t1          32         2          EXPONENTIAL\r
'Test Type\r
\tNORMAL\r
'END test setup\r
'RESULTS DISPLAY ===============================================================\r
'Update Frequency,Update Type\r
\t4,WHOLE_TEST\r
'END results display\r
'ACCESS SPECIFICATIONS =========================================================\r
'Access specification name,default assignment\r
\t4K; 50% Read; 0% random,ALL\r
'size,% of size,% reads,% random,delay,burst,align,reply\r
\t4096,100,50,0,0,1,0,0\r
'Access specification name,default assignment\r
\tFile Server,NONE\r
'size,% of size,% reads,% random,delay,burst,align,reply\r
\t512,10,80,100,0,1,0,0\r
\t65536,90,80,100,20,4,65536,0\r
'Access specification name,default assignment\r
\tNever used,NONE\r
'size,% of size,% reads,% random,delay,burst,align,reply\r
\t8192,100,100,0,0,1,0,0\r
'END access specifications\r
'MANAGER LIST ==================================================================\r
'Manager ID, manager name\r
\t1,OLDHOST\r
'Manager network address\r
\t\r
'Worker\r
\tWorker 1\r
'Worker type\r
\tDISK\r
'Default target settings for worker\r
'Number of outstanding IOs,test connection rate,transactions per connection\r
\t8,DISABLED,1\r
'Disk maximum size,starting sector\r
\t2097152,0\r
'End default target settings for worker\r
'Assigned access specs\r
\t4K; 50% Read; 0% random\r
\tFile Server\r
'End assigned access specs\r
'Target assignments\r
'Target\r
\tC: \"\"\r
'Target type\r
\tDISK\r
'End target\r
'End target assignments\r
'End worker\r
'Worker\r
\tWorker 2\r
'Worker type\r
\tNETWORK,TCP\r
'Number of outstanding IOs,test connection rate,transactions per connection\r
\t1,DISABLED,1\r
'End worker\r
'End manager\r
'END manager list\r
Version 2006.07.27\r
";

fn parsed() -> Icf {
    Icf::parse(SAVED).unwrap()
}

#[test]
fn what_a_file_says_is_read() {
    let icf = parsed();
    assert_eq!((icf.run_seconds, icf.ramp_up_seconds), (330, 10));
    assert_eq!(icf.description, "The old host");
    // The walk stands there and is not taken.
    assert_eq!(icf.queue_depths, None);
    let names: Vec<_> = icf.specifications.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["4K; 50% Read; 0% random", "File Server", "Never used"]);
    let [small, large] = icf.specifications[1].lines[..] else { panic!("not two lines") };
    assert_eq!((small.size_bytes, small.share_percent, small.burst), (512, 10, 1));
    assert_eq!((large.delay_ms, large.burst, large.alignment_bytes), (20, 4, 65_536));
    let [worker] = &icf.workers[..] else { panic!("the network's is none: {:?}", icf.workers) };
    assert_eq!((worker.queue_depth, worker.most_sectors), (Some(8), 2_097_152));
    assert_eq!(worker.assigned.len(), 2);
}

#[test]
fn what_cannot_be_names_its_line() {
    let wrong = SAVED.replace("4096,100,50", "4096,100,many");
    let error = Icf::parse(&wrong).unwrap_err().to_string();
    assert!(error.starts_with("line 24: `4096,100,many,"), "{error}");
    let error = Icf::parse(&SAVED.replace("4096,100,50", "4096,100,101")).unwrap_err().to_string();
    assert_eq!(error, "line 24: 101 % of reads: 100 is the most");
    assert_eq!(Icf::parse("[workload]\n"), Err(IcfError::NoSpecification));
    let long = " ".repeat(MAX_FILE_BYTES + 1);
    assert_eq!(Icf::parse(&long), Err(IcfError::TooLong));
}

#[test]
fn every_specification_that_a_worker_has_is_a_part() {
    let Told { toml, left_out } = parsed().scenario("old-host", &["virtio-blk", "ide"]);
    for said in [
        "name = \"old-host\"\nquestion = \"The old host\"\n",
        "kind = \"disk\"\nduration = \"330 s\"\nwarmup = \"10 s\"\nstreams = 1\nqueue_depth = 8\n\
         file_size = \"1 GiB\"\n",
        "disk = [\"virtio-blk\", \"ide\"]\n",
        "[[parts]]\nname = \"4k-50-read-0-random\"\nquestion = \"4K; 50% Read; 0% random\"\n\
         [parts.workload]\nblock_size = \"4 KiB\"\nread_share = \"50 %\"\nrandom_share = \"0 %\"\n\
         alignment = \"512 B\"\n",
        "[[parts.workload.mix]]\nshare = \"90 %\"\nblock_size = \"64 KiB\"\nread_share = \"80 %\"\n\
         random_share = \"100 %\"\n",
    ] {
        assert!(toml.contains(said), "{said}is not in\n{toml}");
    }
    assert_eq!(
        left_out,
        [
            "No worker has the specification `Never used`.",
            "The kinds of operations of `File Server` pause differently: here none of them does.",
        ]
    );
    scenario_file::parse("old-host", &toml, &[]).unwrap();
}

#[test]
fn a_walk_through_queue_depths_is_a_factor() {
    let text = SAVED.replace("\tNORMAL", "\tCYCLE_OUTSTANDING_IOS");
    let Told { toml, .. } = Icf::parse(&text).unwrap().scenario("walk", &["nvme"]);
    assert!(toml.contains("queue_depth = [1, 2, 4, 8, 16, 32]\n"), "{toml}");
    assert!(!toml.contains("queue_depth = 8"), "{toml}");
}

#[test]
fn one_specification_needs_no_parts() {
    let end = SAVED.find("'Access specification name,default assignment\r\n\tFile").unwrap();
    let text = format!("{}'END access specifications\r\n", &SAVED[..end]);
    let Told { toml, left_out } = Icf::parse(&text).unwrap().scenario("one", &["virtio-blk"]);
    assert!(!toml.contains("[[parts]]") && toml.contains("block_size = \"4 KiB\""), "{toml}");
    assert!(left_out.is_empty(), "{left_out:?}");
}

proptest! {
    #[test]
    fn almost_a_file_never_panics(edits in edits()) {
        let text = String::from_utf8_lossy(&mutated(SAVED.as_bytes(), &edits)).into_owned();
        if let Ok(icf) = Icf::parse(&text) {
            let Told { toml, .. } = icf.scenario("mutated", &["virtio-blk"]);
            prop_assert!(toml.parse::<toml::Table>().is_ok(), "{toml}");
        }
    }

    #[test]
    fn names_cannot_leave_their_quotes(name in "\\PC{0,40}") {
        let text = SAVED.replace("File Server", &name.replace(',', "."));
        if let Ok(icf) = Icf::parse(&text) {
            let Told { toml, .. } = icf.scenario("named", &["virtio-blk"]);
            prop_assert!(toml.parse::<toml::Table>().is_ok(), "{toml}");
        }
    }
}
