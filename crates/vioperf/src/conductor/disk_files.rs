//! What the disks of a run are in on the host: made once, and the same for the guests and for the baseline.

use std::sync::Arc;

use vioperf_lab::qemu::{DiskSpec, Qemu, disk_image};
use vioperf_lab::storage::{DiskFile, StorageError};
use vioperf_model::plan::Cell;
use vioperf_model::record::StorageFacts;
use vioperf_model::scenario::{ImageFormat, Neighbour, Storage};
use vioperf_model::units::ByteSize;
use vioperf_model::workload::WorkloadKind;

use super::failed::Failed;
use crate::interrupt::{Interrupt, Urgency};

/// Whose bytes a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The guests under test, one after the other, and the baseline.
    UnderTest,
    /// The guests beside them.
    Neighbour,
}

/// Files that disks are in, by whose and where they are and how large.
#[derive(Debug, Default)]
pub struct DiskFiles {
    made: Vec<(Owner, Storage, Arc<DiskFile>)>,
    /// What each storage is on.
    known: Vec<(Storage, StorageFacts)>,
}

/// How much of a disk a cell reads and writes.
pub fn size_of(cell: &Cell) -> ByteSize {
    ByteSize::from_bytes(cell.workload.file_size_bytes())
}

/// The same of all disks that it has at once: with a neighbour two.
pub fn size_of_all(cell: &Cell) -> ByteSize {
    let has_two = cell.disk.is_some() && cell.testbed.neighbour != Neighbour::None;
    ByteSize::from_bytes(size_of(cell).as_bytes().saturating_mul(1 + u64::from(has_two)))
}

impl DiskFiles {
    /// The file of a cell's storage, which is full.
    ///
    /// # Errors
    /// When it cannot be made, or the user wants the end meanwhile.
    pub(super) fn of(
        &mut self,
        cell: &Cell,
        owner: Owner,
        interrupt: &Interrupt,
    ) -> Result<Arc<DiskFile>, Failed> {
        let (storage, size) = (&cell.testbed.storage, size_of(cell));
        let is_in = |own: &Owner, place: &Storage| *own == owner && place == storage;
        let is_it = |(own, place, file): &&(Owner, Storage, Arc<DiskFile>)| {
            is_in(own, place) && file.size() == size
        };
        if let Some((.., file)) = self.made.iter().find(is_it) {
            return Ok(Arc::clone(file));
        }
        // A device is open once: whoever had it before gives it up.
        self.made.retain(|(own, place, _)| !is_in(own, place));
        let go_on = || interrupt.urgency() == Urgency::None;
        let file = Arc::new(DiskFile::make(storage, size, &go_on).map_err(failed)?);
        self.note(storage, &file);
        self.made.push((owner, storage.clone(), Arc::clone(&file)));
        Ok(file)
    }

    /// What the bytes of a cell's disk are on; nothing where it has no disk. Images are in the same storage as files.
    pub(super) fn facts_of(&self, cell: &Cell) -> Option<StorageFacts> {
        let is_it = |place: &Storage| *place == cell.testbed.storage;
        let is_of_disk = cell.workload.kind == WorkloadKind::Disk;
        let known = self.known.iter().find(|(place, _)| is_it(place));
        known.filter(|_| is_of_disk).map(|(_, facts)| facts.clone())
    }

    fn note(&mut self, storage: &Storage, file: &DiskFile) {
        self.known.retain(|(place, _)| place != storage);
        self.known.push((storage.clone(), file.facts()));
    }

    /// The disk of a cell's guest that is to be started, where it has one.
    ///
    /// # Errors
    /// As [`Self::of`], or when QEMU cannot make its image.
    pub(super) fn disk_of(
        &mut self,
        cell: &Cell,
        owner: Owner,
        number: u16,
        qemu: &Qemu,
        interrupt: &Interrupt,
    ) -> Result<Option<DiskSpec>, Failed> {
        let Some(model) = cell.disk else { return Ok(None) };
        let drive = cell.guest.as_ref().map(|guest| guest.drive.clone()).unwrap_or_default();
        let file = match drive.format {
            ImageFormat::Raw => self.of(cell, owner, interrupt)?,
            ImageFormat::Qcow2 => {
                let empty = DiskFile::empty(&cell.testbed.storage, size_of(cell));
                let file = empty.map_err(failed)?;
                disk_image::make(qemu, &file, &drive).map_err(Failed::because)?;
                self.note(&cell.testbed.storage, &file);
                Arc::new(file)
            }
        };
        Ok(Some(DiskSpec { model, drive, file, serial: format!("vioperf-{number}") }))
    }
}

fn failed(error: StorageError) -> Failed {
    let interrupted = matches!(error, StorageError::Interrupted);
    Failed { interrupted, ..Failed::because(error) }
}
