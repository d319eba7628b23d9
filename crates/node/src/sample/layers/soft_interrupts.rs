//! Soft interrupts of the network on each core: `/proc/softirqs` (proc(5)).

use std::path::Path;

use vioperf_model::sample::SoftInterrupts;

use super::{ReadError, parsed};

pub(super) fn read(proc: &Path) -> Result<Vec<SoftInterrupts>, ReadError> {
    parsed(&proc.join("softirqs"), parse)
}

/// The first line names the cores, every other one a kind and its count on each.
fn parse(text: &str) -> Result<Vec<SoftInterrupts>, String> {
    let counts = |kind: &str| -> Result<Vec<u64>, String> {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(kind));
        let line = line.ok_or_else(|| format!("no line {kind}"))?;
        let counts = line.split_ascii_whitespace().map(str::parse);
        counts.collect::<Result<_, _>>().map_err(|_| line.to_owned())
    };
    let heading = text.lines().next().unwrap_or_default();
    let cores = heading
        .split_ascii_whitespace()
        .map(|name| name.strip_prefix("CPU").and_then(|number| number.parse().ok()));
    let cores: Vec<u32> = cores.collect::<Option<_>>().ok_or_else(|| heading.to_owned())?;
    let (receiving, sending) = (counts("NET_RX:")?, counts("NET_TX:")?);
    let of_both = receiving.into_iter().zip(sending);
    Ok(cores
        .into_iter()
        .zip(of_both)
        .map(|(core, (net_rx, net_tx))| SoftInterrupts { core, net_rx, net_tx })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_kinds_of_every_core() {
        let text =
            "          CPU0 CPU2\n TIMER: 1 2\n NET_TX: 3 4\n NET_RX: 5 18446744073709551615\n";
        let cores = parse(text).unwrap();
        assert_eq!(cores[0], SoftInterrupts { core: 0, net_rx: 5, net_tx: 3 });
        assert_eq!(cores[1], SoftInterrupts { core: 2, net_rx: u64::MAX, net_tx: 4 });
    }

    #[test]
    fn says_what_it_does_not_understand() {
        assert!(parse("CPU0\nNET_RX: 1\n").unwrap_err().contains("NET_TX"));
        assert!(parse("CPU0\nNET_RX: x\nNET_TX: 1\n").unwrap_err().contains('x'));
        assert!(parse("core\nNET_RX: 1\nNET_TX: 1\n").is_err());
    }
}
