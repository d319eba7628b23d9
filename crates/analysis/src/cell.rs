//! Gathers the trials of a cell.

mod beside_baseline;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use vioperf_model::plan::Cell;
use vioperf_model::record::{Outcome, Party, TrialRecord};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::IpVersion;
use vioperf_model::workload::{Direction, WorkloadKind};

use self::beside_baseline::{beside_baseline, more, percent};
use crate::between;
use crate::cores::{CoreReading, MachineReading};
use crate::cpu_shares;
use crate::datagrams::bytes_on_wire;
use crate::diagnose::limits::Signs;
use crate::disk;
use crate::hops;
use crate::latency::{Latency, LatencyReading, PERCENTILES, Wanted};
use crate::layers::{self, CounterTotals};
use crate::ledger;
use crate::measure::Measure;
use crate::over_time;
use crate::parties;
use crate::rate_search::{End, Goal, Proved};
use crate::rates::TrialReadings;
use crate::result::{
    BothWays, BytesPerPacket, CellAnalysis, CoreStates, CoreUse, DatagramDemand, Datagrams,
    EndFacts, LatencyAnalysis, MachineUse, Metric, Percentile, QemuUse, RateSearch,
    Retransmissions, SearchGoal, ServiceDemand, ThreadsOn, TransactionDemand, Transactions,
    TrialCounts, TrialValue,
};
use crate::statistics::{summarise, summarise_ratios};
use crate::threads::{QemuReading, Task};
use crate::time_course;
use crate::window::{Absent, Reading};

/// The trials of one cell.
#[derive(Debug, Clone, Default)]
pub struct CellTrials {
    /// What was derived of those that count, in the order of blocks once they are sorted.
    pub completed: Vec<TrialReadings>,
    /// How many came to nothing.
    pub void: u32,
    /// How many were measured again, as others used the physical cores.
    pub disturbed: u32,
    /// The transactions of all trials that count.
    latency: Latency,
    /// Counters of every layer, of all trials that count.
    counters: CounterTotals,
    /// The interfaces under test, each with the trial that it was first seen in.
    ends: Vec<(TrialOrder, EndFacts)>,
    /// What limited each trial.
    signs: Signs,
    /// Where the host's threads could run.
    threads_on: BTreeSet<ThreadsOn>,
}

/// Block and sequence: the order of trials.
type TrialOrder = (u32, u32);

impl CellTrials {
    /// Takes a trial of the cell.
    pub fn add(&mut self, trial: &TrialRecord, cell: &Cell) {
        let left_out = match trial.outcome {
            Outcome::Completed => None,
            Outcome::Disturbed => Some(&mut self.disturbed),
            Outcome::Void { .. } => Some(&mut self.void),
        };
        if let Some(count) = left_out {
            *count = count.saturating_add(1);
            return;
        }
        let workload = &cell.workload;
        let mut readings = TrialReadings::of(trial, workload);
        if let Some(rate) = cell.testbed.rate {
            readings.tell_wire_of(rate, trial, workload);
        }
        self.signs.add(trial, workload, &readings);
        self.completed.push(readings);
        if let Ok(latency) = Latency::of_trial(trial) {
            self.latency.merge(&latency);
        }
        self.counters.add(trial);
        self.threads_on.extend(parties::threads_on(trial));
        for party in &trial.parties {
            let Some(interface) = &party.interface else { continue };
            self.add_end((trial.block, trial.sequence), party, interface);
        }
    }

    /// What is told of the interface is what it was in the first trial, whatever order they come in.
    fn add_end(&mut self, order: TrialOrder, party: &Party, interface: &InterfaceFacts) {
        let same = self.ends.iter_mut().find(|(_, end)| is_same_end(end, party, interface));
        match same {
            Some((first, end)) => {
                end.trials = end.trials.saturating_add(1);
                if order < *first {
                    *first = order;
                    end.interface = interface.clone();
                }
            }
            None => self.ends.push((
                order,
                EndFacts {
                    place: party.place,
                    kernel_release: party.identity.kernel_release.clone(),
                    trials: 1,
                    interface: interface.clone(),
                    packet_filter: party.report.packet_filter.as_deref().cloned(),
                },
            )),
        }
    }

    /// Brings the trials into the order of blocks.
    pub fn sort(&mut self) {
        self.completed.sort_by_key(|readings| (readings.block, readings.sequence));
        // The order of two ends that were first seen in one trial is that of the record.
        self.ends.sort_by_key(|(first, end)| (end.place.is_far_end_of_lab(), end.place, *first));
    }

    /// Summarises one number over the trials.
    pub fn metric<'r>(&'r self, read: impl Fn(&'r TrialReadings) -> &'r Reading) -> Metric {
        self.metric_of(|readings| read(readings).clone())
    }

    /// The same for a number that is put together first.
    pub fn metric_of<'r>(&'r self, read: impl Fn(&'r TrialReadings) -> Reading) -> Metric {
        let readings = self.completed.iter().map(|r| (r.sequence, r.block, read(r)));
        metric(readings, summarise)
    }

    fn machine<'r>(&'r self, of: impl Fn(&'r TrialReadings) -> &'r MachineReading) -> MachineUse {
        self.machine_of(|readings| Some(of(readings)))
    }

    /// How busy a machine was that need not be in every trial.
    pub fn machine_of<'r>(
        &'r self,
        of: impl Fn(&'r TrialReadings) -> Option<&'r MachineReading>,
    ) -> MachineUse {
        let mut cores: BTreeMap<u32, Vec<(&TrialReadings, &CoreReading)>> = BTreeMap::new();
        for readings in &self.completed {
            for core in of(readings).iter().flat_map(|machine| machine.cores.iter().flatten()) {
                cores.entry(core.core).or_default().push((readings, core));
            }
        }
        let busy = |readings| match of(readings) {
            Some(machine) => machine.busy_percent_of_core.clone(),
            None => Err("the machine is not in the record".into()),
        };
        MachineUse {
            busy_percent_of_core: self.metric_of(busy),
            cores: cores.into_iter().map(|(number, trials)| core_use(number, &trials)).collect(),
        }
    }

    /// QEMU's threads.
    pub fn qemu(&self) -> QemuUse {
        self.qemu_of(|readings| Some(&readings.qemu))
    }

    /// The threads of a QEMU that need not be in every trial.
    pub fn qemu_of<'r>(
        &'r self,
        of: impl Fn(&'r TrialReadings) -> Option<&'r QemuReading>,
    ) -> QemuUse {
        let metric = |read: &dyn Fn(&QemuReading) -> Reading| {
            self.metric_of(|readings| match of(readings) {
                Some(qemu) => read(qemu),
                None => Err("the machine is not in the record".into()),
            })
        };
        let task = |task| metric(&|qemu| qemu.task(task));
        QemuUse {
            vcpu_percent_of_core: task(Task::Vcpu),
            main_loop_percent_of_core: task(Task::MainLoop),
            io_percent_of_core: task(Task::Io),
            vhost_percent_of_core: task(Task::Vhost),
            other_percent_of_core: task(Task::Other),
            total_percent_of_core: metric(&QemuReading::total),
            waiting_percent_of_core: metric(&|qemu| qemu.waiting_percent_of_core.clone()),
        }
    }
}

/// What a fresh guest may have otherwise without being another interface does not count.
fn is_same_end(end: &EndFacts, party: &Party, interface: &InterfaceFacts) -> bool {
    let InterfaceFacts {
        name: _,
        mac: _,
        bus_address: _,
        mtu,
        carrier,
        driver,
        driver_version,
        speed_mbit_per_s,
        full_duplex,
        queues,
        rings,
        coalescing,
        hash_entries,
        steering,
        offloads,
        absent,
    } = interface;
    let known = &end.interface;
    end.place == party.place
        && end.kernel_release == party.identity.kernel_release
        && (known.mtu, known.carrier) == (*mtu, *carrier)
        && (&known.driver, &known.driver_version) == (driver, driver_version)
        && (known.speed_mbit_per_s, known.full_duplex) == (*speed_mbit_per_s, *full_duplex)
        && (known.queues, known.rings) == (*queues, *rings)
        && known.coalescing == *coalescing
        && end.packet_filter.as_ref() == party.report.packet_filter.as_deref()
        && (&known.hash_entries, &known.steering) == (hash_entries, steering)
        && (&known.offloads, &known.absent) == (offloads, absent)
}

fn core_use(core: u32, trials: &[(&TrialReadings, &CoreReading)]) -> CoreUse {
    let busy = trials.iter().map(|(r, core)| (r.sequence, r.block, core.busy_percent.clone()));
    let mean = |state: fn(&CoreStates) -> Option<f64>| {
        let values: Vec<f64> = trials.iter().filter_map(|(_, core)| state(&core.states)).collect();
        summarise(&values).map(|summary| summary.mean)
    };
    CoreUse {
        core,
        busy_percent: metric(busy, summarise),
        mean_percent: CoreStates {
            user: mean(|states| states.user),
            system: mean(|states| states.system),
            irq: mean(|states| states.irq),
            softirq: mean(|states| states.softirq),
            steal: mean(|states| states.steal),
            guest: mean(|states| states.guest),
            idle: mean(|states| states.idle),
        },
    }
}

/// Gathers readings (sequence, block, value) to a metric.
pub fn metric(
    readings: impl Iterator<Item = (u32, u32, Reading)>,
    summarise: impl Fn(&[f64]) -> Option<crate::result::Summary>,
) -> Metric {
    let mut gathered = Metric::default();
    for (sequence, block, reading) in readings {
        match reading {
            Ok(value) if value.is_finite() => {
                gathered.values.push(TrialValue { sequence, block, value });
            }
            Ok(_) => add_reason(&mut gathered, "not a finite number".into()),
            Err(reason) => add_reason(&mut gathered, reason),
        }
    }
    let values: Vec<f64> = gathered.values.iter().map(|trial| trial.value).collect();
    gathered.summary = summarise(&values);
    if values.is_empty() && gathered.absent.is_empty() {
        gathered.absent.insert("no trial was completed".into(), 0);
    }
    gathered
}

fn add_reason(metric: &mut Metric, reason: Absent) {
    let trials = metric.absent.entry(reason.into_owned()).or_default();
    *trials = trials.saturating_add(1);
}

fn datagrams(cell: &Cell, trials: &CellTrials) -> Datagrams {
    let payload_bytes = cell.workload.payload_bytes();
    let demand = |at: usize| per_unit(at, 1e9);
    Datagrams {
        payload_bytes,
        segmentation: cell.workload.segmentation,
        received_per_second: trials.metric(|r| &r.datagrams.received_per_second),
        sent_per_second: trials.metric(|r| &r.datagrams.sent_per_second),
        lost_percent: trials.metric(|r| &r.datagrams.lost_percent),
        socket_drops: trials.metric(|r| &r.datagrams.socket_drops),
        duplicated: trials.metric(|r| &r.datagrams.duplicated),
        reordered: trials.metric(|r| &r.datagrams.reordered),
        jitter_us: trials.metric(|r| &r.datagrams.jitter_us),
        bytes_on_wire: bytes_on_wire(
            payload_bytes,
            cell.testbed.ip == IpVersion::Ipv6,
            u64::from(cell.testbed.mtu),
        )
        .filter(|_| !cell.workload.segmentation),
        percent_of_wire_rate: trials.metric(|r| &r.datagrams.percent_of_wire_rate),
        service_demand: DatagramDemand {
            host_ns: trials.metric_of(demand(0)),
            qemu_ns: trials.metric_of(demand(1)),
            guest_ns: trials.metric_of(demand(2)),
        },
    }
}

fn rate_search(cell: &Cell, trials: &CellTrials) -> RateSearch {
    let goals = Goal::all(&cell.workload.search);
    RateSearch {
        lower_bound_per_second: trials.metric(|r| &r.headline),
        percent_of_wire_rate: trials.metric(|r| &r.search_percent_of_wire_rate),
        max_rate_per_second: trials.metric(|r| &r.search_max_rate),
        goals: goals.iter().enumerate().map(|(at, goal)| search_goal(trials, at, goal)).collect(),
    }
}

fn search_goal(trials: &CellTrials, at: usize, goal: &Goal) -> SearchGoal {
    let proved = |r: &TrialReadings| -> Result<Proved, Absent> {
        let proved = r.search.as_ref().map_err(Clone::clone)?;
        Ok(*proved.get(at).ok_or("the search had no such goal")?)
    };
    let metric = |read: fn(&Proved) -> Reading| trials.metric_of(|r| read(&proved(r)?));
    let mut ends: BTreeMap<&'static str, u32> = BTreeMap::new();
    for goal in trials.completed.iter().filter_map(|readings| proved(readings).ok()) {
        *ends.entry(goal.end.name()).or_default() += 1;
    }
    SearchGoal {
        name: goal.name(),
        allowed_loss_percent: 100.0 * goal.loss_ratio,
        lower_bound_per_second: metric(Proved::lower_bound),
        upper_bound_per_second: metric(Proved::upper_bound),
        throughput_per_second: metric(Proved::throughput),
        ends,
        loss_at_min_rate_percent: metric(|proved| match proved.end {
            End::LosesAtMinRate { loss_ratio } => Ok(100.0 * loss_ratio),
            _ => Err("the path does not lose too much at the lowest rate".into()),
        }),
    }
}

fn transactions(trials: &CellTrials, baseline: Option<&CellTrials>) -> Transactions {
    let demand = |at: usize| per_unit(at, 1e6);
    Transactions {
        per_second: trials.metric(|r| &r.headline),
        timeouts: trials.metric(|r| &r.timeouts),
        latency: latency(trials, baseline),
        service_demand: TransactionDemand {
            host_us: trials.metric_of(demand(0)),
            qemu_us: trials.metric_of(demand(1)),
            guest_us: trials.metric_of(demand(2)),
        },
    }
}

/// CPU time per unit of work: the host's, QEMU's or the guest's, in parts of a second.
pub(crate) fn per_unit(at: usize, parts: f64) -> impl Fn(&TrialReadings) -> Reading {
    move |readings| readings.cpu_seconds_per_unit[at].clone().map(|seconds| seconds * parts)
}

pub(crate) fn latency(trials: &CellTrials, baseline: Option<&CellTrials>) -> LatencyAnalysis {
    let read = |from: fn(&LatencyReading) -> f64| {
        move |r: &TrialReadings| -> Reading { Ok(from(r.latency.as_ref().map_err(Clone::clone)?)) }
    };
    let percentile = |(at, wanted): (usize, &Wanted)| {
        let read = |r: &TrialReadings| -> Reading {
            r.latency.as_ref().map_err(Clone::clone)?.percentiles_us[at].clone()
        };
        Percentile {
            name: wanted.name,
            quantile: wanted.quantile,
            least_transactions: wanted.least_transactions,
            us: trials.metric_of(read),
            added_us: beside_baseline(trials, baseline, read, more, summarise),
        }
    };
    LatencyAnalysis {
        percentiles: PERCENTILES.iter().enumerate().map(percentile).collect(),
        mean_us: trials.metric_of(read(|latency| latency.mean_us)),
        added_mean_us: beside_baseline(
            trials,
            baseline,
            read(|latency| latency.mean_us),
            more,
            summarise,
        ),
        max_us: trials.metric_of(read(|latency| latency.max_us)),
        transactions: trials.latency.transactions(),
        curve: trials.latency.curve(),
    }
}

/// The models of its devices with what its guest has otherwise; of a guest elsewhere, its machine with these.
fn path_in_words(cell: &Cell) -> String {
    let of_guest = cell.guest_name().map(|guest| guest.replace('/', " "));
    let path = [Some(cell.path_name()), of_guest.map(Cow::Owned)];
    let path: Vec<Cow<'_, str>> = path.into_iter().flatten().collect();
    let path = path.join(" ");
    match cell.testbed.server.as_ref().filter(|_| cell.has_guest()) {
        Some(server) => format!("{server} ({path})"),
        None => path,
    }
}

/// Analyses one cell of the plan.
pub fn analyse_cell(
    cell: &Cell,
    planned: u32,
    trials: &CellTrials,
    baseline: Option<&CellTrials>,
) -> CellAnalysis {
    // A guest elsewhere is the server.
    let has_guest = cell.has_guest() && cell.testbed.server.is_none();
    // A baseline that was planned but never tried is none in any block.
    let none = CellTrials::default();
    let baseline = cell.baseline.as_ref().map(|_| baseline.unwrap_or(&none));
    let headline = |readings: &TrialReadings| readings.headline.clone();
    let kind = cell.workload.kind;
    let completed = u32::try_from(trials.completed.len()).unwrap_or(u32::MAX);
    let ledger = ledger::gather(trials);
    CellAnalysis {
        id: cell.id.clone(),
        path: path_in_words(cell),
        kind: cell.device_kind(),
        variant: cell.variant.clone(),
        is_baseline: cell.is_baseline(),
        switch: cell.testbed.switch,
        mtu_bytes: cell.testbed.mtu,
        ip: cell.testbed.ip,
        levels: cell.levels.clone(),
        streams: cell.workload.streams,
        direction: cell.workload.direction,
        workload: cell.workload.clone(),
        headline_metric: Measure::of(kind).metric,
        settling: None,
        trials: TrialCounts { planned, completed, void: trials.void, disturbed: trials.disturbed },
        limits: trials.signs.limits(),
        receiver_bits_per_second: trials.metric(|r| &r.receiver_bits_per_second),
        both_ways: (cell.workload.direction == Direction::Both).then(|| BothWays {
            to_guest_bits_per_second: trials.metric(|r| &r.to_guest_bits_per_second),
            from_guest_bits_per_second: trials.metric(|r| &r.from_guest_bits_per_second),
        }),
        background_bits_per_second: cell
            .workload
            .background_load()
            .map(|_| trials.metric(|r| &r.background_bits_per_second)),
        sender_bits_per_second: trials.metric(|r| &r.sender_bits_per_second),
        datagrams: kind.is_of_datagrams().then(|| datagrams(cell, trials)),
        rate_search: (kind == WorkloadKind::RateSearch).then(|| rate_search(cell, trials)),
        disk: (kind == WorkloadKind::Disk).then(|| disk::gather(trials, baseline)),
        transactions: matches!(kind, WorkloadKind::RequestResponse | WorkloadKind::ConnectRate)
            .then(|| transactions(trials, baseline)),
        between: cell.testbed.server.as_ref().map(|_| between::gather(trials)),
        tcp: (!matches!(
            kind,
            WorkloadKind::UdpStream | WorkloadKind::PacketRate | WorkloadKind::Disk
        ))
        .then(|| between::gather_tcp(trials)),
        percent_of_baseline: beside_baseline(trials, baseline, headline, percent, summarise_ratios),
        host: trials.machine(|r| &r.host),
        guest: has_guest.then(|| trials.machine(|r| &r.guest)),
        qemu: has_guest.then(|| trials.qemu()),
        other_guests: parties::gather(trials),
        cpu_shares: cpu_shares::gather(trials, has_guest),
        service_demand: ServiceDemand {
            host_us_per_kib: trials.metric(|r| &r.host_us_per_kib),
            qemu_us_per_kib: trials.metric(|r| &r.qemu_us_per_kib),
            guest_us_per_kib: trials.metric(|r| &r.guest_us_per_kib),
        },
        retransmissions: Retransmissions {
            segments: trials.metric(|r| &r.segments_retransmitted),
            per_million_segments_sent: trials.metric(|r| &r.retransmitted_per_million),
        },
        bytes_per_packet: BytesPerPacket {
            sender: trials.metric(|r| &r.sender_bytes_per_packet),
            tap: trials.metric(|r| &r.tap_bytes_per_packet),
            receiver: trials.metric(|r| &r.receiver_bytes_per_packet),
        },
        guest_ready_ms: trials.metric(|r| &r.guest_ready_ms),
        clock_error_percent_of_window: trials.metric(|r| &r.clock_error_percent_of_window),
        unexplained_host_busy_percent_of_core: trials
            .metric(|r| &r.unexplained_host_busy_percent_of_core),
        ledger: ledger.as_ref().map(|(sum, _)| sum.clone()),
        ledger_trials: ledger.map(|(_, one_by_one)| one_by_one),
        hops: hops::gather(trials, &cell.workload),
        rate_over_time: over_time::gather(trials, kind),
        courses: time_course::gather(&trials.completed),
        layers: layers::gather(trials, has_guest),
        counters: trials.counters.gather(),
        ends: trials.ends.iter().map(|(_, end)| end.clone()).collect(),
        threads_on: trials.threads_on.iter().cloned().collect(),
    }
}
