use super::*;

fn resolve_from(known: &[(&str, &str)]) -> Result<Vec<Package>, KernelError> {
    resolve(&mut |name| {
        Ok(known.iter().find(|(found, _)| *found == name).map(|(_, text)| (*text).to_owned()))
    })
}

fn package(name: &str, version: &str, size: u64) -> Package {
    Package { name: name.to_owned(), version: version.to_owned(), size }
}

#[test]
fn debian_has_one_package() {
    let packages = resolve_from(&[
        (
            "linux-image-amd64",
            "Package: linux-image-amd64\nVersion: 6.1.192-2\n\
             Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n\
             Description: Linux for 64-bit PCs (meta-package)\nSize: 1484\n",
        ),
        (
            "linux-image-6.1.0-56-amd64",
            "Package: linux-image-6.1.0-56-amd64\nVersion: 6.1.192-2\nSize: 70550672\n\
             Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120) | linux-initramfs-tool\n\
             Breaks: linux-image-4.0 (<< 3)\n",
        ),
    ]);
    assert_eq!(packages.unwrap(), [package("linux-image-6.1.0-56-amd64", "6.1.192-2", 70_550_672)]);
}

#[test]
fn ubuntu_splits_off_the_modules() {
    let packages = resolve_from(&[
        (
            "linux-image-generic",
            "Package: linux-image-generic\nVersion: 6.8.0-45.45\nDepends: \
             linux-image-6.8.0-45-generic, linux-modules-extra-6.8.0-45-generic, linux-firmware\n",
        ),
        (
            "linux-image-6.8.0-45-generic",
            "Version: 6.8.0-45.45\nDepends: kmod, linux-base (>= 4.5ubuntu1~16.04.1), \
             linux-modules-6.8.0-45-generic\nSize: 3\n",
        ),
        (
            "linux-modules-extra-6.8.0-45-generic",
            "Version: 6.8.0-45.45\nDepends: linux-image-6.8.0-45-generic | \
             linux-image-unsigned-6.8.0-45-generic\nSize: 2\n",
        ),
        ("linux-modules-6.8.0-45-generic", "Version: 6.8.0-45.45\nSize: 1\n"),
    ]);
    let version = "6.8.0-45.45";
    assert_eq!(
        packages.unwrap(),
        [
            package("linux-image-6.8.0-45-generic", version, 3),
            package("linux-modules-6.8.0-45-generic", version, 1),
            package("linux-modules-extra-6.8.0-45-generic", version, 2),
        ]
    );
}

#[test]
fn empty_package_lists_are_told_with_the_remedy() {
    let error = resolve_from(&[]).unwrap_err().to_string();
    assert!(error.contains("apt-get update") && error.contains("linux-image-amd64"), "{error}");
}

#[test]
fn a_dangling_dependency_is_named() {
    let meta = ("linux-image-amd64", "Version: 1\nDepends: linux-image-6.1.0-1-amd64 (= 1)\n");
    let error = resolve_from(&[meta]).unwrap_err().to_string();
    assert!(error.contains("linux-image-6.1.0-1-amd64"), "{error}");
    let error = resolve_from(&[meta, ("linux-image-6.1.0-1-amd64", "Size: 1\n")]).unwrap_err();
    assert!(error.to_string().contains("no version"), "{error}");
}

#[test]
fn names_that_are_no_package_names_are_not_passed_on() {
    assert_eq!(
        parts_of("Depends: linux-image-6;rm, linux-image-$HOME1, linux-image-6.1/x"),
        [""; 0]
    );
}

#[test]
fn without_apt_the_error_says_what_to_type() {
    assert!(no_apt(&|tool| tool == "dnf").contains("dnf install kernel-core kernel-modules"));
    assert!(no_apt(&|tool| tool == "pacman").contains("pacman -S linux"));
    assert!(no_apt(&|_| false).contains("--kernel IMAGE"));
}
