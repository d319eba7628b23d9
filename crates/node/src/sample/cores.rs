//! Time that every core spent in each state: `/proc/stat` (proc_stat(5)).

use std::path::Path;

use vioperf_model::sample::CoreTicks;

use super::ReadError;
use super::kept_file::KeptFile;

pub(super) struct Reader {
    file: KeptFile,
}

impl Reader {
    pub(super) fn open(proc: &Path) -> Result<Self, ReadError> {
        let mut reader = Self { file: KeptFile::open(&proc.join("stat"))? };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<Vec<CoreTicks>, ReadError> {
        self.file.parse(parse)
    }
}

/// Reads the `cpuN` lines. Kernels before 2.6.33 give fewer columns; ours are all newer.
fn parse(text: &str) -> Result<Vec<CoreTicks>, String> {
    let mut cores = Vec::new();
    // They come first: the sum of all (`cpu `), then one a core.
    for line in text.lines().take_while(|line| line.starts_with("cpu")).skip(1) {
        cores.push(parse_line(line).ok_or_else(|| line.to_owned())?);
    }
    if cores.is_empty() { Err("no line of a core".to_owned()) } else { Ok(cores) }
}

fn parse_line(line: &str) -> Option<CoreTicks> {
    let mut words = line.split_ascii_whitespace();
    let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let mut ticks = || words.next()?.parse().ok();
    Some(CoreTicks {
        core,
        user: ticks()?,
        nice: ticks()?,
        system: ticks()?,
        idle: ticks()?,
        iowait: ticks()?,
        irq: ticks()?,
        softirq: ticks()?,
        steal: ticks()?,
        guest: ticks()?,
        guest_nice: ticks()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_core_in_order() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n\
                    cpu2 11 12 13 14 15 16 17 18 19 20\nintr 5 cpu\nctxt 7\n";
        let cores = parse(text).unwrap();
        assert_eq!(cores.len(), 2);
        assert_eq!((cores[0].core, cores[0].user, cores[0].guest_nice), (0, 1, 10));
        assert_eq!((cores[1].core, cores[1].softirq, cores[1].steal), (2, 17, 18));
    }

    #[test]
    fn says_which_line_it_does_not_understand() {
        assert_eq!(parse("cpu 1\ncpu0 1 2 three\n").unwrap_err(), "cpu0 1 2 three");
        assert!(parse("").is_err());
    }

    #[test]
    fn reads_this_machine() {
        let mut reader = Reader::open(Path::new("/proc")).unwrap();
        assert!(!reader.read().unwrap().is_empty());
    }
}
