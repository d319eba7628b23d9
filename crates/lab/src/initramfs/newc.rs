//! A writer for cpio archives in the `newc` form.

use std::io::{self, Write};

/// `S_IFDIR`, `S_IFREG`, `S_IFCHR` of inode(7).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_000;

/// Writes one archive. Inodes are numbered from 1 in order, times and owners are 0, so that equal
/// contents give equal bytes.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    inode: u32,
}

struct Entry<'a> {
    name: &'a str,
    mode: u32,
    links: u32,
    device: (u32, u32),
    data: &'a [u8],
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// Writes a directory; its parent comes first.
    ///
    /// # Errors
    /// Of the writer.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        let mode = DIRECTORY | 0o755;
        self.entry(&Entry { name, mode, links: 2, device: (0, 0), data: &[] })
    }

    /// Writes a file with that mode (`0o755`).
    ///
    /// # Errors
    /// Of the writer; `InvalidInput` when it has 4 GiB or more.
    pub fn file(&mut self, name: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        let mode = REGULAR | mode;
        self.entry(&Entry { name, mode, links: 1, device: (0, 0), data })
    }

    /// Writes a character device with that mode.
    ///
    /// # Errors
    /// Of the writer.
    pub fn character_device(
        &mut self,
        name: &str,
        mode: u32,
        major: u32,
        minor: u32,
    ) -> io::Result<()> {
        let mode = CHARACTER | mode;
        self.entry(&Entry { name, mode, links: 1, device: (major, minor), data: &[] })
    }

    /// Writes the end mark and flushes.
    ///
    /// # Errors
    /// Of the writer.
    pub fn finish(mut self) -> io::Result<()> {
        let end = Entry { name: "TRAILER!!!", mode: 0, links: 1, device: (0, 0), data: &[] };
        self.entry(&end)?;
        self.out.flush()
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let size = length(entry.data.len())?;
        let name_size = length(entry.name.len() + 1)?;
        self.inode += 1;
        let (major, minor) = entry.device;
        let fields =
            [self.inode, entry.mode, 0, 0, entry.links, 0, size, 0, 0, major, minor, name_size, 0];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(entry.name.as_bytes())?;
        self.out.write_all(&[0])?;
        // The magic and 13 fields are 110 bytes; name and data each end on a multiple of four.
        self.pad(110 + entry.name.len() + 1)?;
        self.out.write_all(entry.data)?;
        self.pad(entry.data.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        let rest = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..rest])
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a cpio entry must be below 4 GiB")
    })
}
