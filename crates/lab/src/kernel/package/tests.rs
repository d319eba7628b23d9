use super::*;
use crate::kernel::image::tests::{bzimage, elf, gzip, xz, zstd};
use crate::kernel::modinfo::tests::module;

/// A .deb with the given files; `pack` compresses its data.
pub(crate) fn deb(
    path: &Path,
    member: &str,
    files: &[(&str, Vec<u8>)],
    pack: impl Fn(&[u8]) -> Vec<u8>,
) {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        // Set by hand, for the crate refuses the hostile names that the tests want.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, bytes.as_slice()).unwrap();
    }
    let data = pack(&tar.into_inner().unwrap());
    let mut archive = ar::Builder::new(File::create(path).unwrap());
    for (name, bytes) in [("debian-binary", b"2.0\n".as_slice()), (member, &data)] {
        let header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        archive.append(&header, bytes).unwrap();
    }
}

pub(crate) fn kernel_files(release: &str) -> Vec<(&'static str, Vec<u8>)> {
    assert_eq!(release, "6.1.0-t");
    let of = |name: &str, depends: &str| module(name, depends);
    vec![
        ("./boot/vmlinuz-6.1.0-t", bzimage(&gzip(&elf(18, release)), release)),
        ("./boot/System.map-6.1.0-t", b"map".to_vec()),
        ("./lib/modules/6.1.0-t/modules.builtin", b"kernel/drivers/x/shpchp.ko\n".to_vec()),
        ("./lib/modules/6.1.0-t/kernel/drivers/net/virtio_net.ko", of("virtio_net", "far_away")),
        ("./lib/modules/6.1.0-t/kernel/sound/far-away.ko", of("far_away", "")),
        ("./lib/modules/6.1.0-t/kernel/sound/loud.ko", of("loud", "")),
        ("./lib/modules/6.1.0-t/kernel/drivers/net/wireless/w.ko", of("w", "")),
        ("./usr/share/doc/readme", b"text".to_vec()),
    ]
}

#[test]
fn a_package_gives_image_and_the_modules_that_guests_need() {
    type Pack = fn(&[u8]) -> Vec<u8>;
    let forms: [(&str, Pack); 4] = [
        ("data.tar", <[u8]>::to_vec),
        ("data.tar.gz", gzip),
        ("data.tar.xz", |data| xz(data, false)),
        ("data.tar.zst", zstd),
    ];
    for (member, pack) in forms {
        let dir = tempfile::tempdir().unwrap();
        let (file, tree) = (dir.path().join("x.deb"), dir.path().join("tree"));
        deb(&file, member, &kernel_files("6.1.0-t"), pack);
        assert_eq!(unpack(&file, &tree).unwrap().as_deref(), Some("6.1.0-t"), "{member}");
        let modules = tree.join(MODULES);
        assert!(modules.join("kernel/sound/loud.ko").exists());
        let (count, unresolved) = prune(&modules).unwrap();
        assert_eq!((count, unresolved.len()), (2, 0));
        assert_eq!(
            fs::read_to_string(modules.join("modules.dep")).unwrap(),
            "kernel/drivers/net/virtio_net.ko: kernel/sound/far-away.ko\n\
             kernel/sound/far-away.ko:\n"
        );
        assert!(!modules.join("kernel/sound/loud.ko").exists());
        assert!(!modules.join("kernel/drivers/net/wireless").exists());
        assert!(tree.join("vmlinuz").exists() && !tree.join("System.map-6.1.0-t").exists());
    }
}

#[test]
fn nothing_is_written_outside() {
    let dir = tempfile::tempdir().unwrap();
    let (file, tree) = (dir.path().join("x.deb"), dir.path().join("a/tree"));
    let names = [
        "../evil.ko",
        "/evil.ko",
        "lib/modules/x/../../../../evil.ko",
        "lib/modules/../evil.ko",
        "boot/vmlinuz-x/../../../evil",
    ];
    let files: Vec<_> = names.iter().map(|&name| (name, b"evil".to_vec())).collect();
    deb(&file, "data.tar", &files, <[u8]>::to_vec);
    assert_eq!(unpack(&file, &tree).unwrap(), None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn damaged_packages_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (file, tree) = (dir.path().join("x.deb"), dir.path().join("tree"));
    deb(&file, "data.tar.xz", &kernel_files("6.1.0-t"), |data| xz(data, false));
    let whole = fs::read(&file).unwrap();
    for length in (0..whole.len() - 2).step_by(whole.len() / 40) {
        fs::write(&file, &whole[..length]).unwrap();
        let error = unpack(&file, &tree).unwrap_err();
        assert!(matches!(error, KernelError::BadPackage { .. }), "cut at {length}: {error}");
    }
    deb(&file, "data.tar.lzma", &[], <[u8]>::to_vec);
    assert!(unpack(&file, &tree).unwrap_err().to_string().contains("data.tar.lzma"));
    deb(&file, "control.tar", &[], <[u8]>::to_vec);
    assert!(unpack(&file, &tree).unwrap_err().to_string().contains("no data.tar"));
}
