//! The end of a file of records that was cut off in the middle of one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use vioperf_model::record::TrialRecord;

/// What was done to the end of a file of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The last record was whole but for the end of its line.
    LineEnded,
    /// The last record was cut off, and its trial is lost.
    CutOff {
        /// What was there of it, in bytes.
        bytes: u64,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineEnded => write!(f, "the last record lacked only the end of its line"),
            Self::CutOff { bytes } => {
                write!(f, "the last record was cut off ({bytes} bytes): its trial is measured anew")
            }
        }
    }
}

/// Looks for the end of the last whole line from behind, so many bytes at a time.
const STEP_BYTES: u64 = 1 << 16;

/// Ends the last line of `trials`: completes it where its record is whole, else takes it away.
/// `trials` is open for reading and for appending.
pub fn repair_end(mut trials: &File) -> io::Result<Option<Repair>> {
    let length = trials.metadata()?.len();
    let whole = whole_lines(trials, length)?;
    if whole == length {
        return Ok(None);
    }
    trials.seek(SeekFrom::Start(whole))?;
    let mut last = Vec::new();
    trials.take(super::MAX_RECORD_BYTES).read_to_end(&mut last)?;
    let repair = if serde_json::from_slice::<TrialRecord>(&last).is_ok() {
        trials.write_all(b"\n")?;
        Repair::LineEnded
    } else {
        trials.set_len(whole)?;
        Repair::CutOff { bytes: length - whole }
    };
    trials.sync_data()?;
    Ok(Some(repair))
}

/// How many bytes are lines with an end.
fn whole_lines(mut trials: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP_BYTES);
        let mut piece = Vec::new();
        trials.seek(SeekFrom::Start(start))?;
        trials.take(end - start).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn the_end_is_repaired_wherever_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.jsonl");
        let lines: Vec<Vec<u8>> = Synthetic::tcg().trials[..3]
            .iter()
            .map(|trial| [serde_json::to_vec(trial).unwrap(), vec![b'\n']].concat())
            .collect();
        let before = lines[0].len() + lines[1].len();
        let whole = lines.concat();
        let cuts = [0, 1, lines[0].len() - 1, lines[0].len(), before, before + 1, before + 70_000];
        for length in cuts.into_iter().chain([whole.len() - 2, whole.len() - 1, whole.len()]) {
            let length = length.min(whole.len());
            fs::write(&path, &whole[..length]).unwrap();
            let file = OpenOptions::new().append(true).read(true).open(&path).unwrap();
            let repair = repair_end(&file).unwrap();
            let now = fs::read(&path).unwrap();
            assert!(whole.starts_with(&now) && (now.is_empty() || now.ends_with(b"\n")));
            let expected = match now.len() as i64 - length as i64 {
                0 => None,
                1 => Some(Repair::LineEnded),
                less => Some(Repair::CutOff { bytes: less.unsigned_abs() }),
            };
            assert_eq!(repair, expected, "cut at {length}");
            assert_eq!(repair_end(&file).unwrap(), None, "once is enough");
        }
        // A disk that lost power leaves zeros.
        fs::write(&path, [&lines[0][..], &[0; 5000]].concat()).unwrap();
        let file = OpenOptions::new().append(true).read(true).open(&path).unwrap();
        assert_eq!(repair_end(&file).unwrap(), Some(Repair::CutOff { bytes: 5000 }));
        assert_eq!(fs::read(&path).unwrap(), lines[0]);
    }
}
