//! What each block device of the machine did: `/proc/diskstats` (proc_diskstats(5),
//! Documentation/admin-guide/iostats.rst).

use std::collections::BTreeMap;
use std::path::Path;

use vioperf_model::sample::BlockDeviceCounters;

use super::{ReadError, parsed};

/// The kernel counts in sectors of so many bytes, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

pub(super) fn read(proc: &Path) -> Result<BTreeMap<String, BlockDeviceCounters>, ReadError> {
    parsed(&proc.join("diskstats"), parse)
}

/// A line a device or partition; those that never did anything are left out.
fn parse(text: &str) -> Result<BTreeMap<String, BlockDeviceCounters>, String> {
    let lines = text.lines().map(|line| device(line).ok_or_else(|| line.to_owned()));
    let all = lines.collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(all.into_iter().filter(|(_, device)| device.reads + device.writes > 0).collect())
}

fn device(line: &str) -> Option<(String, BlockDeviceCounters)> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?.to_owned();
    // Later kernels have more numbers at the end.
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [reads, _, sectors_read, _, writes, _, sectors_written, _, _, busy_ms, in_flight_ms, ..] =
        *numbers.as_slice()
    else {
        return None;
    };
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    let counters = BlockDeviceCounters {
        reads,
        writes,
        bytes_read: bytes(sectors_read),
        bytes_written: bytes(sectors_written),
        busy_ms,
        in_flight_ms,
    };
    Some((name, counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_devices_that_did_something() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
                    254       0 vda 10 1 80 5 20 2 400 7 0 12 34 0 0 0 0 3 4\n\
                    254       1 vda1 1 0 8 5 0 0 0 0 0 12 34\n";
        let found = parse(text).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["vda", "vda1"]);
        let expected = BlockDeviceCounters {
            reads: 10,
            writes: 20,
            bytes_read: 40_960,
            bytes_written: 204_800,
            busy_ms: 12,
            in_flight_ms: 34,
        };
        assert_eq!(found["vda"], expected);
        assert!(parse("").unwrap().is_empty());
        let error = parse("254 0 vda 10 1 80\n").unwrap_err();
        assert!(error.contains("vda"), "{error}");
    }
}
