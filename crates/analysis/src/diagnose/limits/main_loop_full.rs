//! QEMU's main loop has no time left.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::threads::Task;

pub(super) const RULE: Rule = Rule {
    name: "main-loop-full",
    title: "QEMU's main loop uses a whole core: every packet, or operation of a disk, passes through this one thread",
    check,
};

const FULL_PERCENT: f64 = 90.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let used = symptoms.qemu_percent(Task::MainLoop).filter(|used| *used >= FULL_PERCENT)?;
    let host = symptoms.host()?;
    let mut evidence = vec![host.share("CPU time of QEMU's main loop", used)];
    if symptoms.is_of_disk() {
        let advice = "Give the disk a thread of its own (guest.drive: io_thread = true; QEMU: -object iothread and iothread= at \
                      the device; libvirt: <iothreads>, <driver iothread='1'/>): of virtio-blk, virtio-scsi; others have no way \
                      around the main loop.";
        return Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() });
    }
    let driver = symptoms.guest()?.interface().and_then(|facts| facts.driver.clone());
    let virtio = driver.as_deref() == Some("virtio_net");
    let guest = symptoms.guest();
    evidence.extend(guest.zip(driver).map(|(guest, driver)| guest.setting("driver", driver)));
    evidence.extend(symptoms.exits_per_packet());
    let advice = if virtio {
        "Let the kernel move the packets: vhost=on at QEMU's -netdev tap, or <driver name='vhost'/> in libvirt's \
         <interface>; and give it queues (queues=N)."
    } else {
        "An emulated card has no other way: choose virtio (-device virtio-net-pci, or <model type='virtio'/>) with vhost-net."
    };
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
