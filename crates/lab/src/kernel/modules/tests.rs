use super::*;
use crate::kernel::modinfo::tests::{VIRTIO, tree};

fn names(set: &ModuleSet, wanted: &str) -> Vec<String> {
    let (_, files) = set.wanted().find(|(name, _)| *name == wanted).unwrap();
    files.iter().map(|&index| set.files()[index].name.clone()).collect()
}

#[test]
fn dependencies_come_first_with_and_without_modules_dep() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "kernel/drivers/pci/hotplug/acpiphp.ko\n");
    for written in [false, true] {
        if written {
            modinfo::write_modules_dep(dir.path()).unwrap();
        }
        let tree = ModuleTree::open(dir.path(), "6.1.0").unwrap();
        let set = tree.collect(&["virtio-net", "e1000", "acpiphp"], &["shpchp"]).unwrap();
        assert_eq!(
            names(&set, "virtio_net"),
            ["virtio", "virtio_ring", "failover", "net_failover", "virtio_net"]
        );
        assert_eq!(names(&set, "e1000"), ["e1000"]);
        assert_eq!(names(&set, "acpiphp"), [""; 0]);
        assert!(set.wanted().all(|(name, _)| name != "shpchp"));
        assert!(set.files().iter().all(|file| file.bytes.starts_with(b"\x7fELF")));
        assert_eq!(set.files().len(), 6);
    }
}

#[test]
fn shared_dependencies_are_packed_once_and_in_order_for_each() {
    let dir = tempfile::tempdir().unwrap();
    let modules =
        [("kernel/z.ko", ""), ("kernel/a.ko", "z"), ("kernel/b.ko", "y,z"), ("kernel/y.ko", "z")];
    tree(dir.path(), &modules, "");
    let set = ModuleTree::open(dir.path(), "1").unwrap().collect(&["a", "b"], &[]).unwrap();
    assert_eq!(set.files().len(), 4);
    assert_eq!(names(&set, "a"), ["z", "a"]);
    assert_eq!(names(&set, "b"), ["z", "y", "b"]);
}

#[test]
fn a_missing_module_is_named_with_the_kernel_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), VIRTIO, "");
    let tree = ModuleTree::open(dir.path(), "6.1.0-cloud").unwrap();
    assert_eq!(tree.missing(&["e1000", "vmxnet3"]), ["vmxnet3"]);
    let error = tree.collect(&["vmxnet3"], &[]).unwrap_err().to_string();
    for part in ["`vmxnet3`", "6.1.0-cloud", "vioperf kernel fetch"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_file_that_modules_dep_names_but_is_gone_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("modules.dep"), "kernel/e1000.ko:\n").unwrap();
    let tree = ModuleTree::open(dir.path(), "6.1.0").unwrap();
    let error = tree.collect(&["e1000"], &[]).unwrap_err().to_string();
    assert!(error.contains("kernel/e1000.ko"), "{error}");
}

#[test]
fn malformed_modules_dep_is_told_by_line() {
    let dir = tempfile::tempdir().unwrap();
    for (text, line) in [
        ("kernel/a.ko:\nno colon here\n", "line 2"),
        ("../../etc/passwd.ko:\n", "line 1"),
        ("kernel/a.ko: ../b.ko\n", "line 1"),
        ("kernel/a.txt:\n", "line 1"),
    ] {
        fs::write(dir.path().join("modules.dep"), text).unwrap();
        let error = ModuleTree::open(dir.path(), "1").unwrap_err().to_string();
        assert!(error.contains(line) && error.contains("modules.dep"), "{error}");
    }
}

#[test]
fn the_order_inside_a_line_of_modules_dep_does_not_matter() {
    let graph = parse_dep("c.ko: a.ko b.ko\nb.ko: a.ko\na.ko:\n\n").unwrap();
    assert_eq!(load_order(&graph, "c.ko"), ["a.ko", "b.ko", "c.ko"]);
    let graph = parse_dep("c.ko: b.ko a.ko\nb.ko: a.ko\na.ko:\n").unwrap();
    assert_eq!(load_order(&graph, "c.ko"), ["a.ko", "b.ko", "c.ko"]);
}

#[test]
fn without_modules_dep_a_missing_dependency_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), &[("kernel/a.ko", "b,c-d")], "kernel/c_d.ko\n");
    let error = ModuleTree::open(dir.path(), "1").unwrap().lookup("a").unwrap_err();
    assert!(error.to_string().contains("no module `b`"), "{error}");
    fs::write(dir.path().join("kernel/b.ko"), crate::kernel::modinfo::tests::module("b", ""))
        .unwrap();
    let found = ModuleTree::open(dir.path(), "1").unwrap().lookup("a").unwrap();
    assert_eq!(found, Lookup::Files(vec!["kernel/b.ko".into(), "kernel/a.ko".into()]));
}
