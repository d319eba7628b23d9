//! Combinations of levels that cannot be had here, though each of their levels can.

use std::collections::BTreeSet;
use std::path::Path;

use vioperf_lab::initramfs::find_program;
use vioperf_lab::partition;
use vioperf_lab::placement::{needed_for_exclusive, usable_cores};
use vioperf_lab::qemu::guest::{VHOST_DEVICE, takes_vhost};
use vioperf_lab::qemu::memory_pages;
use vioperf_lab::switch::{
    hands_out_functions, has_port, has_queues, has_tap, narrows, refuses, refuses_rate,
    shares_memory,
};
use vioperf_lab::{storage, vfio};
use vioperf_model::nic::Queues;
use vioperf_model::plan::{Cell, CellId};
use vioperf_model::record::LeftOut;
use vioperf_model::scenario::{
    AsyncIo, Chain, Guest, HugePages, ImageFormat, Placement, Preallocation, Storage, StorageKind,
    Vhost,
};
use vioperf_model::units::ByteSize;
use vioperf_model::workload::WorkloadKind;

use crate::conductor::disk_files;
use crate::conductor::hypervisor::shape_of;

/// The program.
pub const FIO: &str = "fio";
const NO_FIO: &str = "there is no program fio on this machine: install it (Debian: apt-get install fio), or take \
                      workload.engine = \"vioperf\"";

/// Cells that are left out, and why.
#[derive(Debug, Default)]
pub struct Lacking {
    /// The cells.
    pub cells: BTreeSet<CellId>,
    /// Each reason once.
    pub reasons: Vec<LeftOut>,
}

impl Lacking {
    /// Leaves out those of `cells` that this machine, or their NIC model, has not; `root` is `/` but in
    /// tests. A guest of `unmade` cannot be made at all, for the reason beside it; baselines stand for `guest`.
    pub fn among(cells: &[Cell], guest: &Guest, unmade: &[(Guest, String)], root: &Path) -> Self {
        let mut lacking = Self::default();
        let mut storages = Vec::new();
        for cell in cells {
            let left_out = no_room(cell)
                .or_else(|| no_cores(cell, guest, root))
                .or_else(|| no_engine(cell))
                .or_else(|| no_storage(cell, &mut storages));
            if let Some(left_out) = left_out {
                lacking.leave_out(cell, left_out);
                continue;
            }
            let guest = cell.guest.as_ref();
            let of_guest = unmade.iter().find(|(own, _)| Some(own) == guest);
            let reason = of_guest.map(|(_, reason)| reason.clone());
            let Some(reason) = reason.or_else(|| lack(cell, root)) else { continue };
            let guest = cell.guest_name().map(|name| format!(" {}", name.replace('/', " ")));
            let what = format!("{}{}", cell.path_name(), guest.unwrap_or_default());
            lacking.leave_out(cell, LeftOut { what, reason });
        }
        lacking
    }

    fn leave_out(&mut self, cell: &Cell, reason: LeftOut) {
        self.cells.insert(cell.id.clone());
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

/// What a cell's switch has no room for.
fn no_room(cell: &Cell) -> Option<LeftOut> {
    let (switch, topology) = (cell.testbed.switch, cell.testbed.topology());
    let is_lab = cell.testbed.server.is_none();
    let several = [cell.workload.source_addresses, cell.workload.destination_addresses];
    let is_spread = several.into_iter().flatten().any(|addresses| addresses > 1);
    if topology.chain == Chain::Router && is_spread {
        let reason = "an end has one address on either side of a router: leave source_addresses and \
                      destination_addresses out";
        return Some(LeftOut { what: format!("{topology}"), reason: reason.to_owned() });
    }
    let interface = cell.testbed.of_host();
    if let Some(lack) = narrows(switch, interface, cell.testbed.mtu).filter(|_| is_lab) {
        let what = format!("switch {switch} with an MTU of {}", cell.testbed.mtu);
        return Some(LeftOut { what, reason: lack.to_string() });
    }
    let rate = cell.testbed.rate.filter(|_| is_lab);
    if let Some((rate, lack)) = rate.zip(refuses_rate(switch, interface)) {
        let what = format!("switch {switch} with a rate of {rate}");
        return Some(LeftOut { what, reason: lack.to_string() });
    }
    let lack = refuses(switch, interface, topology).filter(|_| is_lab)?;
    Some(LeftOut { what: format!("switch {switch} with {topology}"), reason: lack.to_string() })
}

/// What a cell's placement cannot have: cores that nobody else is on, or those that it names.
fn no_cores(cell: &Cell, guest: &Guest, root: &Path) -> Option<LeftOut> {
    let (placement, given) = (cell.testbed.placement, &cell.testbed.cores);
    let usable = usable_cores(root);
    let given_and_missing = given.by_key().into_iter().find_map(|(key, cores)| {
        let missing = cores.iter().find(|core| !usable.contains(core))?;
        Some(format!(
            "testbed.cores.{key}: core {missing} may not be used here; these may: {}",
            usable.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
        ))
    });
    let lack = || {
        let vcpus = shape_of(cell.guest.as_ref().unwrap_or(guest)).vcpus;
        let lack = partition::lacks(&root.join("sys"), needed_for_exclusive(vcpus), usable.len())?;
        Some(lack.to_string())
    };
    let reason = given_and_missing
        .or_else(|| if placement == Placement::Exclusive { lack() } else { None })?;
    Some(LeftOut { what: format!("placement {placement}"), reason })
}

/// What is in the way of the engine that a cell's disk is to be read and written by.
fn no_engine(cell: &Cell) -> Option<LeftOut> {
    if !cell.workload.is_by_fio() {
        return None;
    }
    let is_missing = || find_program(FIO).is_none().then(|| NO_FIO.to_owned());
    let reason = cell.workload.unlike_fio().or_else(is_missing)?;
    Some(LeftOut { what: "engine fio".to_owned(), reason })
}

/// Storages that were asked for already, and what each lacks.
type Storages = Vec<((Storage, ByteSize), Option<String>)>;

/// What there is no room for a disk's bytes in.
fn no_storage(cell: &Cell, known: &mut Storages) -> Option<LeftOut> {
    if cell.workload.kind != WorkloadKind::Disk {
        return None;
    }
    let wanted = (cell.testbed.storage.clone(), disk_files::size_of_all(cell));
    let lack = match known.iter().find(|(own, _)| *own == wanted) {
        Some((_, lack)) => lack.clone(),
        None => {
            let lack = storage::lacks(&wanted.0, wanted.1);
            known.push((wanted, lack.clone()));
            lack
        }
    };
    Some(LeftOut { what: format!("storage {}", cell.testbed.storage.kind), reason: lack? })
}

/// What a cell's disk lacks, in words.
fn lack_of_disk(cell: &Cell) -> Option<String> {
    let (model, drive) = (cell.disk?, &cell.guest.as_ref()?.drive);
    if drive.aio == AsyncIo::Native && !drive.cache.is_direct() {
        return Some(format!(
            "Linux's native asynchronous I/O goes past the page cache alone, and cache = \"{}\" does not: take \
             cache = \"none\" or \"directsync\"",
            drive.cache
        ));
    }
    if drive.io_thread && !model.row().has_io_thread {
        return Some(format!(
            "{model} is served by QEMU's main loop: leave drive.io_thread out, or take virtio-blk or virtio-scsi"
        ));
    }
    if drive.preallocation != Preallocation::Full {
        if drive.format == ImageFormat::Raw {
            return Some(
                "a raw file is always allocated: leave drive.preallocation out, or take format = \"qcow2\""
                    .to_owned(),
            );
        }
        if cell.workload.read_fraction() > 0.0 {
            return Some(format!(
                "what was never written of an image that is not allocated is read from nowhere: take preallocation = \
                 \"full\" for reads, or read_share = \"0 %\" with \"{}\"",
                drive.preallocation.name()
            ));
        }
    }
    if drive.format != ImageFormat::Raw && cell.testbed.storage.kind == StorageKind::Device {
        return Some(
            "an image would hide the device's own bytes, which the baseline reads: take format = \"raw\""
                .to_owned(),
        );
    }
    None
}

/// What a cell lacks, in words.
fn lack(cell: &Cell, root: &Path) -> Option<String> {
    if let Some(lack) = lack_of_disk(cell) {
        return Some(lack);
    }
    let guest = cell.guest.as_ref()?;
    if let Some(lack) = memory_pages::lacks(root, guest.huge_pages, guest.memory.as_bytes() >> 20) {
        return Some(lack);
    }
    let model = cell.nic?;
    let switch = cell.testbed.switch;
    if shares_memory(switch) {
        if !takes_vhost(model) {
            return Some(format!(
                "the switch {switch} reads and writes a ring of virtio, which {model} has not"
            ));
        }
        if guest.huge_pages == HugePages::Transparent {
            return Some(format!(
                "the memory of a guest on the switch {switch} is shared, for which the kernel takes no transparent huge \
                 pages: take huge_pages = \"explicit\", or leave it out"
            ));
        }
    }
    if model.row().is_passed_through() && !hands_out_functions(switch) {
        return Some(format!(
            "the switch {switch} has no virtual functions: take sriov or sriov-host"
        ));
    }
    if model.row().is_passed_through()
        && let Some(lack) = vfio::lacks(root, guest.memory.as_bytes() >> 20)
    {
        return Some(lack.to_string());
    }
    if let Some(queues) = guest.queues.filter(|queues| *queues > 1) {
        if model.row().queues == Queues::One {
            return Some(format!(
                "{model} has one queue pair, not {queues}: leave guest.queues out"
            ));
        }
        if !has_queues(switch) {
            return Some(format!("the switch {switch} carries one queue: leave guest.queues out"));
        }
    }
    if !guest.port.is_empty() && !has_port(switch) {
        return Some(format!(
            "the switch {switch} has no tap of the host's own whose settings could be changed: leave guest.port out"
        ));
    }
    if guest.vhost == Vhost::On {
        if !takes_vhost(model) || !has_tap(switch) {
            return Some("vhost-net serves virtio on a tap alone: leave guest.vhost out".into());
        }
        if !root.join(VHOST_DEVICE.trim_start_matches('/')).exists() {
            return Some(format!("{VHOST_DEVICE} does not exist: `sudo modprobe vhost_net`"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use vioperf_model::plan::Plan;
    use vioperf_model::scenario_file;

    use super::*;

    #[test]
    fn cores_that_cannot_be_had_are_told_and_other_levels_stay() {
        let plan = |testbed: &str| {
            let text = format!(
                "name = \"s\"\nquestion = \"q\"\n[testbed]\n{testbed}\n[workload]\nkind = \"tcp-stream\"\n\
                 [factors]\nnic = \"virtio\"\nplacement = [\"apart\", \"exclusive\"]\n"
            );
            let scenario = scenario_file::parse("s", &text, &[]).unwrap();
            let root = tempfile::tempdir().unwrap();
            let cells = Plan::new(&scenario, 1).cells;
            Lacking::among(&cells, &scenario.guest, &[], root.path())
        };
        let lacking = plan("");
        assert_eq!(lacking.cells.len(), 2, "baseline and guest: {lacking:?}");
        assert!(lacking.cells.iter().all(|id| id.0.contains("placement-exclusive")));
        assert_eq!(lacking.reasons.len(), 1);
        let lacking = plan("cores = { vhost = [999] }");
        assert_eq!(lacking.cells.len(), 4);
        assert!(lacking.reasons[0].reason.contains("testbed.cores.vhost: core 999"), "{lacking:?}");
    }

    #[test]
    fn what_a_model_or_the_machine_has_not_is_left_out_and_nothing_else() {
        let text = "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"tcp-stream\"\n[factors]\n\
            nic = [\"virtio\", \"e1000\"]\nqueues = [1, 2]\nvhost = [\"on\", \"off\"]\n\
            switch = [\"bridge\", \"passt\", \"openvswitch-dpdk\"]\n";
        let scenario = scenario_file::parse("s", text, &[]).unwrap();
        let plan = Plan::new(&scenario, 1);
        let root = tempfile::tempdir().unwrap();
        let among = || Lacking::among(&plan.cells, &scenario.guest, &[], root.path());
        let is_kept = |lacking: &Lacking, cell: &str| {
            assert!(plan.cells.iter().any(|known| known.id.0.starts_with(cell)), "{cell}");
            !lacking.cells.iter().any(|id| id.0.starts_with(cell))
        };
        let lacking = among();
        assert!(is_kept(&lacking, "virtio/2-queues/vhost-off/bridge"));
        assert!(!is_kept(&lacking, "virtio/2-queues/vhost-off/passt"));
        assert!(!is_kept(&lacking, "virtio/1-queue/vhost-on/bridge"));
        assert!(is_kept(&lacking, "e1000/1-queue/vhost-off/bridge"));
        assert!(!is_kept(&lacking, "e1000/2-queues/vhost-off/bridge"));
        assert!(is_kept(&lacking, "baseline/bridge"));
        assert!(is_kept(&lacking, "virtio/2-queues/vhost-off/openvswitch-dpdk"));
        assert!(!is_kept(&lacking, "virtio/1-queue/vhost-on/openvswitch-dpdk"));
        assert!(!is_kept(&lacking, "e1000/1-queue/vhost-off/openvswitch-dpdk"));
        std::fs::create_dir(root.path().join("dev")).unwrap();
        std::fs::write(root.path().join("dev/vhost-net"), "").unwrap();
        assert!(is_kept(&among(), "virtio/1-queue/vhost-on/bridge"));
        assert!(!is_kept(&among(), "e1000/1-queue/vhost-on/bridge"));
    }

    #[test]
    fn what_fio_would_do_otherwise_is_left_out_with_its_reason() {
        let text = "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"disk\"\nread_share = \"50 %\"\n\
            [factors]\ndisk = \"virtio-blk\"\nengine = [\"vioperf\", \"fio\"]\nrandom_share = [\"0 %\", \"100 %\"]\n";
        let scenario = scenario_file::parse("s", text, &[]).unwrap();
        let plan = Plan::new(&scenario, 1);
        let root = tempfile::tempdir().unwrap();
        let lacking = Lacking::among(&plan.cells, &scenario.guest, &[], root.path());
        let is_unlike =
            |cell: &&Cell| cell.workload.is_by_fio() && cell.workload.random_fraction() < 1.0;
        let expected: BTreeSet<CellId> =
            plan.cells.iter().filter(is_unlike).map(|cell| cell.id.clone()).collect();
        assert_eq!((plan.cells.len(), expected.len()), (8, 2), "baseline and guest of one level");
        assert_eq!(lacking.cells, expected);
        let [LeftOut { what, reason }] = &lacking.reasons[..] else { panic!("{lacking:?}") };
        assert_eq!(what, "engine fio");
        assert!(reason.contains("a place for reads"), "{reason}");
    }

    #[test]
    fn a_thin_image_is_written_and_not_read() {
        let left_out = |read_share: &str| {
            let text = format!(
                "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"disk\"\nread_share = \"{read_share}\"\n[factors]\n\
                 disk = \"nvme\"\ndrive.format = [\"raw\", \"qcow2\"]\ndrive.preallocation = [\"full\", \"off\"]\n"
            );
            let scenario = scenario_file::parse("s", &text, &[]).unwrap();
            let root = tempfile::tempdir().unwrap();
            let cells = Plan::new(&scenario, 1).cells;
            Lacking::among(&cells, &scenario.guest, &[], root.path()).cells
        };
        let written = left_out("0 %");
        assert_eq!(written.len(), 1, "raw, thin: {written:?}");
        assert_eq!(left_out("50 %").len(), 2);
    }

    #[test]
    fn a_port_is_set_up_where_the_host_has_one() {
        let text = "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"tcp-stream\"\n[factors]\n\
            nic = \"virtio\"\nport.offloads.tso = [true, false]\nswitch = [\"bridge\", \"none\", \"slirp\"]\n";
        let scenario = scenario_file::parse("s", text, &[]).unwrap();
        let plan = Plan::new(&scenario, 1);
        let root = tempfile::tempdir().unwrap();
        let lacking = Lacking::among(&plan.cells, &scenario.guest, &[], root.path());
        let of_guests = plan.cells.iter().filter(|cell| !cell.is_baseline());
        let (left_out, kept): (Vec<_>, Vec<_>) =
            of_guests.partition(|cell| lacking.cells.contains(&cell.id));
        assert_eq!((left_out.len(), kept.len()), (4, 2));
        assert!(kept.iter().all(|cell| cell.testbed.switch.name() == "bridge"));
        let baselines = plan.cells.iter().filter(|cell| cell.is_baseline()).count();
        assert_eq!(baselines, 3, "one for each switch: the port is the guest's");
    }
}
