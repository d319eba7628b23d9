//! From text to what it says.

use super::{AccessLine, AccessSpecification, Icf, IcfError, MAX_FILE_BYTES, QueueDepths, Worker};

/// The most specifications, workers, and lines of a specification that are taken: IOmeter's own limit of lines is 100.
const MOST: usize = 1000;
/// The longest name of anything.
const LONGEST_NAME: usize = 200;

/// Where the next lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Other,
    TestSetup,
    Specifications,
    Managers,
}

struct Reader {
    icf: Icf,
    section: Section,
    /// The comment above, in lower case and without its mark.
    key: String,
    line: usize,
    /// The worker that is read; none where it is no worker of disks.
    worker: Option<Worker>,
    cycles_depths: bool,
    depths: Option<QueueDepths>,
}

impl Icf {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`IcfError`], with the line that says what cannot be.
    pub fn parse(text: &str) -> Result<Self, IcfError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(IcfError::TooLong);
        }
        let mut reader = Reader {
            icf: Self::default(),
            section: Section::Other,
            key: String::new(),
            line: 0,
            worker: None,
            cycles_depths: false,
            depths: None,
        };
        for line in text.lines() {
            reader.line += 1;
            match line.strip_prefix('\'') {
                Some(comment) => reader.comment(comment),
                None if line.trim().is_empty() => {}
                None => reader.value(line.trim())?,
            }
        }
        let Reader { mut icf, worker, cycles_depths, depths, .. } = reader;
        icf.workers.extend(worker);
        icf.queue_depths = depths.filter(|_| cycles_depths);
        icf.specifications.retain(|specification| !specification.lines.is_empty());
        if icf.specifications.is_empty() {
            return Err(IcfError::NoSpecification);
        }
        Ok(icf)
    }
}

impl Reader {
    fn comment(&mut self, comment: &str) {
        // What begins with a blank is a heading of columns: the key stands above it.
        if comment.starts_with(char::is_whitespace) {
            return;
        }
        let key = comment.trim_end_matches(['=', ' ', '\t', '\r']).to_ascii_lowercase();
        match key.as_str() {
            "test setup" => self.section = Section::TestSetup,
            "access specifications" => self.section = Section::Specifications,
            "manager list" => self.section = Section::Managers,
            "results display"
            | "end test setup"
            | "end access specifications"
            | "end manager list" => self.section = Section::Other,
            _ => {}
        }
        self.key = key;
    }

    fn value(&mut self, value: &str) -> Result<(), IcfError> {
        match self.section {
            Section::TestSetup => self.of_setup(value),
            Section::Specifications => self.of_specification(value),
            Section::Managers => self.of_manager(value),
            Section::Other => Ok(()),
        }
    }

    fn of_setup(&mut self, value: &str) -> Result<(), IcfError> {
        match self.key.as_str() {
            "test description" => self.icf.description = self.name(value)?,
            "run time" => {
                let [hours, minutes, seconds] =
                    self.numbers(value, "hours, minutes and seconds")?;
                let all = hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60));
                self.icf.run_seconds = all.saturating_add(seconds);
            }
            "ramp up time (s)" => {
                [self.icf.ramp_up_seconds] = self.numbers(value, "a number of seconds")?;
            }
            "queue depth cycling" => {
                let expected = "first, last and step of the queue depth";
                let [first, last, step] = self.numbers(value, expected)?;
                let small = |number: u64| u16::try_from(number).unwrap_or(u16::MAX).max(1);
                let [first, last, step] = [first, last, step].map(small);
                let is_exponential = value.to_ascii_uppercase().contains("EXPONENTIAL");
                self.depths = Some(QueueDepths { first, last, step, is_exponential });
            }
            "test type" => self.cycles_depths = value.starts_with("CYCLE_OUTSTANDING_IOS"),
            _ => {}
        }
        Ok(())
    }

    fn of_specification(&mut self, value: &str) -> Result<(), IcfError> {
        if self.key.starts_with("access specification name") {
            let (name, _) = value.rsplit_once(',').unwrap_or((value, ""));
            let name = self.name(name)?;
            self.at_most_more(self.icf.specifications.len(), "access specifications")?;
            // A name that comes again is given anew.
            self.icf.specifications.retain(|known| known.name != name);
            self.icf.specifications.push(AccessSpecification { name, lines: Vec::new() });
        } else if self.key.starts_with("size,") {
            let line = self.access_line(value)?;
            let Some(own) = self.icf.specifications.last_mut() else {
                return Err(self.wrong("operations before the name of their specification"));
            };
            let count = own.lines.len();
            own.lines.push(line);
            self.at_most_more(count, "lines of a specification")?;
        }
        Ok(())
    }

    fn access_line(&self, value: &str) -> Result<AccessLine, IcfError> {
        let expected = "size, % of size, % reads, % random, delay, burst, align and reply";
        let [size, share, reads, random, delay, burst, alignment, reply] =
            self.numbers(value, expected)?;
        let percent = |number: u64, what: &str| match u8::try_from(number) {
            Ok(percent @ 0..=100) => Ok(percent),
            _ => Err(self.wrong(&format!("{number} % of {what}: 100 is the most"))),
        };
        if size == 0 {
            return Err(self.wrong("operations of 0 bytes"));
        }
        Ok(AccessLine {
            size_bytes: size,
            share_percent: percent(share, "operations of that size")?,
            read_percent: percent(reads, "reads")?,
            random_percent: percent(random, "random places")?,
            delay_ms: delay,
            burst: u16::try_from(burst).unwrap_or(u16::MAX).max(1),
            alignment_bytes: alignment,
            reply_bytes: reply,
        })
    }

    fn of_manager(&mut self, value: &str) -> Result<(), IcfError> {
        match self.key.as_str() {
            "worker" => {
                let name = self.name(value)?;
                self.at_most_more(self.icf.workers.len(), "workers")?;
                let next = Worker { name, ..Worker::default() };
                self.icf.workers.extend(self.worker.replace(next));
            }
            "worker type" if !value.eq_ignore_ascii_case("disk") => self.worker = None,
            "assigned access specs" => {
                let name = self.name(value)?;
                let count = self.worker.as_ref().map_or(0, |worker| worker.assigned.len());
                self.at_most_more(count, "specifications of a worker")?;
                self.of_worker(|worker| worker.assigned.push(name));
            }
            key if key.starts_with("number of outstanding ios") => {
                let [depth] = self.numbers(value, "a number of operations")?;
                let depth = u16::try_from(depth).ok().filter(|depth| *depth > 0);
                self.of_worker(|worker| worker.queue_depth = depth);
            }
            key if key.starts_with("disk maximum size") => {
                let [sectors] = self.numbers(value, "a number of sectors")?;
                self.of_worker(|worker| worker.most_sectors = sectors);
            }
            _ => {}
        }
        Ok(())
    }

    fn of_worker(&mut self, change: impl FnOnce(&mut Worker)) {
        if let Some(worker) = &mut self.worker {
            change(worker);
        }
    }

    /// The numbers that a value begins with.
    fn numbers<const COUNT: usize>(
        &self,
        value: &str,
        expected: &str,
    ) -> Result<[u64; COUNT], IcfError> {
        let mut words = value.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            let word = words.next().unwrap_or_default();
            *number = word.parse().map_err(|_| {
                let shown: String = value.chars().take(80).collect();
                self.wrong(&format!("`{shown}` is not {expected}"))
            })?;
        }
        Ok(numbers)
    }

    fn name(&self, value: &str) -> Result<String, IcfError> {
        let name = value.trim();
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(self.wrong("a name that is too long, or has control characters"));
        }
        Ok(name.to_owned())
    }

    fn at_most_more(&self, count: usize, what: &str) -> Result<(), IcfError> {
        match count < MOST {
            true => Ok(()),
            false => Err(self.wrong(&format!("more than {MOST} {what}"))),
        }
    }

    fn wrong(&self, what: &str) -> IcfError {
        IcfError::Line { line: self.line, what: what.to_owned() }
    }
}
