//! From what an IOmeter file says to a scenario that measures it: a part for each specification.

use std::fmt::Write as _;

use super::{AccessLine, AccessSpecification, Icf, QueueDepths, Worker};
use crate::units::{ByteSize, TimeSpan};
use crate::workload::SECTOR_BYTES;

/// What a file says, in the words of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The scenario's text.
    pub toml: String,
    /// What the file says and the scenario does not, a sentence each.
    pub left_out: Vec<String>,
}

/// How long a test lasts that would last until somebody stops it.
const UNTIL_STOPPED: TimeSpan = TimeSpan::from_millis(10_000);
/// The most depths that a walk has.
const MOST_DEPTHS: usize = 16;

impl Icf {
    /// The scenario of that name, for guests with these disk models. Specifications that no worker has are left
    /// out, unless no worker has any.
    #[must_use]
    pub fn scenario(&self, name: &str, disks: &[&str]) -> Told {
        let mut left_out = Vec::new();
        let specifications = self.specifications_used(&mut left_out);
        let mut toml = String::new();
        let mut line = |text: String| toml.push_str(&(text + "\n"));
        line(format!("name = {}", quoted(name)));
        let description = match self.description.as_str() {
            "" => "What do the operations of an IOmeter file cost on each virtual disk?",
            told => told,
        };
        line(format!("question = {}", quoted(description)));
        line("\n[workload]\nkind = \"disk\"".to_owned());
        for key in self.common_keys(&mut left_out) {
            line(key);
        }
        if let [specification] = specifications[..] {
            operations(specification, "workload", &mut left_out).into_iter().for_each(&mut line);
        }
        let disks: Vec<String> = disks.iter().map(|disk| quoted(disk)).collect();
        line(format!("\n[factors]\ndisk = [{}]", disks.join(", ")));
        if let Some(depths) = self.queue_depths {
            let depths: Vec<String> = walk(depths).iter().map(ToString::to_string).collect();
            line(format!("queue_depth = [{}]", depths.join(", ")));
        }
        if specifications.len() > 1 {
            let names = part_names(&specifications);
            for (specification, name) in specifications.iter().zip(names) {
                line(format!("\n[[parts]]\nname = {}", quoted(&name)));
                line(format!("question = {}", quoted(&specification.name)));
                line("[parts.workload]".to_owned());
                let keys = operations(specification, "parts.workload", &mut left_out);
                keys.into_iter().for_each(&mut line);
            }
        }
        Told { toml, left_out }
    }

    fn specifications_used(&self, left_out: &mut Vec<String>) -> Vec<&AccessSpecification> {
        let is_assigned = |own: &&AccessSpecification| {
            self.workers.iter().any(|worker| worker.assigned.contains(&own.name))
        };
        let used: Vec<_> = self.specifications.iter().filter(is_assigned).collect();
        if used.is_empty() {
            return self.specifications.iter().collect();
        }
        for own in self.specifications.iter().filter(|own| !is_assigned(own)) {
            left_out.push(format!("No worker has the specification `{}`.", own.name));
        }
        used
    }

    /// What all specifications have in common: time, workers, queue depth, reach.
    fn common_keys(&self, left_out: &mut Vec<String>) -> Vec<String> {
        let seconds = |seconds: u64| TimeSpan::from_millis(seconds.saturating_mul(1000));
        let duration = match self.run_seconds {
            0 => UNTIL_STOPPED,
            known => seconds(known),
        };
        let mut keys = vec![format!("duration = \"{duration}\"")];
        if self.ramp_up_seconds > 0 {
            keys.push(format!("warmup = \"{}\"", seconds(self.ramp_up_seconds)));
        }
        let Some(first) = self.workers.first() else { return keys };
        let like_first = |own: &&Worker| {
            (own.queue_depth, own.most_sectors, &own.assigned)
                == (first.queue_depth, first.most_sectors, &first.assigned)
        };
        for other in self.workers.iter().filter(|own| !like_first(own)) {
            left_out.push(format!(
                "The worker `{}` has other settings than `{}`: it does as that one does.",
                other.name, first.name
            ));
        }
        keys.push(format!("streams = {}", self.workers.len()));
        let depth = first.queue_depth.filter(|_| self.queue_depths.is_none());
        keys.extend(depth.map(|depth| format!("queue_depth = {depth}")));
        if first.most_sectors > 0 {
            let reach = first.most_sectors.saturating_mul(SECTOR_BYTES);
            keys.push(format!("file_size = \"{}\"", ByteSize::from_bytes(reach)));
        }
        keys
    }
}

/// The keys of a specification's operations.
fn operations(
    specification: &AccessSpecification,
    table: &str,
    left_out: &mut Vec<String>,
) -> Vec<String> {
    if specification.lines.iter().any(|line| line.reply_bytes > 0) {
        left_out.push(format!(
            "`{}` has replies, which are of IOmeter's network tests.",
            specification.name
        ));
    }
    let pauses = |line: &AccessLine| (line.delay_ms, line.burst);
    let first = specification.lines.first();
    if let [line] = specification.lines[..] {
        return [keys(&line), pause_keys(&line)].concat();
    }
    let is_alike = specification.lines.windows(2).all(|two| pauses(&two[0]) == pauses(&two[1]));
    if !is_alike {
        left_out.push(format!(
            "The kinds of operations of `{}` pause differently: here none of them does.",
            specification.name
        ));
    }
    let mut all = first.filter(|_| is_alike).map_or_else(Vec::new, pause_keys);
    for line in &specification.lines {
        all.push(format!("\n[[{table}.mix]]\nshare = \"{} %\"", line.share_percent));
        all.extend(keys(line));
    }
    all
}

fn keys(line: &AccessLine) -> Vec<String> {
    let size = |bytes: u64| ByteSize::from_bytes(bytes);
    let alignment = if line.alignment_bytes == 0 { SECTOR_BYTES } else { line.alignment_bytes };
    let mut keys = vec![
        format!("block_size = \"{}\"", size(line.size_bytes)),
        format!("read_share = \"{} %\"", line.read_percent),
        format!("random_share = \"{} %\"", line.random_percent),
    ];
    if alignment != line.size_bytes {
        keys.push(format!("alignment = \"{}\"", size(alignment)));
    }
    keys
}

fn pause_keys(line: &AccessLine) -> Vec<String> {
    if line.delay_ms == 0 {
        return Vec::new();
    }
    let delay = TimeSpan::from_millis(line.delay_ms);
    vec![format!("delay = \"{delay}\""), format!("burst = {}", line.burst)]
}

fn walk(depths: QueueDepths) -> Vec<u16> {
    let next = |depth: &u16| match depths.is_exponential {
        true => depth.checked_mul(depths.step.max(2)),
        false => depth.checked_add(depths.step),
    };
    std::iter::successors(Some(depths.first), next)
        .take_while(|depth| *depth <= depths.last.max(depths.first))
        .take(MOST_DEPTHS)
        .collect()
}

/// Names of parts, each of its own.
fn part_names(specifications: &[&AccessSpecification]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for specification in specifications {
        let mut name: String = plain_name(&specification.name).chars().take(32).collect();
        if name.is_empty() || names.contains(&name) {
            // Its number, as names of parts are their directories'.
            let _ = write!(name, "{}{}", if name.is_empty() { "" } else { "-" }, names.len() + 1);
        }
        names.push(name);
    }
    names
}

/// What a scenario or a part can be called after any text: letters, digits and dashes; nothing where it has none.
#[must_use]
pub fn plain_name(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
