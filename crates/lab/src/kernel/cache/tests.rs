use super::*;
use crate::kernel::image::tests::{bzimage, elf, gzip};
use crate::kernel::modinfo::tests::tree;

fn publish(cache: &Path, release: &str, packages: &[&str]) -> Result<Cached, KernelError> {
    let change = Change::begin(cache, &mut |_| ())?;
    let work = change.work_dir()?;
    let dir = work.path().join("kernel");
    tree(&dir.join(MODULES), &[("kernel/e1000.ko", "")], "");
    fs::write(dir.join(IMAGE), bzimage(&gzip(&elf(18, release)), release)).unwrap();
    change.publish(&dir, release, packages.iter().map(|&name| name.to_owned()).collect())
}

fn names(cache: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn published_kernels_are_listed_newest_first_and_boot_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("deep/kernels");
    assert!(list(&cache).unwrap().is_empty());
    for release in ["6.1.0-9", "6.12.1", "6.1.0-56"] {
        publish(&cache, release, &["linux-image=1"]).unwrap();
    }
    let found = list(&cache).unwrap();
    let releases: Vec<&str> = found.iter().map(|one| one.kernel.release.as_str()).collect();
    assert_eq!(releases, ["6.12.1", "6.1.0-56", "6.1.0-9"]);
    assert_eq!(found[0].description.packages, ["linux-image=1"]);
    let boot = found[0].kernel.boot_file(&cache, &mut |line| panic!("{line}")).unwrap();
    assert_eq!(boot.boot, Boot::Pvh);
    assert_eq!(fs::read(boot.path).unwrap(), elf(18, "6.12.1"));
    assert_eq!(names(&cache), [".lock", "6.1.0-56", "6.1.0-9", "6.12.1"]);
}

#[test]
fn the_same_release_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    publish(dir.path(), "6.1.0", &["a=1"]).unwrap();
    publish(dir.path(), "6.1.0", &["a=2"]).unwrap();
    let found = list(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].description.packages, ["a=2"]);
    assert_eq!(names(dir.path()), [".lock", "6.1.0"]);
}

#[test]
fn what_a_killed_fetch_leaves_is_no_kernel_and_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join(".work-dead/kernel/modules"), &[("kernel/e1000.ko", "")], "");
    fs::create_dir_all(dir.path().join("6.9.9/modules")).unwrap();
    fs::create_dir_all(dir.path().join("6.9.8")).unwrap();
    fs::write(dir.path().join("6.9.8").join(DESCRIPTION), "{\"release\":\"6.9").unwrap();
    assert!(list(dir.path()).unwrap().is_empty());
    drop(Change::begin(dir.path(), &mut |_| ()).unwrap());
    assert!(!dir.path().join(".work-dead").exists());
}

#[test]
fn a_failed_publication_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let change = Change::begin(dir.path(), &mut |_| ()).unwrap();
    let work = change.work_dir().unwrap();
    fs::write(work.path().join(IMAGE), b"no kernel").unwrap();
    let error = change.publish(work.path(), "6.1.0", Vec::new()).unwrap_err();
    assert!(matches!(error, KernelError::Image { .. }), "{error}");
    drop(work);
    assert_eq!(names(dir.path()), [".lock"]);
}

#[test]
fn removing_takes_that_kernel_only() {
    let dir = tempfile::tempdir().unwrap();
    publish(dir.path(), "6.1.0", &[]).unwrap();
    publish(dir.path(), "6.2.0", &[]).unwrap();
    remove(dir.path(), "6.1.0").unwrap();
    assert_eq!(names(dir.path()), [".lock", "6.2.0"]);
    for wrong in ["6.1.0", "..", ".lock", "", "6.2.0/modules"] {
        let error = remove(dir.path(), wrong).unwrap_err();
        assert!(matches!(error, KernelError::NotCached { .. }), "{error}");
    }
    assert_eq!(list(dir.path()).unwrap().len(), 1);
}

#[test]
fn changes_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let first = Change::begin(dir.path(), &mut |_| ()).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut progress = |line: &str| sender.send(line.to_owned()).unwrap();
            drop(Change::begin(dir.path(), &mut progress).unwrap());
        });
        assert!(receiver.recv().unwrap().contains("waiting"));
        drop(first);
    });
}
