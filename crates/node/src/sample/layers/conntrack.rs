//! Connection tracking of the network namespace: `nf_conntrack_count`
//! (Documentation/networking/nf_conntrack-sysctl.rst) and `/proc/net/stat/nf_conntrack`
//! (net/netfilter/nf_conntrack_standalone.c).

use std::path::Path;

use vioperf_model::sample::ConntrackCounters;

use super::{ReadError, parsed};

pub(super) fn read(proc: &Path) -> Result<ConntrackCounters, ReadError> {
    let entries = parsed(&proc.join("sys/net/netfilter/nf_conntrack_count"), |text| {
        text.trim().parse().map_err(|_| text.to_owned())
    })?;
    // Of the whole machine, and not there in every namespace of an older kernel.
    let most = parsed(&proc.join("sys/net/netfilter/nf_conntrack_max"), |text| {
        text.trim().parse().map_err(|_| text.to_owned())
    });
    let counters = parsed(&proc.join("thread-self/net/stat/nf_conntrack"), parse)?;
    Ok(ConntrackCounters { entries, most_entries: most.ok(), ..counters })
}

/// A line of names, then one of hexadecimal values for each core.
fn parse(text: &str) -> Result<ConntrackCounters, String> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split_ascii_whitespace().collect()).collect();
    let sum = |wanted: &str| -> Result<u64, String> {
        let at = names.iter().position(|name| *name == wanted);
        let at = at.ok_or_else(|| format!("no column {wanted}"))?;
        let values = lines.iter().map(|line| {
            line.get(at)
                .and_then(|word| u64::from_str_radix(word, 16).ok())
                .ok_or_else(|| format!("{wanted}: {}", line.join(" ")))
        });
        values.sum()
    };
    Ok(ConntrackCounters {
        entries: 0,
        most_entries: None,
        invalid: sum("invalid")?,
        insert_failed: sum("insert_failed")?,
        dropped: sum("drop")?,
        early_dropped: sum("early_drop")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "entries clashres found new invalid ignore delete insert_failed drop early_drop\n\
                        0000000c 00000000 00000001 0 0000000a 0 0 00000001 00000002 00000003\n\
                        0000000c 00000000 00000001 0 00000001 0 0 00000001 00000002 00000003\n";

    #[test]
    fn adds_up_the_cores() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert!(read(proc).is_err());
        let count = proc.join("sys/net/netfilter");
        let stat = proc.join("thread-self/net/stat");
        std::fs::create_dir_all(&count).unwrap();
        std::fs::create_dir_all(&stat).unwrap();
        std::fs::write(count.join("nf_conntrack_count"), "12\n").unwrap();
        std::fs::write(stat.join("nf_conntrack"), STAT).unwrap();
        assert_eq!(read(proc).unwrap().most_entries, None);
        std::fs::write(count.join("nf_conntrack_max"), "262144\n").unwrap();
        let expected = ConntrackCounters {
            entries: 12,
            most_entries: Some(262_144),
            invalid: 11,
            insert_failed: 2,
            dropped: 4,
            early_dropped: 6,
        };
        assert_eq!(read(proc).unwrap(), expected);
    }

    #[test]
    fn says_what_it_does_not_understand() {
        assert!(parse("entries\n1\n").unwrap_err().contains("invalid"));
        assert!(parse("invalid insert_failed drop early_drop\n1 2\n").is_err());
        assert!(parse("invalid insert_failed drop early_drop\nx 2 3 4\n").is_err());
    }
}
