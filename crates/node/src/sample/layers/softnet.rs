//! What each core did for packets: `/proc/net/softnet_stat` (`softnet_seq_show`,
//! net/core/net-procfs.c): hexadecimal columns without names, of which newer kernels have more.

use std::path::Path;

use vioperf_model::sample::SoftnetCore;

use super::{ReadError, parsed};

pub(super) fn read(proc: &Path) -> Result<Vec<SoftnetCore>, ReadError> {
    parsed(&proc.join("thread-self/net/softnet_stat"), parse)
}

fn parse(text: &str) -> Result<Vec<SoftnetCore>, String> {
    let lines = text.lines().enumerate();
    let cores: Option<Vec<_>> = lines.map(|(at, line)| parse_line(at, line)).collect();
    match cores {
        Some(cores) if !cores.is_empty() => Ok(cores),
        _ => Err(text.lines().next().unwrap_or("empty").to_owned()),
    }
}

/// Columns 3 to 8 are always 0. Before Linux 5.10 the lines are those of the cores that are online,
/// in their order, and do not say which.
fn parse_line(at: usize, line: &str) -> Option<SoftnetCore> {
    let words = line.split_ascii_whitespace();
    let columns: Vec<u32> =
        words.map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
    let column = |at: usize| columns.get(at).copied();
    Some(SoftnetCore {
        core: column(12).or_else(|| u32::try_from(at).ok())?,
        processed: column(0)?,
        dropped: column(1)?,
        time_squeeze: column(2)?,
        received_rps: column(9)?,
        flow_limit: column(10)?,
        backlog: column(11),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_columns_of_new_and_old_kernels() {
        let new =
            "11d4f250 00000007 00000403 0 0 0 0 0 0 0000000a 0000000b 0000000c 00000003 0 0\n";
        let core = SoftnetCore {
            core: 3,
            processed: 0x11d4_f250,
            dropped: 7,
            time_squeeze: 0x403,
            received_rps: 10,
            flow_limit: 11,
            backlog: Some(12),
        };
        assert_eq!(parse(new).unwrap(), [core]);
        let old = "1 2 3 0 0 0 0 0 0 4 5\nffffffff 2 3 0 0 0 0 0 0 4 5\n";
        let cores = parse(old).unwrap();
        assert_eq!((cores[1].core, cores[1].processed, cores[1].backlog), (1, u32::MAX, None));
    }

    #[test]
    fn hostile_text_is_no_counter() {
        for text in ["", "1 2 3\n", "x y z 0 0 0 0 0 0 1 2\n", "100000000 2 3 0 0 0 0 0 0 4 5\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
