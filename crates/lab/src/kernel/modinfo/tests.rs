use std::path::PathBuf;

use super::*;
use crate::kernel::image::tests::{gzip, xz, zstd};

/// An ELF64 relocatable with a `.modinfo` section and the names of sections.
pub(crate) fn module(name: &str, depends: &str) -> Vec<u8> {
    let info = format!("license=GPL\0depends={depends}\0name={name}\0vermagic=6.1.0 SMP\0");
    let names = b"\0.modinfo\0.shstrtab\0";
    let info_at = 64;
    let names_at = info_at + info.len();
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let word = |value: usize| u64::try_from(value).unwrap().to_le_bytes();
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 1; // ET_REL
    elf[18] = 62; // EM_X86_64
    elf[20] = 1;
    elf[40..48].copy_from_slice(&word(sections_at));
    elf[52] = 64; // e_ehsize
    elf[58] = 64; // e_shentsize
    elf[60] = 3; // e_shnum
    elf[62] = 2; // e_shstrndx
    elf.extend(info.as_bytes());
    elf.extend(names);
    elf.resize(sections_at + 64, 0);
    for (name_at, kind, at, length) in
        [(1_u32, 1_u32, info_at, info.len()), (10, 3, names_at, names.len())]
    {
        elf.extend([name_at, kind].map(u32::to_le_bytes).concat());
        elf.extend([0, 0, at, length, 0, 1, 0].map(word).concat());
    }
    elf
}

/// A tree as a package unpacks it; each module as (path, depends), packed by its extension.
pub(crate) fn tree(dir: &Path, modules: &[(&str, &str)], builtin: &str) {
    for (path, depends) in modules {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let plain = module(&module_name(path).unwrap(), depends);
        let bytes = match path.rsplit('.').next() {
            Some("gz") => gzip(&plain),
            Some("xz") => xz(&plain, false),
            Some("zst") => zstd(&plain),
            _ => plain,
        };
        fs::write(file, bytes).unwrap();
    }
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("modules.builtin"), builtin).unwrap();
}

pub(crate) const VIRTIO: &[(&str, &str)] = &[
    ("kernel/drivers/net/virtio_net.ko", "net_failover,virtio,virtio_ring"),
    ("kernel/drivers/net/net_failover.ko.gz", "failover"),
    ("kernel/net/core/failover.ko.xz", ""),
    ("kernel/drivers/virtio/virtio.ko.zst", ""),
    ("kernel/drivers/virtio/virtio-ring.ko", "virtio"),
    ("kernel/drivers/net/ethernet/intel/e1000/e1000.ko", ""),
];

#[test]
fn modules_dep_has_the_form_that_kmod_reads() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "");
    assert!(write_modules_dep(dir.path()).unwrap().is_empty());
    assert_eq!(
        fs::read_to_string(dir.path().join("modules.dep")).unwrap(),
        "kernel/drivers/net/ethernet/intel/e1000/e1000.ko:\n\
         kernel/drivers/net/net_failover.ko.gz: kernel/net/core/failover.ko.xz\n\
         kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko.gz \
         kernel/net/core/failover.ko.xz kernel/drivers/virtio/virtio-ring.ko \
         kernel/drivers/virtio/virtio.ko.zst\n\
         kernel/drivers/virtio/virtio-ring.ko: kernel/drivers/virtio/virtio.ko.zst\n\
         kernel/drivers/virtio/virtio.ko.zst:\n\
         kernel/net/core/failover.ko.xz:\n"
    );
}

#[test]
fn what_is_not_in_the_tree_is_told() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &[("kernel/a.ko", "b,crc32")], "");
    let needs: Vec<String> =
        write_modules_dep(dir.path()).unwrap().into_iter().map(|one| one.needs).collect();
    assert_eq!(needs, ["b", "crc32"]);
}

#[test]
fn only_what_is_asked_for_is_read() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "");
    fs::write(dir.path().join("kernel/damaged.ko"), "no module").unwrap();
    let files = files(dir.path()).unwrap();
    let (graph, _) = scan(dir.path(), &files, [files["net_failover"].clone()]).unwrap();
    let paths: Vec<&String> = graph.keys().collect();
    assert_eq!(paths, ["kernel/drivers/net/net_failover.ko.gz", "kernel/net/core/failover.ko.xz"]);
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &[("kernel/a.ko", "")], "");
    std::os::unix::fs::symlink(dir.path(), dir.path().join("kernel/build")).unwrap();
    assert_eq!(files(dir.path()).unwrap().len(), 1);
}

#[test]
fn a_damaged_module_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("bad.ko");
    for bytes in [&b""[..], b"\x7fELF", b"text", &[0x1f, 0x8b, 8], &module("x", "")[..100]] {
        fs::write(&path, bytes).unwrap();
        let error = write_modules_dep(dir.path()).unwrap_err().to_string();
        assert!(error.contains("bad.ko") && error.contains("kernel fetch"), "{error}");
    }
}

#[test]
fn damaged_modules_never_panic() {
    let good = module("virtio_net", "net_failover,virtio");
    assert_eq!(depends(&good).unwrap(), ["net_failover", "virtio"]);
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = depends(&bad);
        }
        assert!(depends(&good[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn cycles_end_and_depth_is_no_matter() {
    let mut graph = Graph::new();
    graph.insert("a".into(), vec!["b".into()]);
    graph.insert("b".into(), vec!["a".into()]);
    assert_eq!(load_order(&graph, "a"), ["b", "a"]);
    for index in 0..100_000 {
        graph.insert(format!("{index}"), vec![format!("{}", index + 1)]);
    }
    assert_eq!(load_order(&graph, "0").len(), 100_001);
}

#[test]
fn names_of_files_and_modules() {
    assert_eq!(module_name("a/b/snd-hda.ko.zst").as_deref(), Some("snd_hda"));
    assert_eq!(module_name("8139cp.ko").as_deref(), Some("8139cp"));
    for none in ["a.ko.bak", ".ko", "modules.dep", "x.ko/", ""] {
        assert_eq!(module_name(none), None, "{none}");
    }
}
