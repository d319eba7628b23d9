//! Interrupts on each core: `/proc/interrupts` (proc(5)). Those of network devices one by one, all
//! others added up.

use std::path::Path;

use vioperf_model::sample::{InterruptLine, Interrupts};

use super::{ReadError, parsed};

/// More lines of devices than this are not told one by one: a card with a vector a core on a large
/// machine.
const MOST_LINES: usize = 256;

/// `devices` are the interfaces of this network namespace that have a device.
pub(super) fn read(proc: &Path, devices: &[String]) -> Result<Interrupts, ReadError> {
    parsed(&proc.join("interrupts"), |text| parse(text, devices))
}

fn parse(text: &str, devices: &[String]) -> Result<Interrupts, String> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let cores = heading
        .split_ascii_whitespace()
        .map(|name| name.strip_prefix("CPU").and_then(|number| number.parse().ok()));
    let cores: Vec<u32> = cores.collect::<Option<_>>().ok_or_else(|| heading.to_owned())?;
    if cores.is_empty() {
        return Err("no core".to_owned());
    }
    let mut interrupts = Interrupts { total: vec![0; cores.len()], cores, lines: Vec::new() };
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_ascii_whitespace();
        let counts: Vec<u64> = words
            .by_ref()
            .take(interrupts.cores.len())
            .map_while(|word| word.parse().ok())
            .collect();
        // `ERR` and `MIS` have one count, of the whole machine.
        if counts.len() < interrupts.cores.len() {
            continue;
        }
        for (sum, count) in interrupts.total.iter_mut().zip(&counts) {
            *sum = sum.saturating_add(*count);
        }
        let is_device = number.trim_start().starts_with(|c: char| c.is_ascii_digit());
        // Several devices can share a line: `eth0, uhci_hcd:usb1`.
        let name = words.last().filter(|name| is_device && is_of_network(name, devices));
        if let Some(name) = name.filter(|_| interrupts.lines.len() < MOST_LINES) {
            let name = name.to_owned();
            interrupts.lines.push(InterruptLine { name, counts });
        }
    }
    Ok(interrupts)
}

/// Drivers name their interrupts after the interface (`eth0-rx-0`); virtio after its own device and
/// the queue: `virtio1-input.0` is a network's, `virtio0-input` a console's.
fn is_of_network(name: &str, devices: &[String]) -> bool {
    let follows = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    let of_interface = |device: &String| name.strip_prefix(device.as_str()).is_some_and(follows);
    let of_virtio = || {
        let queue = name.strip_prefix("virtio")?.split_once('-')?.1;
        let (way, number) = queue.split_once('.')?;
        Some(["input", "output"].contains(&way) && number.parse::<u32>().is_ok())
    };
    devices.iter().any(of_interface) || (!devices.is_empty() && of_virtio() == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU1\n \
        24:          1          2  IO-APIC   5-edge      ACPI:Ged\n \
        34:        643          0 PCI-MSIX-0000:00:05.0   0-edge      virtio4-input\n \
        38:          7      28661 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n \
        40:          3          4 PCI-MSI 0000:00:06.0   0-edge      eth0-TxRx-0\n \
        41:          5          6   IO-APIC  11-fasteoi   eth01\n\
        LOC:        100        200   Local timer interrupts\n\
        ERR:          9\n";

    #[test]
    fn tells_network_devices_and_adds_up_all() {
        let interrupts = parse(TEXT, &["eth0".to_owned()]).unwrap();
        assert_eq!(interrupts.cores, [0, 1]);
        assert_eq!(interrupts.total, [759, 28873]);
        let names: Vec<&str> = interrupts.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["virtio2-input.0", "eth0-TxRx-0"]);
        assert_eq!(interrupts.lines[0].counts, [7, 28661]);
    }

    #[test]
    fn a_namespace_without_devices_has_totals_alone() {
        let interrupts = parse(TEXT, &[]).unwrap();
        assert!(interrupts.lines.is_empty() && interrupts.total[0] == 759);
    }

    #[test]
    fn lines_are_bounded_and_hostile_text_is_an_error() {
        let mut text = "CPU0\n".to_owned();
        for number in 0..1000 {
            text.push_str(&format!("{number}: 1 MSI eth0-{number}\n"));
        }
        let interrupts = parse(&text, &["eth0".to_owned()]).unwrap();
        assert_eq!((interrupts.lines.len(), interrupts.total[0]), (MOST_LINES, 1000));
        assert!(parse("", &[]).is_err() && parse("CPUx\n", &[]).is_err());
    }
}
