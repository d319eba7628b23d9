//! A disk as QEMU wants it described: for the command line and for the monitor, from one list.

use std::sync::Arc;

use serde_json::{Value, json};
use vioperf_model::disk::{Controller, DiskModel};
use vioperf_model::nic::Bus;
use vioperf_model::scenario::{Drive, MachineType};

use super::command_line::{LEGACY_BUS, PCIE_SLOTS};
use super::nic::Properties;
use crate::storage::DiskFile;

/// Names of the parts within QEMU.
const NODE: &str = "disk";
const FILE_NODE: &str = "disk-file";
const CONTROLLER: &str = "disk-controller";
const DEVICE: &str = "disk-device";
const IO_THREAD: &str = "disk-thread";

/// The slots of the disk: those that the second NIC of a guest that forwards has, which has no disk.
const PCIE_SLOT: &str = PCIE_SLOTS[1];
const LEGACY_SLOT: &str = "3";

/// The disk a guest gets.
#[derive(Debug, Clone)]
pub struct DiskSpec {
    /// Its model.
    pub model: DiskModel,
    /// How QEMU hands it out.
    pub drive: Drive,
    /// What its bytes are in: of that format.
    pub file: Arc<DiskFile>,
    /// Its serial number, by which the agent finds it; at most 20 characters.
    pub serial: String,
}

impl DiskSpec {
    /// The block nodes: the format above the file.
    pub(super) fn block_nodes(&self) -> Value {
        let cache = self.drive.cache;
        let cache = json!({ "direct": cache.is_direct(), "no-flush": cache.ignores_flushes() });
        let protocol = if self.file.is_device() { "host_device" } else { "file" };
        let mut file = json!({
            "driver": protocol,
            "node-name": FILE_NODE,
            "filename": self.file.inherited_path(),
            "aio": self.drive.aio.name(),
            "cache": cache,
        });
        // A guest that rests has the file open too: all of them write noise into a raw one. An image is one guest's.
        file["locking"] = "off".into();
        json!({
            "driver": self.drive.format.driver(),
            "node-name": NODE,
            "cache": cache,
            "file": file,
        })
    }

    /// The thread of its own, where it has one.
    pub(super) fn io_thread(&self) -> Option<Properties> {
        self.drive
            .io_thread
            .then(|| vec![("qom-type".into(), "iothread".into()), ("id".into(), IO_THREAD.into())])
    }

    /// The devices, what has to be there first.
    pub(super) fn devices(&self, machine: MachineType) -> Vec<Properties> {
        let row = self.model.row();
        let slot = || match row.bus {
            Some(Bus::PciExpress) => vec![("bus".to_owned(), Value::from(PCIE_SLOT))],
            Some(Bus::ConventionalPci) => vec![
                ("bus".to_owned(), Value::from(LEGACY_BUS)),
                ("addr".to_owned(), Value::from(LEGACY_SLOT)),
            ],
            None => Vec::new(),
        };
        let thread = || {
            let wanted = self.drive.io_thread && row.has_io_thread;
            wanted.then(|| ("iothread".to_owned(), Value::from(IO_THREAD)))
        };
        let (controller, bus) = match row.controller {
            Controller::None => (None, None),
            Controller::Of { built_in: Some((own, bus)), .. } if own == machine => {
                (None, Some(bus.to_owned()))
            }
            Controller::Of { device, .. } => {
                let mut controller: Properties =
                    vec![("driver".into(), device.into()), ("id".into(), CONTROLLER.into())];
                controller.extend(slot());
                controller.extend(thread());
                (Some(controller), Some(format!("{CONTROLLER}.0")))
            }
        };
        let write_cache = if self.drive.cache.has_write_cache() { "on" } else { "off" };
        let mut disk: Properties = vec![
            ("driver".into(), row.qemu_device.into()),
            ("id".into(), DEVICE.into()),
            ("drive".into(), NODE.into()),
            ("serial".into(), self.serial.as_str().into()),
            ("write-cache".into(), write_cache.into()),
        ];
        match bus {
            Some(bus) => disk.push(("bus".into(), bus.into())),
            None => {
                disk.extend(slot());
                disk.extend(thread());
            }
        }
        controller.into_iter().chain([disk]).collect()
    }

    /// Of a disk that a thread of its own can serve: where QEMU tells which that is.
    pub(super) fn served(&self) -> Option<Value> {
        let row = self.model.row();
        let device = match row.controller {
            Controller::None => DEVICE,
            Controller::Of { .. } => CONTROLLER,
        };
        let path = format!("/machine/peripheral/{device}");
        row.has_io_thread.then(|| json!({ "path": path, "property": "iothread" }))
    }

    /// How QEMU's answer to that differs from what was asked for, in words.
    pub(super) fn other_thread(&self, answer: &Value) -> Option<String> {
        let told = answer.as_str().unwrap_or_default();
        let is_own = told.rsplit('/').next() == Some(IO_THREAD);
        let (wanted, told) = match self.drive.io_thread {
            true if !is_own => ("a thread of its own", told),
            false if !told.is_empty() => ("QEMU's main loop", told),
            _ => return None,
        };
        Some(format!("the disk should be served by {wanted}, but QEMU says {told:?}"))
    }

    /// How QEMU's own account of its disks (`query-block`) differs from what was asked for, in words.
    pub(super) fn contradiction(&self, answer: &Value) -> Option<String> {
        let all = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let own = all.iter().filter_map(|one| one.get("inserted"));
        let mut own = own.filter(|inserted| inserted.get("node-name") == Some(&NODE.into()));
        let Some(inserted) = own.next() else {
            return Some(format!("QEMU does not list the disk: {answer}"));
        };
        let (drive, is) = (&self.drive, |key: &str| inserted.pointer(key).and_then(Value::as_bool));
        let told = [
            ("direct", is("/cache/direct"), drive.cache.is_direct()),
            ("no-flush", is("/cache/no-flush"), drive.cache.ignores_flushes()),
            ("writeback", is("/cache/writeback"), drive.cache.has_write_cache()),
        ];
        let other = told.into_iter().find(|(_, told, wanted)| *told != Some(*wanted));
        if let Some((key, told, wanted)) = other {
            return Some(format!(
                "the disk's cache should be {} ({key} {wanted}), but QEMU says {told:?}",
                drive.cache
            ));
        }
        let format = inserted.get("drv").and_then(Value::as_str);
        let wanted = drive.format.driver();
        (format != Some(wanted))
            .then(|| format!("the disk's image should be {wanted}, but QEMU says {format:?}"))
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::scenario::{AsyncIo, CacheMode, Storage};
    use vioperf_model::units::ByteSize;

    use super::super::nic::as_argument;
    use super::*;

    fn spec(model: &str, drive: Drive) -> DiskSpec {
        let file = DiskFile::empty(&Storage::default(), ByteSize::from_mib(1)).unwrap();
        let model = model.parse().unwrap();
        DiskSpec { model, drive, file: Arc::new(file), serial: "vioperf-0".into() }
    }

    fn arguments(model: &str, machine: MachineType) -> Vec<String> {
        let drive = Drive { io_thread: true, ..Drive::default() };
        spec(model, drive).devices(machine).into_iter().map(as_argument).collect()
    }

    #[test]
    fn controllers_and_threads_are_where_they_belong() {
        let disk = "id=disk-device,drive=disk,serial=vioperf-0,write-cache=on";
        assert_eq!(
            arguments("virtio-blk", MachineType::Q35),
            [format!("virtio-blk-pci,{disk},bus=slot2,iothread=disk-thread")]
        );
        assert_eq!(
            arguments("virtio-scsi", MachineType::Q35),
            [
                "virtio-scsi-pci,id=disk-controller,bus=slot2,iothread=disk-thread".to_owned(),
                format!("scsi-hd,{disk},bus=disk-controller.0")
            ]
        );
        assert_eq!(
            arguments("lsi", MachineType::Pc)[0],
            "lsi53c895a,id=disk-controller,bus=legacy0,addr=3"
        );
        assert_eq!(arguments("ide", MachineType::Pc), [format!("ide-hd,{disk},bus=ide.0")]);
        assert_eq!(arguments("ide", MachineType::Q35)[0], "piix3-ide,id=disk-controller");
    }

    #[test]
    fn the_thread_that_serves_a_disk_is_the_one_that_was_asked_for() {
        let with = |model, io_thread| spec(model, Drive { io_thread, ..Drive::default() });
        let own = json!("/objects/disk-thread");
        assert_eq!(with("virtio-blk", true).other_thread(&own), None);
        assert_eq!(with("virtio-blk", false).other_thread(&json!("")), None);
        assert!(with("virtio-blk", true).other_thread(&json!("")).is_some());
        assert!(with("virtio-scsi", false).other_thread(&own).unwrap().contains("main loop"));
        assert_eq!(
            with("virtio-scsi", true).served().unwrap()["path"],
            "/machine/peripheral/disk-controller"
        );
        assert_eq!(with("nvme", false).served(), None);
    }

    #[test]
    fn what_qemu_says_of_a_disk_is_held_against_what_was_asked_for() {
        let drive =
            Drive { cache: CacheMode::Directsync, aio: AsyncIo::Native, ..Drive::default() };
        let spec = spec("nvme", drive);
        let nodes = spec.block_nodes();
        assert_eq!(
            (&nodes["cache"]["direct"], &nodes["file"]["aio"]),
            (&true.into(), &"native".into())
        );
        let told = |writeback: bool, format: &str| {
            json!([{ "device": "", "inserted": { "node-name": "disk", "drv": format,
                "cache": { "direct": true, "no-flush": false, "writeback": writeback } } }])
        };
        assert_eq!(spec.contradiction(&told(false, "raw")), None);
        assert!(spec.contradiction(&told(true, "raw")).unwrap().contains("directsync"));
        assert!(spec.contradiction(&told(false, "qcow2")).unwrap().contains("raw"));
        assert!(spec.contradiction(&json!([])).is_some());
    }
}
