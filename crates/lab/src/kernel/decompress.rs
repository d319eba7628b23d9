//! Decompression by magic number, with a bound on what comes out.
//!
//! Kernel images and modules are compressed by whatever the distribution chose: gzip, xz (with the
//! x86 branch filter for images), zstd, or LZ4 in its *legacy* container.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// What an xz dictionary may take, in KiB: the kernel's build uses 128 MiB at most.
const XZ_MEMORY_LIMIT_KIB: u32 = 192 * 1024;

/// What an LZ4 legacy block decompresses to at most; fixed by the format.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;

/// How a blob is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// RFC 1952.
    Gzip,
    /// The .xz format, version 1.
    Xz,
    /// RFC 8878.
    Zstd,
    /// The legacy LZ4 container (`lz4 -l`), as Linux images use it.
    Lz4Legacy,
}

/// Why a blob could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// Damaged or cut short.
    #[error("{method:?} data is damaged or cut short: {source}")]
    Damaged {
        /// The compression.
        method: Method,
        /// The decoder's words.
        source: io::Error,
    },
    /// More comes out than is sensible.
    #[error("decompresses to more than {limit} bytes")]
    TooBig {
        /// The bound, in bytes.
        limit: u64,
    },
}

/// Tells the compression by its magic number; `None` when it is none of these.
#[must_use]
pub fn sniff(data: &[u8]) -> Option<Method> {
    match data {
        [0x1f, 0x8b, ..] => Some(Method::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Method::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Method::Zstd),
        [0x02, 0x21, 0x4c, 0x18, ..] => Some(Method::Lz4Legacy),
        _ => None,
    }
}

/// Decompresses one stream; bytes behind its end are ignored, for the kernel's build appends the
/// unpacked size to most of its payloads.
///
/// # Errors
/// When the data is damaged, or more than `limit` bytes would come out.
pub fn decompress(method: Method, data: &[u8], limit: u64) -> Result<Vec<u8>, DecompressError> {
    let damaged = |source| DecompressError::Damaged { method, source };
    let mut out = Vec::new();
    match method {
        Method::Lz4Legacy => return lz4_legacy(data, limit),
        _ => reader(method, data)
            .and_then(|reader| reader.take(limit.saturating_add(1)).read_to_end(&mut out))
            .map_err(damaged)?,
    };
    if u64::try_from(out.len()).is_ok_and(|length| length <= limit) {
        Ok(out)
    } else {
        Err(DecompressError::TooBig { limit })
    }
}

/// A decompressing reader over a stream.
///
/// # Errors
/// When the stream's header is damaged, or the method has no streaming form (LZ4 legacy).
pub fn reader<'a>(method: Method, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match method {
        Method::Gzip => Box::new(GzDecoder::new(source)),
        Method::Xz => Box::new(XzReader::new_mem_limit(source, false, XZ_MEMORY_LIMIT_KIB)),
        Method::Zstd => Box::new(StreamingDecoder::new(source).map_err(io::Error::other)?),
        Method::Lz4Legacy => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "LZ4 legacy does not stream"));
        }
    })
}

/// The legacy container has no end mark: blocks, each led by its packed length, until the data
/// ends. Fewer than five bytes cannot be a block; they are the size that the build appends.
fn lz4_legacy(data: &[u8], limit: u64) -> Result<Vec<u8>, DecompressError> {
    let damaged = |why: String| DecompressError::Damaged {
        method: Method::Lz4Legacy,
        source: io::Error::new(io::ErrorKind::InvalidData, why),
    };
    let mut rest = data.get(4..).unwrap_or_default();
    let mut out = Vec::new();
    let mut block = vec![0; LZ4_LEGACY_BLOCK];
    while let Some((head, tail)) = rest.split_first_chunk::<4>().filter(|(_, t)| !t.is_empty()) {
        let packed = usize::try_from(u32::from_le_bytes(*head))
            .ok()
            .and_then(|length| tail.split_at_checked(length))
            .ok_or_else(|| damaged("a block is longer than the data".to_owned()))?;
        let length = lz4_flex::block::decompress_into(packed.0, &mut block)
            .map_err(|error| damaged(error.to_string()))?;
        out.extend_from_slice(block.get(..length).unwrap_or_default());
        if u64::try_from(out.len()).is_ok_and(|length| length > limit) {
            return Err(DecompressError::TooBig { limit });
        }
        rest = packed.1;
    }
    if out.is_empty() { Err(damaged("no block".to_owned())) } else { Ok(out) }
}
