//! Which cores packets of each queue are steered to: RPS and XPS
//! (Documentation/networking/scaling.rst), in `/sys/class/net/NAME/queues`.

use std::path::Path;

use vioperf_model::sample::PacketSteering;

/// More queues than this are not told.
const MOST_QUEUES: usize = 256;

/// `class` is `/sys/class/net` but in tests. That folder is of the network namespace that it was
/// mounted in: what it says of an interface of that name is taken where it is the same one.
pub(super) fn read(class: &Path, name: &str, mac: &str) -> Result<PacketSteering, String> {
    let folder = class.join(name);
    let address = std::fs::read_to_string(folder.join("address"))
        .map_err(|error| format!("{}: {error}", folder.join("address").display()))?;
    if address.trim() != mac {
        return Err(format!("{}: of another network namespace", folder.display()));
    }
    let queues = folder.join("queues");
    Ok(PacketSteering {
        receive: masks(&queues, "rx", "rps_cpus"),
        transmit: masks(&queues, "tx", "xps_cpus"),
    })
}

/// Of every queue in turn; none where the driver or the kernel has no such thing.
fn masks(queues: &Path, way: &str, file: &str) -> Vec<String> {
    let mask = |number| std::fs::read_to_string(queues.join(format!("{way}-{number}")).join(file));
    let masks = (0..MOST_QUEUES).map_while(|number| mask(number).ok());
    masks.map(|mask| mask.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
