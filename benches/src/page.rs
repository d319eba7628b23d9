//! The page: what was compared, on what, how, and what came out.

mod tables;
mod wording;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::contests::Contest;
use crate::machine::{CoreTime, Machine, load_average};
use crate::rounds::Contender;
use crate::sampling::{BAR_PERCENT, Cost, NAME};
use crate::statistics::{median, spread};
use crate::tools::Tools;

const HEAD: &str = "\
# Benchmarks

vioperf and its peers side by side: `make bench` made this page. Every number on it was measured in that one run.

- **The path** is a veth pair between two network namespaces of one machine, as the kernel makes it: offloads on, MTU
  1500. Client and server share the machine's cores, so a tool that spends less on sending has more left for receiving.
- **A heat, then a final.** Every tool runs once in every mode, for a second. The best peers and vioperf's best modes go
  into the final: rounds in which each runs once, in an order that changes from round to round. Only the final counts.
- **Ratios** are of medians: vioperf's best mode by the best peer's best mode. The interval holds 95 % of the ratios that
  come out when rounds are drawn with replacement.
- **Throughput and rates** are the receiver's. **CPU s/GB** is user and system time of both ends' processes from their
  start to their end (wait4(2)) by the bytes received; **busy s/GB** is the time that all cores were not idle meanwhile
  (`/proc/stat`): what the kernel did on its own threads is in it, and so is whatever else ran.
- **Joined** datagrams pass the stack many as one (`UDP_SEGMENT` and `UDP_GRO`): they are datagrams, not packets.
- **Resident** is the larger peak of both ends (`VmHWM`).
";

/// The page, written anew after every contest: a bench that is ended loses nothing it had finished.
pub struct Page {
    out: PathBuf,
    head: String,
    /// Rows of the first table.
    verdicts: String,
    /// Every contest with its numbers.
    contests: String,
    /// Largest resident memory of vioperf in any run, in bytes.
    resident: u64,
    began: CoreTime,
}

impl Page {
    pub fn begin(arguments: &Arguments, tools: &Tools) -> Result<Self> {
        let machine = Machine::look();
        let mut head = String::from(HEAD);
        head += &format!(
            "\n## Where and with what\n\n\
             {}, {} cores, {:.1} GiB; {}; Linux {}. Load average at the start {}. {}, {} rounds of {} s.\n\n\
             Tools: {}.\n",
            machine.cpu_model,
            machine.cores,
            machine.memory_gib,
            machine.system,
            machine.kernel,
            load_average(),
            wording::today(),
            arguments.runs,
            arguments.seconds,
            tools.names().join(", "),
        );
        if arguments.runs < 7 {
            head += "\n**Fewer than 7 rounds: a trial of the bench, not a result.**\n";
        }
        let page = Self {
            out: arguments.out.clone(),
            head,
            verdicts: String::new(),
            contests: String::new(),
            resident: 0,
            began: CoreTime::now(),
        };
        page.write()?;
        Ok(page)
    }

    pub fn add_contest(&mut self, contest: &Contest, contenders: &[Contender]) -> Result<()> {
        self.verdicts += &tables::verdicts(contest, contenders);
        self.contests += &tables::contest(contest, contenders);
        let ours = contenders.iter().filter(|contender| contender.entry.ours);
        let runs = ours.flat_map(|contender| contender.heat.iter().chain(&contender.finals));
        self.resident =
            runs.map(|run| run.resident_peak_bytes).chain([self.resident]).max().unwrap_or(0);
        self.write()
    }

    pub fn add_sampling(&mut self, cost: &Cost) -> Result<()> {
        let value = median(&cost.percents).unwrap_or(f64::NAN);
        let (low, high) = spread(&cost.percents).unwrap_or((f64::NAN, f64::NAN));
        self.verdicts += &format!(
            "| A second of sampling, % of a core | at most {BAR_PERCENT} | {value:.3} ({low:.3} to {high:.3}) | | {} |\n",
            wording::met(value <= BAR_PERCENT)
        );
        self.contests += &format!(
            "\n### `{NAME}`: what it costs to sample a machine\n\n\
             `vioperf node` that only observes, {:.1} samples a second: {value:.3} % of a core (median of {} runs, \
             {low:.3} to {high:.3}).\n",
            cost.samples_per_second,
            cost.percents.len(),
        );
        self.write()
    }

    /// Adds what is known at the end only.
    pub fn end(mut self) -> Result<()> {
        if self.resident > 0 {
            self.verdicts += &tables::resident(self.resident);
        }
        let whole = CoreTime::now().since(self.began);
        self.head += &format!(
            "\nWhile it ran the hypervisor gave {:.1} % of the cores' time to others (steal); load average at the end {}.\n",
            whole.stolen / whole.whole.max(0.01) * 100.0,
            load_average()
        );
        self.write()?;
        eprintln!("bench: wrote {}", self.out.display());
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let mut text = self.head.clone();
        if !self.verdicts.is_empty() {
            text += "\n## Bars\n\n\
                     | contest | bar | vioperf by the best peer | who | |\n\
                     | --- | --- | --- | --- | --- |\n";
            text += &self.verdicts;
            text += "\n## Every contest\n";
            text += &self.contests;
        }
        fs::write(&self.out, text).with_context(|| format!("cannot write {}", self.out.display()))
    }
}
