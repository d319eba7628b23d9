use super::*;
use crate::kernel::Boot;
use crate::kernel::image::tests::{bzimage, elf, gzip};
use crate::kernel::modinfo::tests::tree;

const NET: &[(&str, &str)] = &[("kernel/virtio_net.ko", ""), ("kernel/e1000.ko", "")];
const CLOUD: &[(&str, &str)] = &[("kernel/virtio_net.ko", "")];

/// A fake host, with its cache in it.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn write(&self, path: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn image(&self, path: &str, release: &str) -> PathBuf {
        self.write(path, &bzimage(&gzip(&elf(18, release)), release))
    }

    fn in_boot(&self, release: &str, modules: &[(&str, &str)]) {
        self.image(&format!("boot/vmlinuz-{release}"), release);
        tree(&self.0.path().join("lib/modules").join(release), modules, "");
    }

    fn in_cache(&self, release: &str, modules: &[(&str, &str)]) {
        self.image(&format!("cache/{release}/vmlinuz"), release);
        tree(&self.cache().join(release).join("modules"), modules, "");
        let text = format!(r#"{{"release":"{release}","packages":[],"boot":"pvh"}}"#);
        self.write(&format!("cache/{release}/kernel.json"), text.as_bytes());
    }

    fn find_with(
        &self,
        image: Option<&Path>,
        modules: Option<&Path>,
        wanted: &[&str],
    ) -> Result<GuestKernel, KernelError> {
        let (root, cache) = (self.0.path(), self.cache());
        find(&Request { image, modules, root, running: "6.1.0-run", cache: &cache, wanted })
    }

    fn find(&self, wanted: &[&str]) -> Result<GuestKernel, KernelError> {
        self.find_with(None, None, wanted)
    }
}

#[test]
fn the_running_kernel_comes_before_newer_ones_and_the_cache() {
    let host = Host::new();
    host.in_cache("7.0.0", NET);
    assert_eq!(host.find(&["e1000"]).unwrap().source, Source::Cache);
    host.in_boot("6.9.0", NET);
    host.in_boot("6.10.0", NET);
    assert_eq!(host.find(&["e1000"]).unwrap().release, "6.10.0");
    host.in_boot("6.1.0-run", NET);
    let kernel = host.find(&["e1000"]).unwrap();
    assert_eq!((kernel.release.as_str(), kernel.source), ("6.1.0-run", Source::Host));
    assert_eq!(kernel.modules.unwrap(), host.0.path().join("lib/modules/6.1.0-run"));
}

#[test]
fn a_host_kernel_that_lacks_a_driver_is_passed_over() {
    let host = Host::new();
    host.in_boot("6.1.0-run", CLOUD);
    host.in_cache("6.1.0-9", NET);
    host.in_cache("6.1.0-56", NET);
    assert_eq!(host.find(&["virtio_net"]).unwrap().source, Source::Host);
    assert_eq!(host.find(&["virtio-net", "e1000"]).unwrap().release, "6.1.0-56");
}

#[test]
fn fedora_keeps_the_image_with_the_modules() {
    let host = Host::new();
    host.image("usr/lib/modules/6.5.6-300.fc39/vmlinuz", "6.5.6-300.fc39");
    tree(&host.0.path().join("usr/lib/modules/6.5.6-300.fc39"), NET, "");
    assert_eq!(host.find(&["e1000"]).unwrap().source, Source::Host);
}

#[test]
fn when_none_fits_the_error_says_what_each_lacked_and_what_to_do() {
    let host = Host::new();
    let empty = host.find(&["e1000"]).unwrap_err().to_string();
    assert!(empty.contains("boot") && empty.contains("cache"), "{empty}");
    host.in_boot("6.1.0-run", CLOUD);
    host.in_boot("5.10.0", &[]);
    host.write("boot/vmlinuz-5.10.0", b"not a kernel");
    host.in_cache("6.1.0-9", CLOUD);
    let error = host.find(&["e1000", "virtio_net", "igb"]).unwrap_err().to_string();
    for part in [
        "boot/vmlinuz-6.1.0-run: kernel 6.1.0-run lacks the modules e1000, igb in ",
        "not a Linux kernel",
        "cache/6.1.0-9/vmlinuz: kernel 6.1.0-9 lacks",
        "`vioperf kernel fetch`",
        "--kernel",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn a_given_kernel_is_used_or_refused_but_never_replaced() {
    let host = Host::new();
    host.in_boot("6.1.0-run", NET);
    let image = host.image("home/bzImage", "6.8.0-own");
    let error = host.find_with(Some(&image), None, &["e1000"]).unwrap_err().to_string();
    assert!(error.contains("no module directory") && error.contains("e1000"), "{error}");
    // Without wanted modules none are needed.
    assert_eq!(host.find_with(Some(&image), None, &[]).unwrap().modules, None);

    let beside = host.0.path().join("home/lib/modules/6.8.0-own");
    tree(&beside, NET, "");
    let kernel = host.find_with(Some(&image), None, &["e1000"]).unwrap();
    assert_eq!((kernel.source, kernel.modules.unwrap()), (Source::Given, beside));

    let other = host.0.path().join("other");
    let error = host.find_with(Some(&image), Some(&other), &[]).unwrap_err().to_string();
    assert!(error.contains("no directory"), "{error}");
    tree(&other, CLOUD, "");
    assert!(host.find_with(Some(&image), Some(&other), &["e1000"]).is_err());
    assert!(host.find_with(Some(&image), Some(&other), &["virtio_net"]).is_ok());
    assert!(host.find_with(Some(Path::new("/nowhere/vmlinuz")), None, &[]).is_err());
}

#[test]
fn the_boot_file_of_a_host_kernel_is_extracted_once() {
    let host = Host::new();
    host.in_boot("6.1.0-run", NET);
    let kernel = host.find(&["e1000"]).unwrap();
    let mut said = Vec::new();
    let first = kernel.boot_file(&host.cache(), &mut |line| said.push(line.to_owned())).unwrap();
    assert_eq!(first.boot, Boot::Pvh);
    assert_eq!(fs::read(&first.path).unwrap(), elf(18, "6.1.0-run"));
    assert_eq!(said.len(), 1);
    assert_eq!(kernel.boot_file(&host.cache(), &mut |line| panic!("{line}")).unwrap(), first);
    // The directory of extracted images is no kernel.
    assert!(cache::list(&host.cache()).unwrap().is_empty());
}

#[test]
fn what_needs_no_extraction_boots_as_it_is() {
    let host = Host::new();
    let plain = host.write("vmlinux", &elf(18, "6.1.0"));
    let classic = host.write("bz", &bzimage(&gzip(&elf(1, "6.1.0")), "6.1.0"));
    for (path, boot) in [(plain, Boot::Pvh), (classic, Boot::BzImage)] {
        let kernel = host.find_with(Some(&path), None, &[]).unwrap();
        let file = kernel.boot_file(&host.cache(), &mut |line| panic!("{line}")).unwrap();
        assert_eq!((file.path, file.boot), (path, boot));
    }
    assert!(!host.cache().exists());
}
