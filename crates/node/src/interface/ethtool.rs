//! What a driver tells of its interface: the `SIOCETHTOOL` ioctl (netdevice(7), linux/ethtool.h).
//!
//! Every command is a `u32` followed by fields that the kernel fills in; they are read here by their
//! places in a buffer of `u32` words, which has their alignment.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use vioperf_model::interface_settings::{Coalesce, Rings};
use vioperf_model::sample::{Coalescing, InterfaceFacts, QueueCounts, RingSizes};

const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const SET_COALESCING: u32 = 0x0f;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_STRING_SET_INFO: u32 = 0x37;
const GET_HASH_TABLE: u32 = 0x38;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const GET_CHANNELS: u32 = 0x3c;
const SET_CHANNELS: u32 = 0x3d;
const GET_LINK_SETTINGS: u32 = 0x4c;

/// `ETH_SS_STATS`: the string set that names the statistics.
const STATISTICS_NAMES: u32 = 1;
/// `ETH_SS_FEATURES`: the string set that names the features.
const FEATURE_NAMES: u32 = 4;
/// `ETH_GSTRING_LEN`, in bytes and in words.
const NAME_BYTES: usize = 32;
const NAME_WORDS: usize = NAME_BYTES / 4;
/// Many more than any kernel has features (some 60), or most drivers statistics, or entries of the
/// table that spreads packets; bounds what is allocated.
const MOST_NAMES: usize = 4096;
/// `__ETHTOOL_LINK_MODE_MASK_NWORDS` of any kernel is far below.
const MOST_MODE_WORDS: usize = 64;

/// Fills in what the driver tells; what it does not goes into `absent`.
pub(super) fn complete(facts: &mut InterfaceFacts) {
    let device = match Device::open(&facts.name) {
        Ok(device) => device,
        Err(errno) => {
            facts.absent.insert("ethtool".to_owned(), errno.to_string());
            return;
        }
    };
    let mut absent = std::mem::take(&mut facts.absent);
    if let Some(driver) = noting("driver", device.driver(), &mut absent) {
        facts.driver = some_text(driver.name);
        facts.driver_version = some_text(driver.version);
        facts.bus_address = some_text(driver.bus_address);
    }
    if let Some(link) = noting("speed", device.link_settings(), &mut absent) {
        (facts.speed_mbit_per_s, facts.full_duplex) = link;
        if facts.speed_mbit_per_s.is_none() {
            absent.insert("speed".to_owned(), "the driver says \"unknown\"".to_owned());
        }
    }
    // A driver with channels says how many are in use; others use all that were made.
    match device.channels() {
        Ok(queues) if queues.rx > 0 && queues.tx > 0 => facts.queues = Some(queues),
        _ if facts.queues.is_some() => {}
        Ok(_) => drop(absent.insert("queues".to_owned(), "the driver says 0".to_owned())),
        Err(errno) => drop(absent.insert("queues".to_owned(), errno.to_string())),
    }
    facts.rings = noting("rings", device.rings(), &mut absent);
    facts.coalescing = noting("coalescing", device.coalescing(), &mut absent);
    facts.hash_entries = noting("hash_entries", device.hash_entries(), &mut absent);
    let features = noting("offloads", device.features(), &mut absent).unwrap_or_default();
    facts.offloads = features.into_iter().map(|(name, feature)| (name, feature.active)).collect();
    facts.absent = absent;
}

fn noting<T>(
    what: &str,
    outcome: Result<T, Errno>,
    absent: &mut BTreeMap<String, String>,
) -> Option<T> {
    outcome.map_err(|errno| absent.insert(what.to_owned(), errno.to_string())).ok()
}

fn some_text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

struct Driver {
    name: String,
    version: String,
    bus_address: String,
}

/// An offload of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feature {
    /// Whether it can be switched.
    pub changeable: bool,
    /// Whether it is on.
    pub active: bool,
}

/// An interface and a socket to ask about it.
pub(crate) struct Device {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Device {
    pub fn open(interface: &str) -> Result<Self, Errno> {
        let mut name = [0; libc::IFNAMSIZ];
        // The last byte stays 0.
        if interface.len() >= name.len() {
            return Err(Errno::ENAMETOOLONG);
        }
        for (place, byte) in name.iter_mut().zip(interface.bytes()) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Self { socket, name })
    }

    /// One command; its first word is the command itself.
    fn command(&self, words: &mut [u32]) -> Result<(), Errno> {
        let mut request = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: words.as_mut_ptr().cast() },
        };
        // SAFETY: the request names an interface and points at `words`, which lives across the call
        // and is as long as the answer to the command it holds: every caller sizes it for that.
        let result =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), ETHTOOL_IOCTL, &raw mut request) };
        Errno::result(result).map(drop)
    }

    /// `struct ethtool_drvinfo`: the command, driver[32], version[32], firmware[32], bus[32], …
    fn driver(&self) -> Result<Driver, Errno> {
        let mut words = [0; 49];
        words[0] = GET_DRIVER;
        self.command(&mut words)?;
        Ok(Driver {
            name: text(&words, 1),
            version: text(&words, 1 + NAME_WORDS),
            bus_address: text(&words, 1 + 3 * NAME_WORDS),
        })
    }

    /// `struct ethtool_link_settings`: speed in Mbit/s and whether full duplex, where known.
    ///
    /// A first call with no room for link modes makes the kernel say (as a negative number) how much
    /// it wants, the second one gives that.
    fn link_settings(&self) -> Result<(Option<u32>, Option<bool>), Errno> {
        /// Words before the three masks.
        const HEAD: usize = 12;
        let mut head = [0; HEAD];
        head[0] = GET_LINK_SETTINGS;
        self.command(&mut head)?;
        let mode_words = i8::from_ne_bytes([byte(&head, 15)]).unsigned_abs();
        let count = usize::from(mode_words).min(MOST_MODE_WORDS);
        let mut words = vec![0; HEAD + 3 * count];
        words[0] = GET_LINK_SETTINGS;
        words[3] = u32::from_ne_bytes([0, 0, 0, mode_words]);
        self.command(&mut words)?;
        let speed = words[1];
        let duplex = match byte(&words, 8) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        // SPEED_UNKNOWN is -1; some drivers say 0.
        Ok((Some(speed).filter(|speed| ![0, u32::MAX].contains(speed)), duplex))
    }

    /// `struct ethtool_ringparam`: the command, four maxima, rx, rx mini, rx jumbo, tx.
    pub fn rings(&self) -> Result<RingSizes, Errno> {
        let words = self.ring_words()?;
        Ok(RingSizes { rx: words[5], tx: words[8] })
    }

    fn ring_words(&self) -> Result<[u32; 9], Errno> {
        let mut words = [0; 9];
        words[0] = GET_RINGS;
        self.command(&mut words)?;
        Ok(words)
    }

    /// Asks for sizes of rings; the rest stays.
    pub fn set_rings(&self, wanted: &Rings) -> Result<(), Errno> {
        let mut words = self.ring_words()?;
        words[0] = SET_RINGS;
        replace(&mut words, 5, wanted.rx);
        replace(&mut words, 8, wanted.tx);
        self.command(&mut words)
    }

    /// `struct ethtool_coalesce`: the command, of receiving µs and packets, the same while interrupts are
    /// served, these four of sending, one of statistics, whether they adapt, and eleven more.
    pub fn coalescing(&self) -> Result<Coalescing, Errno> {
        let words = self.coalescing_words()?;
        Ok(Coalescing {
            rx_us: words[1],
            rx_frames: words[2],
            tx_us: words[5],
            tx_frames: words[6],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        })
    }

    fn coalescing_words(&self) -> Result<[u32; 23], Errno> {
        let mut words = [0; 23];
        words[0] = GET_COALESCING;
        self.command(&mut words)?;
        Ok(words)
    }

    /// Asks for interrupts to be put off so; the rest stays.
    pub fn set_coalescing(&self, wanted: &Coalesce) -> Result<(), Errno> {
        let mut words = self.coalescing_words()?;
        words[0] = SET_COALESCING;
        replace(&mut words, 1, wanted.rx_usecs);
        replace(&mut words, 2, wanted.rx_frames);
        replace(&mut words, 5, wanted.tx_usecs);
        replace(&mut words, 6, wanted.tx_frames);
        replace(&mut words, 10, wanted.adaptive_rx.map(u32::from));
        replace(&mut words, 11, wanted.adaptive_tx.map(u32::from));
        self.command(&mut words)
    }

    /// `struct ethtool_rxfh_indir`: the command, the size of the table, its entries. Asked with a size
    /// of 0 the kernel says how large it is.
    fn hash_entries(&self) -> Result<Vec<u32>, Errno> {
        let mut head = [GET_HASH_TABLE, 0];
        self.command(&mut head)?;
        let size = usize::try_from(head[1]).unwrap_or(usize::MAX);
        if size == 0 || size > MOST_NAMES {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut words = vec![0; 2 + size];
        words[0] = GET_HASH_TABLE;
        words[1] = head[1];
        self.command(&mut words)?;
        let mut of_queues: Vec<u32> = Vec::new();
        for queue in words.iter().skip(2).filter_map(|queue| usize::try_from(*queue).ok()) {
            if queue >= MOST_NAMES {
                return Err(Errno::EOVERFLOW);
            }
            of_queues.resize(of_queues.len().max(queue + 1), 0);
            of_queues[queue] += 1;
        }
        Ok(of_queues)
    }

    /// `struct ethtool_channels`: the command, four maxima, rx, tx, other, combined.
    pub fn channels(&self) -> Result<QueueCounts, Errno> {
        let words = self.channel_words()?;
        let combined = words[8];
        Ok(QueueCounts {
            rx: words[5].saturating_add(combined),
            tx: words[6].saturating_add(combined),
        })
    }

    fn channel_words(&self) -> Result<[u32; 9], Errno> {
        let mut words = [0; 9];
        words[0] = GET_CHANNELS;
        self.command(&mut words)?;
        Ok(words)
    }

    /// Asks for so many queues each way: combined ones, where the driver has them.
    pub fn set_channels(&self, wanted: u32) -> Result<(), Errno> {
        let mut words = self.channel_words()?;
        words[0] = SET_CHANNELS;
        let has_combined = words[4] > 0;
        let (each, combined) = if has_combined { (0, wanted) } else { (wanted, 0) };
        (words[5], words[6], words[8]) = (each, each, combined);
        self.command(&mut words)
    }

    /// Whether there is a device behind it that interrupts: it has an address on a bus, which a veth has
    /// not, nor has a tap (`tap`) or a bridge (`N/A`).
    pub fn is_on_a_bus(&self) -> bool {
        self.driver().is_ok_and(|driver| driver.bus_address.contains(|c: char| c.is_ascii_digit()))
    }

    /// Every feature by name.
    pub fn features(&self) -> Result<BTreeMap<String, Feature>, Errno> {
        let names = self.names(FEATURE_NAMES)?;
        let blocks = names.len().div_ceil(32);
        // `struct ethtool_gfeatures`: command, size, then blocks of four words: available, requested,
        // active, never changed.
        let mut words = vec![0; 2 + 4 * blocks];
        words[0] = GET_FEATURES;
        words[1] = u32::try_from(blocks).map_err(|_| Errno::EOVERFLOW)?;
        self.command(&mut words)?;
        let bit = |at: usize, word: usize| {
            words.get(2 + 4 * (at / 32) + word).is_some_and(|w| w >> (at % 32) & 1 == 1)
        };
        let feature = |at: usize| Feature { changeable: bit(at, 0), active: bit(at, 2) };
        let features = names.into_iter().enumerate().map(|(at, name)| (name, feature(at)));
        Ok(features.filter(|(name, _)| !name.is_empty()).collect())
    }

    /// Asks for features by name. That the kernel takes it does not say that they then are so.
    pub fn set_features(&self, wanted: &BTreeMap<String, bool>) -> Result<(), Errno> {
        let names = self.names(FEATURE_NAMES)?;
        let blocks = names.len().div_ceil(32);
        // `struct ethtool_sfeatures`: command, size, then blocks of two words: valid, requested.
        let mut words = vec![0; 2 + 2 * blocks];
        words[0] = SET_FEATURES;
        words[1] = u32::try_from(blocks).map_err(|_| Errno::EOVERFLOW)?;
        for (at, on) in
            names.iter().enumerate().filter_map(|(at, name)| Some((at, *wanted.get(name)?)))
        {
            let block = 2 + 2 * (at / 32);
            words[block] |= 1 << (at % 32);
            words[block + 1] |= u32::from(on) << (at % 32);
        }
        self.command(&mut words)
    }

    /// What the driver counts, by its own names, in its own order.
    pub fn statistics(&self) -> Result<Vec<(String, u64)>, Errno> {
        let names = self.names(STATISTICS_NAMES)?;
        // `struct ethtool_stats`: command, count, then so many counters of 64 bits. Drivers fill in as
        // many as they have now: room is for as many names as were told, and a channel more.
        let mut words = vec![0; 2 + 2 * MOST_NAMES];
        words[0] = GET_STATISTICS;
        words[1] = u32::try_from(names.len()).map_err(|_| Errno::EOVERFLOW)?;
        self.command(&mut words)?;
        let counted = usize::try_from(words[1]).unwrap_or(usize::MAX);
        if counted != names.len() {
            return Err(Errno::EAGAIN);
        }
        let value = |at: usize| {
            let low = words.get(2 + 2 * at)?.to_ne_bytes();
            let high = words.get(3 + 2 * at)?.to_ne_bytes();
            let [a, b, c, d] = low;
            let [e, f, g, h] = high;
            Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
        };
        let counters = names.into_iter().enumerate();
        Ok(counters.filter_map(|(at, name)| Some((name, value(at)?))).collect())
    }

    /// The names of a string set, in their order: of features, that of their bits.
    fn names(&self, set: u32) -> Result<Vec<String>, Errno> {
        // `struct ethtool_sset_info`: command, reserved, a mask of 64 bits, one count.
        let [a, b, c, d, e, f, g, h] = (1_u64 << set).to_ne_bytes();
        let mask = [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])];
        let mut info = [GET_STRING_SET_INFO, 0, mask[0], mask[1], 0];
        self.command(&mut info)?;
        let count = usize::try_from(info[4]).unwrap_or(usize::MAX);
        if count > MOST_NAMES {
            return Err(Errno::EOVERFLOW);
        }
        // `struct ethtool_gstrings`: command, string set, count, then the strings.
        let mut words = vec![0; 3 + NAME_WORDS * count];
        words[0] = GET_STRINGS;
        words[1] = set;
        words[2] = info[4];
        self.command(&mut words)?;
        Ok((0..count).map(|at| text(&words, 3 + NAME_WORDS * at)).collect())
    }
}

fn replace(words: &mut [u32], at: usize, value: Option<u32>) {
    if let (Some(word), Some(value)) = (words.get_mut(at), value) {
        *word = value;
    }
}

/// The type of the request differs between C libraries, its number does not.
#[cfg(target_env = "musl")]
const ETHTOOL_IOCTL: libc::c_int = 0x8946;
#[cfg(not(target_env = "musl"))]
const ETHTOOL_IOCTL: libc::c_ulong = 0x8946;

/// The byte at an offset in bytes, as the kernel laid it out.
fn byte(words: &[u32], at: usize) -> u8 {
    words.get(at / 4).and_then(|word| word.to_ne_bytes().get(at % 4).copied()).unwrap_or(0)
}

/// A string of at most [`NAME_BYTES`] that begins at a word and ends with a 0.
fn text(words: &[u32], at: usize) -> String {
    let bytes: Vec<u8> = words
        .get(at..at + NAME_WORDS)
        .unwrap_or_default()
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_its_offloads_and_what_it_has_not() {
        let mut facts = InterfaceFacts { name: "lo".into(), ..InterfaceFacts::default() };
        complete(&mut facts);
        assert!(facts.offloads.contains_key("rx-gro"), "{facts:?}");
        assert!(facts.offloads.contains_key("tx-tcp-segmentation"), "{facts:?}");
        assert!(facts.absent.contains_key("rings"), "{facts:?}");
    }

    #[test]
    fn no_interface_is_said_for_every_fact() {
        let mut facts = InterfaceFacts { name: "none-such".into(), ..InterfaceFacts::default() };
        complete(&mut facts);
        assert!(facts.absent["driver"].contains("ENODEV"), "{facts:?}");
        assert!(facts.offloads.is_empty());
    }
}
