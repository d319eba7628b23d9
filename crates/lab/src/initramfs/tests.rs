use std::collections::BTreeMap;

use super::*;
use crate::kernel::ModuleTree;
use crate::kernel::modinfo::tests::{VIRTIO, tree};

struct Entry {
    mode: u32,
    device: (u32, u32),
    inode: u32,
    mtime: u32,
    data: Vec<u8>,
}

/// Reads an archive strictly: every padding byte zero, every offset aligned.
fn read(mut archive: &[u8]) -> Vec<(String, Entry)> {
    let whole = archive.len();
    let mut entries = Vec::new();
    loop {
        assert_eq!((whole - archive.len()) % 4, 0, "aligned");
        assert_eq!(&archive[..6], b"070701");
        let field = |index: usize| {
            let text = std::str::from_utf8(&archive[6 + index * 8..14 + index * 8]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        let (size, name_size) = (field(6) as usize, field(11) as usize);
        let data_at = (110 + name_size).next_multiple_of(4);
        let end = (data_at + size).next_multiple_of(4);
        assert!(archive[110 + name_size - 1..data_at].iter().all(|&byte| byte == 0));
        assert!(archive[data_at + size..end].iter().all(|&byte| byte == 0));
        let name = String::from_utf8(archive[110..110 + name_size - 1].to_vec()).unwrap();
        let entry = Entry {
            mode: field(1),
            device: (field(9), field(10)),
            inode: field(0),
            mtime: field(5),
            data: archive[data_at..data_at + size].to_vec(),
        };
        archive = &archive[end..];
        if name == "TRAILER!!!" {
            assert!(archive.is_empty());
            return entries;
        }
        entries.push((name, entry));
    }
}

fn sample(agent: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "kernel/drivers/pci/hotplug/shpchp.ko\n");
    let tree = ModuleTree::open(dir.path(), "6.1.0").unwrap();
    let modules = tree.collect(&["virtio_net", "e1000", "virtio-net"], &["shpchp"]).unwrap();
    let mut out = Vec::new();
    Initramfs { agent, modules: &modules, programs: &Programs::default() }.write(&mut out).unwrap();
    out
}

#[test]
fn everything_is_there_with_its_mode() {
    for length in 0..9 {
        let agent = vec![7; length];
        let entries = read(&sample(&agent));
        let modes: Vec<(&str, u32)> =
            entries.iter().map(|(name, entry)| (name.as_str(), entry.mode)).collect();
        assert_eq!(
            modes,
            [
                ("dev", 0o040_755),
                ("proc", 0o040_755),
                ("sys", 0o040_755),
                ("tmp", 0o040_755),
                ("lib", 0o040_755),
                ("lib/modules", 0o040_755),
                ("dev/console", 0o020_600),
                ("dev/null", 0o020_666),
                ("init", 0o100_755),
                ("lib/modules/manifest.json", 0o100_644),
                ("lib/modules/000-virtio.ko", 0o100_644),
                ("lib/modules/001-virtio_ring.ko", 0o100_644),
                ("lib/modules/002-failover.ko", 0o100_644),
                ("lib/modules/003-net_failover.ko", 0o100_644),
                ("lib/modules/004-virtio_net.ko", 0o100_644),
                ("lib/modules/005-e1000.ko", 0o100_644),
            ]
        );
        let find = |name: &str| &entries.iter().find(|(found, _)| found == name).unwrap().1;
        assert_eq!(find("init").data, agent);
        assert_eq!(find("dev/console").device, (5, 1));
        assert_eq!(find("dev/null").device, (1, 3));
        assert!(find("lib/modules/002-failover.ko").data.starts_with(b"\x7fELF"));
        for (index, (_, entry)) in entries.iter().enumerate() {
            assert_eq!((entry.inode as usize, entry.mtime), (index + 1, 0));
        }
    }
}

#[test]
fn the_manifest_names_files_that_are_there_in_the_order_of_loading() {
    let entries = read(&sample(b"agent"));
    let (_, manifest) = entries.iter().find(|(name, _)| MANIFEST.ends_with(name)).unwrap();
    let manifest: BTreeMap<String, Vec<String>> = serde_json::from_slice(&manifest.data).unwrap();
    assert_eq!(manifest["shpchp"], [""; 0]);
    assert_eq!(manifest["e1000"], ["/lib/modules/005-e1000.ko"]);
    assert_eq!(
        manifest["virtio_net"],
        [
            "/lib/modules/000-virtio.ko",
            "/lib/modules/001-virtio_ring.ko",
            "/lib/modules/002-failover.ko",
            "/lib/modules/003-net_failover.ko",
            "/lib/modules/004-virtio_net.ko"
        ]
    );
    assert_eq!(manifest.len(), 3);
}

#[test]
fn equal_contents_give_equal_bytes() {
    assert_eq!(sample(b"agent"), sample(b"agent"));
}

#[test]
fn an_error_of_the_writer_comes_through() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let modules = ModuleSet::default();
    let error = Initramfs { agent: b"", modules: &modules, programs: &Programs::default() }
        .write(Full)
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn what_a_visitor_gets_is_there_with_its_folders_and_else_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "");
    let modules =
        ModuleTree::open(dir.path(), "6.1.0").unwrap().collect(&["virtio_net"], &[]).unwrap();
    let names = |programs: &Programs| {
        let mut out = Vec::new();
        Initramfs { agent: b"agent", modules: &modules, programs }.write(&mut out).unwrap();
        read(&out).into_iter().map(|(name, entry)| (name, entry.mode)).collect::<Vec<_>>()
    };
    let without = names(&Programs::default());
    assert!(without.iter().all(|(name, _)| !name.starts_with("bin")));
    let mut programs = Programs::default();
    programs.add("sh").unwrap();
    let with = names(&programs);
    assert!(without.iter().all(|entry| with.contains(entry)));
    assert!(with.contains(&("bin/sh".to_owned(), 0o100_755)));
    let place = |name: &str| with.iter().position(|(known, _)| known == name);
    assert!(place("bin").is_some() && place("bin") < place("bin/sh"));
    let mut unique: Vec<_> = with.iter().map(|(name, _)| name).collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), with.len());
}
