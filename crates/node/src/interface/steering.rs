//! Which cores packets of each queue are steered to: RPS and XPS
//! (Documentation/networking/scaling.rst), in `/sys/class/net/NAME/queues`.

use std::path::{Path, PathBuf};

use vioperf_model::interface_settings::Steering;
use vioperf_model::sample::PacketSteering;

use super::settings::SettingsError;

/// More queues than this are not told.
const MOST_QUEUES: usize = 256;

/// `class` is `/sys/class/net` but in tests. That folder is of the network namespace that it was
/// mounted in: what it says of an interface of that name is taken where it is the same one.
pub(super) fn read(class: &Path, name: &str, mac: &str) -> Result<PacketSteering, String> {
    let queues = queues_of(class, name, mac)?;
    Ok(PacketSteering {
        receive: masks(&queues, Way::Receive),
        transmit: masks(&queues, Way::Transmit),
    })
}

fn queues_of(class: &Path, name: &str, mac: &str) -> Result<PathBuf, String> {
    let folder = class.join(name);
    let address = std::fs::read_to_string(folder.join("address"))
        .map_err(|error| format!("{}: {error}", folder.join("address").display()))?;
    if address.trim() != mac {
        return Err(format!("{}: of another network namespace", folder.display()));
    }
    Ok(folder.join("queues"))
}

/// One of the two ways that packets are steered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// RPS.
    Receive,
    /// XPS.
    Transmit,
}

impl Way {
    fn file(self, queues: &Path, number: usize) -> PathBuf {
        match self {
            Self::Receive => queues.join(format!("rx-{number}/rps_cpus")),
            Self::Transmit => queues.join(format!("tx-{number}/xps_cpus")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Receive => "rps",
            Self::Transmit => "xps",
        }
    }
}

/// Of every queue in turn; none where the driver or the kernel has no such thing.
fn masks(queues: &Path, way: Way) -> Vec<String> {
    let mask = |number| std::fs::read_to_string(way.file(queues, number));
    let masks = (0..MOST_QUEUES).map_while(|number| mask(number).ok());
    masks.map(|mask| mask.trim().to_owned()).collect()
}

/// Steers what each queue receives or sends to the cores that are wanted, and sees that it is so.
pub(super) fn steer(
    class: &Path,
    interface: &str,
    mac: &str,
    way: Way,
    wanted: &Steering,
) -> Result<(), SettingsError> {
    let (owner, what) = (interface.to_owned(), way.name());
    let queues = queues_of(class, interface, mac)
        .map_err(|reason| SettingsError::NoSteering { interface: owner.clone(), reason })?;
    let cores = u16::try_from(std::thread::available_parallelism().map_or(1, usize::from));
    let cores = cores.unwrap_or(u16::MAX);
    for number in 0..MOST_QUEUES {
        let path = way.file(&queues, number);
        // There is always a first queue, so that it is said when it has no such file.
        if number > 0 && !path.exists() {
            break;
        }
        let asked = mask_of(wanted, number, cores);
        let failed = |source| {
            let (interface, path) = (owner.clone(), path.clone());
            SettingsError::Steering { interface, what, path, source }
        };
        std::fs::write(&path, &asked).map_err(failed)?;
        let given = std::fs::read_to_string(&path).map_err(failed)?;
        if plain(&given) != plain(&asked) {
            let (interface, given) = (owner, given.trim().to_owned());
            return Err(SettingsError::SteeringStays { interface, what, asked, given });
        }
    }
    Ok(())
}

/// The mask of a queue in hexadecimal, words of 32 bits parted by commas.
fn mask_of(wanted: &Steering, queue: usize, cores: u16) -> String {
    let chosen: Vec<u16> = match wanted {
        Steering::None => Vec::new(),
        Steering::All => (0..cores).collect(),
        Steering::Spread => u16::try_from(queue % usize::from(cores.max(1))).into_iter().collect(),
        Steering::Cores(cores) => cores.clone(),
    };
    let words = chosen.iter().max().map_or(1, |most| usize::from(*most) / 32 + 1);
    let mut mask = vec![0_u32; words];
    for core in chosen {
        if let Some(word) = mask.get_mut(usize::from(core) / 32) {
            *word |= 1 << (core % 32);
        }
    }
    mask.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

/// A mask without what kernels write differently.
fn plain(mask: &str) -> String {
    let digits: String = mask.trim().chars().filter(|c| *c != ',').collect();
    digits.trim_start_matches('0').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_steered_to_the_cores_that_are_wanted() {
        let mask = |wanted: &str, queue| plain(&mask_of(&wanted.parse().unwrap(), queue, 4));
        assert_eq!([mask("none", 0), mask("all", 0), mask("0,2", 1)], ["", "f", "5"]);
        assert_eq!([mask("spread", 1), mask("spread", 5)], ["2", "2"]);
        assert_eq!(mask("33", 0), "200000000");
        let class = tempfile::tempdir().unwrap();
        let queue = class.path().join("eth0/queues/rx-0");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::write(class.path().join("eth0/address"), "52:54:00:12:34:56\n").unwrap();
        let steer =
            |way| steer(class.path(), "eth0", "52:54:00:12:34:56", way, &Steering::Cores(vec![1]));
        steer(Way::Receive).unwrap();
        assert_eq!(std::fs::read_to_string(queue.join("rps_cpus")).unwrap(), "00000002");
        let message = steer(Way::Transmit).unwrap_err().to_string();
        assert!(message.contains("xps") && message.contains("tx-0"), "{message}");
    }

    #[test]
    fn masks_of_every_queue_of_the_right_interface_are_read() {
        let class = tempfile::tempdir().unwrap();
        let folder = class.path().join("eth0");
        for (queue, file, mask) in
            [("rx-0", "rps_cpus", "3\n"), ("rx-1", "rps_cpus", "0\n"), ("tx-0", "xps_cpus", "1\n")]
        {
            let queue = folder.join("queues").join(queue);
            std::fs::create_dir_all(&queue).unwrap();
            std::fs::write(queue.join(file), mask).unwrap();
        }
        std::fs::write(folder.join("address"), "52:54:00:12:34:56\n").unwrap();
        let steering = read(class.path(), "eth0", "52:54:00:12:34:56").unwrap();
        assert_eq!(steering.receive, ["3", "0"]);
        assert_eq!(steering.transmit, ["1"]);
        let other = read(class.path(), "eth0", "52:54:00:00:00:01").unwrap_err();
        assert!(other.contains("another network namespace"), "{other}");
        assert!(read(class.path(), "eth1", "").is_err());
    }
}
