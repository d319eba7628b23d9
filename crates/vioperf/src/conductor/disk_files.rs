//! What the disks of a run are in on the host: made once, and the same for the guests and for the baseline.

use std::sync::Arc;

use vioperf_lab::qemu::{DiskSpec, Qemu, disk_image};
use vioperf_lab::storage::{DiskFile, StorageError};
use vioperf_model::plan::Cell;
use vioperf_model::scenario::{ImageFormat, Storage};
use vioperf_model::units::ByteSize;

use super::failed::Failed;
use crate::interrupt::{Interrupt, Urgency};

/// Files that disks are in, by where they are and how large.
#[derive(Debug, Default)]
pub struct DiskFiles {
    made: Vec<(Storage, Arc<DiskFile>)>,
}

/// How much of a disk a cell reads and writes.
pub fn size_of(cell: &Cell) -> ByteSize {
    ByteSize::from_bytes(cell.workload.file_size_bytes())
}

impl DiskFiles {
    /// The file of a cell's storage, which is full.
    ///
    /// # Errors
    /// When it cannot be made, or the user wants the end meanwhile.
    pub(super) fn of(
        &mut self,
        cell: &Cell,
        interrupt: &Interrupt,
    ) -> Result<Arc<DiskFile>, Failed> {
        let (storage, size) = (&cell.testbed.storage, size_of(cell));
        let is_it = |(own, file): &&(Storage, Arc<DiskFile>)| own == storage && file.size() == size;
        if let Some((_, file)) = self.made.iter().find(is_it) {
            return Ok(Arc::clone(file));
        }
        // A device is open once: whoever had it before gives it up.
        self.made.retain(|(own, _)| own != storage);
        let go_on = || interrupt.urgency() == Urgency::None;
        let file = Arc::new(DiskFile::make(storage, size, &go_on).map_err(failed)?);
        self.made.push((storage.clone(), Arc::clone(&file)));
        Ok(file)
    }

    /// The disk of a cell's guest that is to be started, where it has one.
    ///
    /// # Errors
    /// As [`Self::of`], or when QEMU cannot make its image.
    pub(super) fn disk_of(
        &mut self,
        cell: &Cell,
        number: u16,
        qemu: &Qemu,
        interrupt: &Interrupt,
    ) -> Result<Option<DiskSpec>, Failed> {
        let Some(model) = cell.disk else { return Ok(None) };
        let drive = cell.guest.as_ref().map(|guest| guest.drive.clone()).unwrap_or_default();
        let file = match drive.format {
            ImageFormat::Raw => self.of(cell, interrupt)?,
            ImageFormat::Qcow2 => {
                let empty = DiskFile::empty(&cell.testbed.storage, size_of(cell));
                let file = empty.map_err(failed)?;
                disk_image::make(qemu, &file, drive.format).map_err(Failed::because)?;
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
