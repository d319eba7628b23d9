//! Where the datagrams of a load went.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Metric;

/// What became of every datagram of a load, from its first to its last, warm-up included:
/// `sent` = `received` + what was lost at each place + `unaccounted`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ledger {
    /// Trials that it is of, added up.
    pub trials: u32,
    /// That the sender's kernel took from the application.
    pub sent: u64,
    /// That the receiving application was given, duplicates not counted.
    pub received: u64,
    /// That it was given again.
    pub duplicated: u64,
    /// Sent, but never received.
    pub lost: u64,
    /// That were due by the load's rate, but never sent: they are not among `sent`.
    pub not_sent: u64,
    /// Where they were lost, in the order of the path; places where none were are left out.
    pub losses: Vec<Loss>,
    /// Lost, and no counter tells where. Below zero where counters tell of more than was lost: one
    /// loss was counted twice, or packets of somebody else were.
    pub unaccounted: i64,
    /// Of all this, what the responses have part in, where the load is one of requests and responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<Box<Ledger>>,
}

/// The ledgers of a cell's trials, one by one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LedgerTrials {
    /// Datagrams sent, in a trial.
    pub sent: Metric,
    /// Lost.
    pub lost: Metric,
    /// Lost at each place; those are left out where no trial lost any.
    pub places: BTreeMap<LossPlace, Metric>,
    /// Unaccounted.
    pub unaccounted: Metric,
}

/// Datagrams that were lost at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Loss {
    /// The place.
    pub place: LossPlace,
    /// So many.
    pub datagrams: u64,
    /// Of them, those that a counter of drops tells of. The rest is the difference between what came
    /// to the place and what left it.
    pub counted: u64,
}

/// Where a datagram can be lost, in the order of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossPlace {
    /// The kernel took it from the sender, but never gave it to an interface.
    SenderSocket,
    /// A queueing discipline of the sender's interface.
    SenderQdisc,
    /// The sender's interface.
    SenderInterface,
    /// On its way out of the guest: the emulated card, QEMU or vhost, or the tap.
    GuestOutput,
    /// The backlog of one of the host's cores, on the way between two namespaces.
    HostBacklog,
    /// The switch: what its rules, or a packet filter in it, drop.
    Switch,
    /// A queueing discipline of the switch's port towards the receiver.
    PortQdisc,
    /// The switch's port towards the receiver.
    Port,
    /// The queue of the guest's tap, as it was read too slowly.
    TapQueue,
    /// The network between two machines.
    Network,
    /// The receiver's interface: its ring was full, or the emulated card lost it.
    ReceiverInterface,
    /// The backlog of one of the receiver's cores.
    ReceiverBacklog,
    /// The receiver's connection tracking, full or short of memory.
    Conntrack,
    /// The receiver's packet filter, or its ingress queueing discipline.
    ReceiverFilter,
    /// The receiver's Internet layer: damaged headers, no memory, no way.
    ReceiverInternet,
    /// The receiver's socket, whose buffer was full.
    ReceiverSocket,
    /// The receiver's UDP: nobody at the port, or a wrong checksum.
    ReceiverUdp,
    /// It waited in a queue, or in a socket unread, when the load had ended.
    TooLate,
}

impl LossPlace {
    /// Every place, in the order of the path.
    pub const ALL: [Self; 18] = [
        Self::SenderSocket,
        Self::SenderQdisc,
        Self::SenderInterface,
        Self::GuestOutput,
        Self::HostBacklog,
        Self::Switch,
        Self::PortQdisc,
        Self::Port,
        Self::TapQueue,
        Self::Network,
        Self::ReceiverInterface,
        Self::ReceiverBacklog,
        Self::Conntrack,
        Self::ReceiverFilter,
        Self::ReceiverInternet,
        Self::ReceiverSocket,
        Self::ReceiverUdp,
        Self::TooLate,
    ];

    /// The place in words, to follow "lost in" or to stand in a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::SenderSocket => "sender's socket",
            Self::SenderQdisc => "sender's queueing discipline",
            Self::SenderInterface => "sender's interface",
            Self::GuestOutput => "guest's card, on the way out",
            Self::HostBacklog => "host's softnet backlog",
            Self::Switch => "switch",
            Self::PortQdisc => "queueing discipline of the switch's port",
            Self::Port => "switch's port",
            Self::TapQueue => "tap's queue",
            Self::Network => "network between the machines",
            Self::ReceiverInterface => "receiver's interface",
            Self::ReceiverBacklog => "receiver's softnet backlog",
            Self::Conntrack => "receiver's connection tracking",
            Self::ReceiverFilter => "receiver's packet filter",
            Self::ReceiverInternet => "receiver's Internet layer",
            Self::ReceiverSocket => "receiver's socket buffer",
            Self::ReceiverUdp => "receiver's UDP",
            Self::TooLate => "too late",
        }
    }
}

impl Ledger {
    /// Lost there.
    pub fn lost_at(&self, place: LossPlace) -> u64 {
        self.losses.iter().find(|loss| loss.place == place).map_or(0, |loss| loss.datagrams)
    }

    /// Of all that were lost, the part that was lost there: 0 to 1; 0 where nothing was lost.
    pub fn share_of_loss(&self, place: LossPlace) -> f64 {
        share(self.lost_at(place), self.lost)
    }

    /// Of all that were sent, the part that was lost.
    pub fn lost_share(&self) -> f64 {
        share(self.lost, self.sent)
    }

    /// Of all that were lost, the part whose place is known. What was counted twice, or of somebody
    /// else, is taken off: then it is not known which of the places were wrong.
    pub fn placed_share(&self) -> f64 {
        if self.lost == 0 {
            return 1.0;
        }
        1.0 - share(self.unaccounted.unsigned_abs(), self.lost).min(1.0)
    }

    /// Where most were lost; nothing where none were.
    pub fn largest_loss(&self) -> Option<&Loss> {
        self.losses.iter().max_by_key(|loss| loss.datagrams)
    }

    /// Adds another: the other way of the same trial, or another trial.
    pub(crate) fn add(&mut self, other: &Self) {
        self.trials = self.trials.saturating_add(other.trials);
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.lost = self.lost.saturating_add(other.lost);
        self.not_sent = self.not_sent.saturating_add(other.not_sent);
        self.unaccounted = self.unaccounted.saturating_add(other.unaccounted);
        for loss in &other.losses {
            self.add_loss(loss.place, loss.datagrams, loss.counted);
        }
        if let Some(responses) = &other.responses {
            self.responses.get_or_insert_default().add(responses);
        }
    }

    /// Takes packets of others off the place where most were lost.
    pub(crate) fn take_from_largest(&mut self, packets: u64) {
        if let Some(largest) = self.losses.iter_mut().max_by_key(|loss| loss.datagrams) {
            largest.datagrams = largest.datagrams.saturating_sub(packets);
            largest.counted = largest.counted.min(largest.datagrams);
        }
        self.losses.retain(|loss| loss.datagrams > 0);
    }

    pub(crate) fn add_loss(&mut self, place: LossPlace, datagrams: u64, counted: u64) {
        if datagrams == 0 {
            return;
        }
        match self.losses.binary_search_by_key(&place, |loss| loss.place) {
            Ok(at) => {
                if let Some(loss) = self.losses.get_mut(at) {
                    loss.datagrams = loss.datagrams.saturating_add(datagrams);
                    loss.counted = loss.counted.saturating_add(counted);
                }
            }
            Err(at) => self.losses.insert(at, Loss { place, datagrams, counted }),
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
