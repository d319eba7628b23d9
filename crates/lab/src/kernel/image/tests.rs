use std::io::Write;

use super::*;

/// An ELF64 with one `PT_NOTE` segment (a Xen note of the given type) and a banner.
pub(crate) fn elf(note_type: u32, release: &str) -> Vec<u8> {
    let mut elf = vec![0; 64 + 56];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 2; // ET_EXEC
    elf[18] = 62; // EM_X86_64
    elf[20] = 1;
    elf[32] = 64; // e_phoff
    elf[52] = 64; // e_ehsize
    elf[54] = 56; // e_phentsize
    elf[56] = 1; // e_phnum
    elf[58] = 64; // e_shentsize
    let note = [4, 8, note_type].map(u32::to_le_bytes).concat();
    elf[64] = 4; // PT_NOTE
    elf[64 + 8] = 120; // p_offset
    elf[64 + 32] = 24; // p_filesz
    elf[64 + 40] = 24; // p_memsz
    elf[64 + 48] = 4; // p_align
    elf.extend(note);
    elf.extend(b"Xen\0");
    elf.extend([0; 8]);
    elf.extend(b"Linux \0Linux version \0");
    elf.extend(format!("Linux version {release} (someone) #1 SMP\n\0").as_bytes());
    // Something that a branch filter would alter, and that compresses.
    elf.extend([0xe8, 0x10, 0x20, 0, 0, 0x90, 0xe9, 0x44, 0x33, 0, 0].repeat(4000));
    elf
}

/// A bzImage around a payload, as the kernel's build lays it out.
pub(crate) fn bzimage(payload: &[u8], release: &str) -> Vec<u8> {
    let mut image = vec![0; 3 * 512 + 64];
    image[SETUP_SECTS] = 2;
    image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
    image[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
    image[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x180_u16.to_le_bytes());
    let text = format!("{release} (builder@host) #1\0");
    image[0x380..0x380 + text.len()].copy_from_slice(text.as_bytes());
    image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&64_u32.to_le_bytes());
    let length = u32::try_from(payload.len()).unwrap();
    image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
    image.extend(payload);
    image.extend([0xcc; 100]);
    image
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}

/// As the kernel's build does: CRC32, and for images the x86 branch filter.
pub(crate) fn xz(data: &[u8], branch_filter: bool) -> Vec<u8> {
    let mut options = lzma_rust2::XzOptions::with_preset(1);
    options.set_check_sum_type(lzma_rust2::CheckType::Crc32);
    if branch_filter {
        options.prepend_pre_filter(lzma_rust2::FilterType::BcjX86, 0);
    }
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}

pub(crate) fn zstd(data: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Two blocks, to see that they are put together.
fn lz4_legacy(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x02, 0x21, 0x4c, 0x18];
    for part in data.chunks(data.len().div_ceil(2)) {
        let packed = lz4_flex::block::compress(part);
        out.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
        out.extend(packed);
    }
    out
}

/// What the build appends to all but gzip.
fn with_size(mut packed: Vec<u8>, data: &[u8]) -> Vec<u8> {
    packed.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    packed
}

fn all_packed(data: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("gzip", gzip(data)),
        ("xz", with_size(xz(data, true), data)),
        ("xz without filter", with_size(xz(data, false), data)),
        ("zstd", with_size(zstd(data), data)),
        ("lz4", with_size(lz4_legacy(data), data)),
        ("lz4 without size", lz4_legacy(data)),
    ]
}

#[test]
fn the_elf_comes_out_of_every_compression() {
    let kernel = elf(18, "6.1.0-test");
    for (name, payload) in all_packed(&kernel) {
        let image = bzimage(&payload, "6.1.0-test");
        assert_eq!(release(&image).unwrap(), "6.1.0-test", "{name}");
        assert_eq!(release(&image[..0x400]).unwrap(), "6.1.0-test", "{name}: head only");
        let found = boot_image(image).unwrap();
        assert_eq!(found.boot, Boot::Pvh, "{name}");
        assert!(found.bytes == kernel, "{name}");
    }
}

#[test]
fn without_pvh_entry_the_image_itself_boots() {
    let image = bzimage(&gzip(&elf(17, "6.1.0-x")), "6.1.0-x");
    let found = boot_image(image.clone()).unwrap();
    assert_eq!(found, BootImage { bytes: image, boot: Boot::BzImage });
}

#[test]
fn an_image_packed_in_an_unknown_way_boots_itself() {
    let image = bzimage(b"BZh91AY&SY-and-so-on", "6.1.0-x");
    assert_eq!(boot_image(image).unwrap().boot, Boot::BzImage);
}

#[test]
fn a_plain_or_packed_vmlinux_is_taken() {
    let kernel = elf(18, "6.6.1-plain");
    assert_eq!(boot_image(kernel.clone()).unwrap().boot, Boot::Pvh);
    assert_eq!(release(&kernel).unwrap(), "6.6.1-plain");
    let packed = xz(&kernel, false);
    assert_eq!(release(&packed).unwrap(), "6.6.1-plain");
    assert!(boot_image(packed).unwrap().bytes == kernel);
}

#[test]
fn a_vmlinux_without_pvh_entry_is_refused_with_advice() {
    let error = boot_image(elf(1, "6.1.0")).unwrap_err();
    assert!(matches!(error, ImageError::NoPvh));
    assert!(error.to_string().contains("vmlinuz"), "{error}");
}

#[test]
fn what_is_no_kernel_is_said_to_be_none() {
    for file in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 70_000], &gzip(b"some text")] {
        let error = boot_image(file.to_vec()).unwrap_err();
        assert!(matches!(error, ImageError::NotAKernel | ImageError::BadElf(_)), "{error}");
        assert!(release(file).is_err());
    }
    let mut old = bzimage(b"x", "2.6");
    old[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x205_u16.to_le_bytes());
    assert_eq!(
        boot_image(old).unwrap_err().to_string(),
        "boot protocol 2.5 is too old, 2.08 (Linux 2.6.26) is needed"
    );
}

#[test]
fn a_release_that_could_be_a_path_is_refused() {
    for bad in ["../../etc", ".hidden", "", "a/b", "x\"y"] {
        assert!(matches!(release(&bzimage(b"", bad)), Err(ImageError::NoRelease)), "{bad}");
    }
}

#[test]
fn cut_images_are_errors() {
    let kernel = elf(18, "6.1.0");
    for (name, payload) in all_packed(&kernel) {
        let image = bzimage(&payload, "6.1.0");
        // The last 100 bytes are not the payload's, and the four before may be the size.
        for length in (0..image.len() - 104).step_by(97) {
            assert!(boot_image(image[..length].to_vec()).is_err(), "{name} cut at {length}");
        }
        // A header that is whole around a payload that is not.
        let half = bzimage(&payload[..payload.len() / 2], "6.1.0");
        assert!(boot_image(half).is_err(), "{name} with half a payload");
    }
}

/// A generator is enough here: what matters is that nothing panics, hangs or eats the memory.
#[test]
fn damaged_images_never_panic() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap()
    };
    let kernel = elf(18, "6.1.0");
    for (_, payload) in all_packed(&kernel) {
        for _ in 0..150 {
            let mut bad = payload.clone();
            for _ in 0..=random() % 4 {
                let at = random() % bad.len().min(200);
                bad[at] = u8::try_from(random() & 0xff).unwrap();
            }
            let mut image = bzimage(&bad, "6.1.0");
            let at = 0x1f1 + random() % 0x80;
            image[at] = u8::try_from(random() & 0xff).unwrap();
            let _ = boot_image(image.clone());
            let _ = release(&image);
        }
    }
    for _ in 0..2000 {
        let mut bad = kernel.clone();
        for _ in 0..=random() % 4 {
            let at = random() % 160;
            bad[at] = u8::try_from(random() & 0xff).unwrap();
        }
        let _ = boot_image(bad);
    }
}

#[test]
fn what_unpacks_too_large_is_refused() {
    let zeros = vec![0; 9 << 20];
    for (name, packed) in all_packed(&zeros) {
        let method = sniff(&packed).unwrap();
        let error = decompress(method, &packed, 1 << 20).unwrap_err();
        assert!(matches!(error, DecompressError::TooBig { .. }), "{name}: {error}");
        assert_eq!(decompress(method, &packed, 9 << 20).unwrap().len(), 9 << 20, "{name}");
    }
}
