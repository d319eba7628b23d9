//! The result file of IOmeter 1.1.0: for every trial of a disk's load a block of results, as that program writes one for
//! every test. Times are in milliseconds; what IOmeter has and vioperf has not (transactions, connections, raw timer
//! counts, sorts of CPU time) is empty.
//!
//! Source: the files that IOmeter 1.1.0 writes, and the "Iometer User's Guide" (2003-12-16), chapter on result files.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use vioperf_analysis::trial_table::{Row, Value};

use super::Table;

/// Whose results a line has, before the columns with values. Those who read such files know columns by their place and by
/// these names.
const LINE: &str = "'Target Type,Target Name,Access Specification Name";

type Reader = fn(&Trial<'_>) -> Option<f64>;

/// What vioperf knows nothing of.
const NOTHING: Reader = |_| None;

/// The columns with values, each with where its value is from.
const COLUMNS: &[(&str, Reader)] = &[
    ("# Managers", |_| Some(1.0)),
    ("# Workers", |t| t.number("streams")),
    ("# Disks", |_| Some(1.0)),
    ("IOps", |t| t.number("disk_operations_per_second")),
    ("Read IOps", |t| t.number("disk_reads_per_second")),
    ("Write IOps", |t| t.number("disk_writes_per_second")),
    ("MBps (Binary)", |t| t.number("disk_mib_per_second")),
    ("Read MBps (Binary)", |t| Some(t.number("disk_mb_read_per_second")? / MB_PER_MIB)),
    ("Write MBps (Binary)", |t| Some(t.number("disk_mb_written_per_second")? / MB_PER_MIB)),
    ("MBps (Decimal)", |t| t.number("disk_mb_per_second")),
    ("Read MBps (Decimal)", |t| t.number("disk_mb_read_per_second")),
    ("Write MBps (Decimal)", |t| t.number("disk_mb_written_per_second")),
    ("Transactions per Second", NOTHING),
    ("Connections per Second", NOTHING),
    ("Average Response Time", |t| t.milliseconds("latency_mean_us")),
    ("Average Read Response Time", |t| t.milliseconds("disk_read_mean_us")),
    ("Average Write Response Time", |t| t.milliseconds("disk_write_mean_us")),
    ("Average Transaction Time", NOTHING),
    ("Average Connection Time", NOTHING),
    ("Maximum Response Time", |t| t.milliseconds("latency_max_us")),
    ("Maximum Read Response Time", |t| t.milliseconds("disk_read_max_us")),
    ("Maximum Write Response Time", |t| t.milliseconds("disk_write_max_us")),
    ("Maximum Transaction Time", NOTHING),
    ("Maximum Connection Time", NOTHING),
    // A trial with an error of the disk is void.
    ("Errors", |_| Some(0.0)),
    ("Read Errors", |_| Some(0.0)),
    ("Write Errors", |_| Some(0.0)),
    ("Bytes Read", |t| Some((t.in_the_window("disk_mb_read_per_second")? * 1e6).round())),
    ("Bytes Written", |t| Some((t.in_the_window("disk_mb_written_per_second")? * 1e6).round())),
    ("Read I/Os", |t| Some(t.in_the_window("disk_reads_per_second")?.round())),
    ("Write I/Os", |t| Some(t.in_the_window("disk_writes_per_second")?.round())),
    ("Connections", NOTHING),
    ("Transactions per Connection", NOTHING),
    ("Total Raw Read Response Time", NOTHING),
    ("Total Raw Write Response Time", NOTHING),
    ("Total Raw Transaction Time", NOTHING),
    ("Total Raw Connection Time", NOTHING),
    ("Maximum Raw Read Response Time", NOTHING),
    ("Maximum Raw Write Response Time", NOTHING),
    ("Maximum Raw Transaction Time", NOTHING),
    ("Maximum Raw Connection Time", NOTHING),
    ("Total Raw Run Time", NOTHING),
    ("Starting Sector", |_| Some(0.0)),
    ("Maximum Size", |t| Some(t.number("file_bytes")? / SECTOR_BYTES)),
    ("Queue Depth", |t| t.number("queue_depth")),
    ("% CPU Utilization", |t| t.busy_percent()),
    ("% User Time", NOTHING),
    ("% Privileged Time", NOTHING),
    ("% DPC Time", NOTHING),
    ("% Interrupt Time", NOTHING),
    ("Processor Speed", NOTHING),
    ("Interrupts per Second", NOTHING),
    ("CPU Effectiveness", |t| Some(t.number("disk_operations_per_second")? / t.busy_percent()?)),
    ("Packets/Second", NOTHING),
    ("Packet Errors", NOTHING),
    ("Segments Retransmitted/Second", NOTHING),
];

const MB_PER_MIB: f64 = 1.048_576;
const SECTOR_BYTES: f64 = 512.0;

/// A row of the table that is a completed trial of a disk.
struct Trial<'a> {
    row: &'a Row,
    places: &'a BTreeMap<&'static str, usize>,
}

impl Trial<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.row.get(*self.places.get(name)?)?.as_ref()
    }

    fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text) | Value::Time(text)) => text,
            _ => "",
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Real(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "sizes and counts of one trial")]
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    fn milliseconds(&self, name: &str) -> Option<f64> {
        Some(self.number(name)? / 1000.0)
    }

    /// A rate, over all of the measured time.
    fn in_the_window(&self, name: &str) -> Option<f64> {
        Some(self.number(name)? * self.number("measured_ms")? / 1000.0)
    }

    /// Of the machine that the load ran on, 100 being all its cores.
    fn busy_percent(&self) -> Option<f64> {
        let (busy, cores) = match self.value("is_baseline") {
            Some(Value::Flag(true)) => ("host_busy_percent_of_core", "host_cores"),
            _ => ("guest_busy_percent_of_core", "guest_cpus"),
        };
        Some(self.number(busy)? / self.number(cores).filter(|cores| *cores > 0.0)?)
    }

    /// One line of IOmeter's access specification.
    fn access_line(&self) -> String {
        let whole = |name| self.number(name).unwrap_or_default().round();
        format!(
            "{},100,{},{},{},{},{},0",
            whole("block_bytes"),
            whole("read_percent"),
            whole("random_percent"),
            whole("delay_ms"),
            whole("burst").max(1.0),
            whole("alignment_bytes"),
        )
    }

    /// `ALL`, `MANAGER` and `DISK` say the same, as one machine loads one disk.
    fn results(&self) -> String {
        let field = |(_, read): &(&str, Reader)| {
            read(self).filter(|value| value.is_finite()).map_or_else(String::new, number)
        };
        let values = COLUMNS.iter().map(field).collect::<Vec<_>>().join(",");
        let specification = plain(self.text("cell"));
        let machine =
            if self.value("is_baseline") == Some(&Value::Flag(true)) { "host" } else { "guest" };
        [("ALL", "All"), ("MANAGER", machine), ("DISK", &plain(self.text("path")))]
            .map(|(kind, name)| format!("{kind},{name},{specification},{values}\n"))
            .concat()
    }
}

/// Writes what of `table` are completed trials of disks.
///
/// # Errors
/// What the system refused.
pub fn write(table: &Table, out: &mut impl Write) -> io::Result<()> {
    let places = (0..).zip(&table.headings).map(|(at, heading)| (heading.name, at)).collect();
    let trials = table.rows.iter().map(|row| Trial { row, places: &places });
    let is_result =
        |t: &Trial<'_>| t.text("outcome") == "completed" && t.text("workload") == "disk";
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let headings = format!("{LINE},{}", names.join(","));
    for trial in trials.filter(is_result) {
        let began = time_stamp(trial.text("started_at"));
        writeln!(out, "'Test Type,Test Description\n0,{}", plain(trial.text("scenario")))?;
        writeln!(out, "'Version\n1.1.0\n'Time Stamp\n{began}")?;
        writeln!(out, "'Access specifications\n'Access specification name,default assignment")?;
        writeln!(out, "{},NONE", plain(trial.text("cell")))?;
        writeln!(out, "'size,% of size,% reads,% random,delay,burst,align,reply")?;
        writeln!(out, "{}\n'End access specifications", trial.access_line())?;
        writeln!(out, "'Results\n{headings}\n{}'Time Stamp\n{began}", trial.results())?;
    }
    Ok(())
}

/// To a millionth, as IOmeter writes numbers, and no longer than it has to be.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Nothing in such a file is quoted: a comma would be a column.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c == ',' || c.is_control() { ' ' } else { c }).collect()
}

/// As IOmeter writes times, UTC.
fn time_stamp(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(
        |_| String::new(),
        |time| {
            time.strftime("%Y-%m-%d %H:%M:%S:").to_string()
                + &format!("{:03}", time.subsec_millisecond())
        },
    )
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::trial_table::{Heading, Kind};

    use super::*;

    fn table(values: &[(&'static str, Value)]) -> Table {
        let heading = |(name, _): &(&'static str, Value)| Heading {
            name,
            kind: Kind::Text,
            unit: None,
            about: "",
        };
        Table {
            headings: values.iter().map(heading).collect(),
            rows: vec![values.iter().map(|(_, value)| Some(value.clone())).collect()],
        }
    }

    fn trial() -> Vec<(&'static str, Value)> {
        let text = |text: &str| Value::Text(text.to_owned());
        vec![
            ("outcome", text("completed")),
            ("workload", text("disk")),
            ("scenario", text("disk, models")),
            ("cell", text("virtio-blk/4-kib")),
            ("path", text("virtio-blk")),
            ("started_at", Value::Time("2026-01-02T03:04:05.006Z".to_owned())),
            ("is_baseline", Value::Flag(false)),
            ("streams", Value::Integer(2)),
            ("guest_cpus", Value::Integer(2)),
            ("guest_busy_percent_of_core", Value::Real(50.0)),
            ("measured_ms", Value::Real(2000.0)),
            ("block_bytes", Value::Integer(4096)),
            ("read_percent", Value::Real(50.0)),
            ("alignment_bytes", Value::Integer(4096)),
            ("queue_depth", Value::Integer(8)),
            ("disk_operations_per_second", Value::Real(1000.0)),
            ("disk_reads_per_second", Value::Real(400.0)),
            ("disk_mb_read_per_second", Value::Real(1.6384)),
            ("latency_mean_us", Value::Real(1500.0)),
        ]
    }

    fn written(values: &[(&'static str, Value)]) -> String {
        let mut out = Vec::new();
        write(&table(values), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn there_is_a_value_or_nothing_for_every_heading() {
        let written = written(&trial());
        let mut lines = written.lines().skip_while(|line| !line.starts_with("'Target Type"));
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let all: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(names.len(), all.len());
        let of = |name: &str| all[names.iter().position(|own| *own == name).unwrap()];
        assert_eq!(of("Access Specification Name"), "virtio-blk/4-kib");
        assert_eq!((of("IOps"), of("Read IOps"), of("Write IOps")), ("1000", "400", ""));
        assert_eq!((of("Read MBps (Binary)"), of("Read MBps (Decimal)")), ("1.5625", "1.6384"));
        assert_eq!((of("Read I/Os"), of("Bytes Read")), ("800", "3276800"));
        assert_eq!((of("Average Response Time"), of("Queue Depth")), ("1.5", "8"));
        assert_eq!((of("% CPU Utilization"), of("CPU Effectiveness")), ("25", "40"));
        assert!(lines.next().unwrap().starts_with("MANAGER,guest,"));
        assert!(lines.next().unwrap().starts_with("DISK,virtio-blk,"));
    }

    #[test]
    fn what_reads_such_files_finds_its_marks() {
        let written = written(&trial());
        for said in [
            "'Test Type,Test Description\n0,disk  models\n'Version\n1.1.0\n'Time Stamp\n2026-01-02 03:04:05:006\n",
            "'Access specification name,default assignment\nvirtio-blk/4-kib,NONE\n\
             'size,% of size,% reads,% random,delay,burst,align,reply\n4096,100,50,0,0,1,4096,0\n\
             'End access specifications\n'Results\n",
        ] {
            assert!(written.contains(said), "{said}is not in\n{written}");
        }
    }

    #[test]
    fn void_trials_and_other_loads_are_no_results() {
        for (name, value) in [("outcome", "void"), ("workload", "tcp-stream")] {
            let mut values = trial();
            let own = values.iter_mut().find(|(own, _)| *own == name).unwrap();
            own.1 = Value::Text(value.to_owned());
            assert_eq!(written(&values), "");
        }
    }
}
