//! Kernel images: what is inside a bzImage, and whether QEMU can enter it by PVH.
//!
//! Sources: the kernel's Documentation/arch/x86/boot.rst (the boot protocol) and xen's
//! public/elfnote.h (the PVH entry note).

use std::borrow::Cow;

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};

use super::decompress::{DecompressError, Method, decompress, sniff};

/// No kernel unpacks to more than this, in bytes; distributions' are about 70 MB without debug
/// information.
pub const MAX_IMAGE: u64 = 256 << 20;

/// `XEN_ELFNOTE_PHYS32_ENTRY`: the 32-bit entry point of a PVH kernel.
const PVH_ENTRY_NOTE: NoteType = NoteType(18);

/// Offsets in the first sectors of a bzImage (boot.rst, "The Real-Mode Kernel Header").
const SETUP_SECTS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// How QEMU starts an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boot {
    /// An uncompressed ELF with a PVH entry: no firmware, no unpacking in the guest.
    Pvh,
    /// The classic way, through firmware and the image's own unpacker.
    BzImage,
}

/// An image in the form that QEMU boots quickest.
#[derive(Debug, PartialEq, Eq)]
pub struct BootImage {
    /// The bytes for `-kernel`.
    pub bytes: Vec<u8>,
    /// How they are started.
    pub boot: Boot,
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Neither bzImage nor ELF.
    #[error("not a Linux kernel for x86 (neither a bzImage nor an ELF vmlinux)")]
    NotAKernel,
    /// A header points outside of the file.
    #[error("cut short: {0} lies outside of the file; copy or install it again")]
    CutShort(&'static str),
    /// A boot protocol from before 2008.
    #[error("boot protocol {}.{} is too old, 2.08 (Linux 2.6.26) is needed", .0 >> 8, .0 & 0xff)]
    TooOld(u16),
    /// The payload is damaged.
    #[error(transparent)]
    Payload(#[from] DecompressError),
    /// The ELF inside is damaged.
    #[error("its ELF is damaged: {0}")]
    BadElf(String),
    /// An ELF that QEMU cannot enter.
    #[error(
        "this vmlinux has no PVH entry, so QEMU cannot boot it; give the bzImage (vmlinuz) of the \
         same build, or build with CONFIG_PVH=y"
    )]
    NoPvh,
    /// No release string.
    #[error("it does not tell its release")]
    NoRelease,
}

/// Turns an image file into what QEMU boots quickest: the ELF inside where it has a PVH entry,
/// else the bzImage itself (also when it is compressed by a method not known here, since the
/// image can unpack itself).
///
/// # Errors
/// When the file is no kernel, is damaged, or is an ELF without PVH entry.
pub fn boot_image(file: Vec<u8>) -> Result<BootImage, ImageError> {
    if is_elf(&file) {
        return pvh_only(file);
    }
    let Some(header) = BzImage::parse(&file)? else {
        let method = sniff(&file).ok_or(ImageError::NotAKernel)?;
        let inner = decompress(method, &file, MAX_IMAGE)?;
        return if is_elf(&inner) { pvh_only(inner) } else { Err(ImageError::NotAKernel) };
    };
    let Some(method) = header.method() else {
        return Ok(BootImage { bytes: file, boot: Boot::BzImage });
    };
    let inner = decompress(method, header.payload, MAX_IMAGE)?;
    if is_elf(&inner) && has_pvh_entry(&inner)? {
        Ok(BootImage { bytes: inner, boot: Boot::Pvh })
    } else {
        Ok(BootImage { bytes: file, boot: Boot::BzImage })
    }
}

/// The release (`uname -r`) of an image: from the header of a bzImage, from the banner of an ELF.
///
/// Of a bzImage the first 64 KiB suffice.
///
/// # Errors
/// When the file is no kernel or does not tell.
pub fn release(file: &[u8]) -> Result<String, ImageError> {
    let elf = match sniff(file) {
        Some(method) => Cow::Owned(decompress(method, file, MAX_IMAGE)?),
        None => Cow::Borrowed(file),
    };
    if is_elf(&elf) {
        return banner_release(&elf).ok_or(ImageError::NoRelease);
    }
    check_header(file)?;
    let pointer = usize::from(u16_at(file, KERNEL_VERSION).unwrap_or(0));
    if pointer == 0 {
        return Err(ImageError::NoRelease);
    }
    let text = file.get(pointer + 0x200..).ok_or(ImageError::CutShort("the version string"))?;
    first_word(text).ok_or(ImageError::NoRelease)
}

fn pvh_only(elf: Vec<u8>) -> Result<BootImage, ImageError> {
    if has_pvh_entry(&elf)? {
        Ok(BootImage { bytes: elf, boot: Boot::Pvh })
    } else {
        Err(ImageError::NoPvh)
    }
}

struct BzImage<'a> {
    payload: &'a [u8],
}

impl<'a> BzImage<'a> {
    /// `None` when the file is no bzImage at all.
    fn parse(file: &'a [u8]) -> Result<Option<Self>, ImageError> {
        match check_header(file) {
            Err(ImageError::NotAKernel) => return Ok(None),
            other => other?,
        }
        let cut = ImageError::CutShort;
        let sectors = match file.get(SETUP_SECTS) {
            Some(0) | None => 4,
            Some(&sectors) => usize::from(sectors),
        };
        let offset = u32_at(file, PAYLOAD_OFFSET).ok_or(cut("the header"))?;
        let length = u32_at(file, PAYLOAD_LENGTH).ok_or(cut("the header"))?;
        let payload = file
            .get((sectors + 1) * 512..)
            .and_then(|protected| protected.get(usize::try_from(offset).ok()?..))
            .and_then(|payload| payload.get(..usize::try_from(length).ok()?))
            .ok_or(cut("the compressed kernel"))?;
        Ok(Some(Self { payload }))
    }

    fn method(&self) -> Option<Method> {
        sniff(self.payload)
    }
}

fn check_header(file: &[u8]) -> Result<(), ImageError> {
    if file.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err(ImageError::NotAKernel);
    }
    match u16_at(file, PROTOCOL) {
        Some(protocol) if protocol >= 0x208 => Ok(()),
        Some(protocol) => Err(ImageError::TooOld(protocol)),
        None => Err(ImageError::CutShort("the header")),
    }
}

fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// QEMU looks through the segments of type `PT_NOTE` only, so sections do not count here either.
fn has_pvh_entry(elf: &[u8]) -> Result<bool, ImageError> {
    let bad = |error: object::read::Error| ImageError::BadElf(error.to_string());
    match elf.get(4) {
        Some(2) => notes_have_pvh::<FileHeader64<Endianness>>(elf).map_err(bad),
        Some(1) => notes_have_pvh::<FileHeader32<Endianness>>(elf).map_err(bad),
        _ => Err(ImageError::BadElf("neither of 32 nor of 64 bits".to_owned())),
    }
}

fn notes_have_pvh<Elf: FileHeader<Endian = Endianness>>(
    elf: &[u8],
) -> Result<bool, object::read::Error> {
    let header = Elf::parse(elf)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, elf)? {
        let Some(mut notes) = segment.notes(endian, elf)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == b"Xen" && note.n_type(endian) == PVH_ENTRY_NOTE {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// `Linux version 6.1.0-56-amd64 (…`: the banner, which is in every image in clear.
fn banner_release(elf: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let mut rest = elf;
    while let Some(at) = rest.iter().position(|&byte| byte == b'L') {
        rest = rest.get(at..)?;
        if let Some(release) = rest.strip_prefix(BANNER)
            && release.first().is_some_and(u8::is_ascii_digit)
        {
            return first_word(release);
        }
        rest = rest.get(1..)?;
    }
    None
}

/// The first word, where it can be a release: printable, of sane length, and no path.
fn first_word(text: &[u8]) -> Option<String> {
    let word: Vec<u8> =
        text.iter().copied().take(129).take_while(|byte| byte.is_ascii_graphic()).collect();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_+~".contains(byte);
    let sane = (1..=128).contains(&word.len()) && word.iter().all(plain) && word.first()? != &b'.';
    sane.then(|| String::from_utf8(word).ok()).flatten()
}

fn u16_at(file: &[u8], at: usize) -> Option<u16> {
    file.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    file.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
pub(crate) mod tests;
