//! Unpacking of a distribution's kernel package (.deb) as far as guests need it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use super::cache::MODULES;
use super::decompress::{self, Method};
use super::error::KernelError;
use super::modinfo::{self, module_name};

/// What a kernel package unpacks to at most, in bytes (Debian's full flavour: 0.4 GB).
const MAX_UNPACKED: u64 = 4 << 30;

/// Parts of the module tree that guests of a network and disk testbed can need, with what these
/// depend on, wherever that lies.
pub(super) const KEPT: &[&str] = &[
    "crypto/crc32c_generic",
    "drivers/block/virtio_blk",
    "drivers/block/null_blk",
    "drivers/block/loop",
    "drivers/block/brd",
    "drivers/char/virtio_console",
    "drivers/char/hw_random/virtio-rng",
    "drivers/net/",
    "drivers/nvme/host/",
    "drivers/ata/ahci",
    "drivers/ata/ata_piix",
    "drivers/pci/",
    "drivers/scsi/sd_mod",
    "drivers/scsi/sr_mod",
    "drivers/scsi/sg",
    "drivers/scsi/virtio_scsi",
    "drivers/scsi/vmw_pvscsi",
    "drivers/scsi/scsi_debug",
    "drivers/scsi/sym53c8xx_2/",
    "drivers/scsi/megaraid/megaraid_sas",
    "drivers/message/fusion/mptsas",
    "drivers/message/fusion/mptspi",
    "drivers/vfio/",
    "drivers/vhost/",
    "drivers/virtio/",
    "drivers/xen/",
    "fs/9p/",
    "fs/ext4/",
    "fs/fuse/",
    "net/",
];

/// Parts of [`KEPT`] that no virtual machine has hardware or use for; a third of its size.
const LEFT_OUT: &[&str] = &[
    "drivers/net/arcnet/",
    "drivers/net/can/",
    "drivers/net/fddi/",
    "drivers/net/hamradio/",
    "drivers/net/ieee802154/",
    "drivers/net/phy/",
    "drivers/net/wireless/",
    "drivers/net/wwan/",
    "net/6lowpan/",
    "net/atm/",
    "net/ax25/",
    "net/batman-adv/",
    "net/bluetooth/",
    "net/can/",
    "net/ceph/",
    "net/ieee802154/",
    "net/mac80211/",
    "net/mac802154/",
    "net/netrom/",
    "net/nfc/",
    "net/rds/",
    "net/rose/",
    "net/rxrpc/",
    "net/smc/",
    "net/sunrpc/",
    "net/tipc/",
    "net/wireless/",
];

/// Unpacks a package's image as `<into>/vmlinuz` and its modules below `<into>/modules`, and gives
/// the release of the image where the package has one.
pub(super) fn unpack(deb: &Path, into: &Path) -> Result<Option<String>, KernelError> {
    let mut archive = ar::Archive::new(File::open(deb).map_err(KernelError::io("open", deb))?);
    let bad = |reason: String| KernelError::BadPackage { path: deb.to_owned(), reason };
    while let Some(member) = archive.next_entry() {
        let member = member.map_err(|error| bad(format!("no .deb: {error}")))?;
        let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        let method = match name.trim_end_matches('/').strip_prefix("data.tar") {
            None => continue,
            Some("") => None,
            Some(".gz") => Some(Method::Gzip),
            Some(".xz") => Some(Method::Xz),
            Some(".zst") => Some(Method::Zstd),
            Some(_) => return Err(bad(format!("its {name} is compressed in an unknown way"))),
        };
        let source = BufReader::with_capacity(1 << 20, member);
        let data: Box<dyn Read> = match method {
            None => Box::new(source),
            Some(method) => decompress::reader(method, source).map_err(|e| bad(e.to_string()))?,
        };
        return unpack_tar(data.take(MAX_UNPACKED), into).map_err(|error| match error {
            Unpack::Read(error) => bad(format!("damaged: {error}")),
            Unpack::Write(path, error) => KernelError::io("write", path)(error),
        });
    }
    Err(bad("it has no data.tar".to_owned()))
}

/// Tells a damaged package from a full disk.
enum Unpack {
    Read(io::Error),
    Write(PathBuf, io::Error),
}

fn unpack_tar(data: impl Read, into: &Path) -> Result<Option<String>, Unpack> {
    let mut release = None;
    let mut archive = tar::Archive::new(data);
    for entry in archive.entries().map_err(Unpack::Read)? {
        let mut entry = entry.map_err(Unpack::Read)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().map_err(Unpack::Read)?.into_owned();
        let Some(target) = target(&path, &mut release) else { continue };
        let target = into.join(target);
        write_out(&mut entry, &target)?;
    }
    // Only at its end does a compressed stream tell whether its checksums hold.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(Unpack::Read)?;
    Ok(release)
}

fn write_out(entry: &mut impl Read, target: &Path) -> Result<(), Unpack> {
    let write_error = |error| Unpack::Write(target.to_owned(), error);
    if let Some(dir) = target.parent() {
        fs::create_dir_all(dir).map_err(write_error)?;
    }
    let mut file = File::create(target).map_err(write_error)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = entry.read(&mut buffer).map_err(Unpack::Read)?;
        let Some(bytes @ [_, ..]) = buffer.get(..length) else { return Ok(()) };
        io::Write::write_all(&mut file, bytes).map_err(write_error)?;
    }
}

/// Where a file of the package goes; `None` for what is not needed. Only plain path components
/// pass, so that nothing is written outside.
fn target(path: &Path, release: &mut Option<String>) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            _ => return None,
        }
    }
    let parts = parts.strip_prefix(&["usr"]).unwrap_or(&parts);
    match parts {
        ["boot", image] => {
            *release = Some(image.strip_prefix("vmlinuz-")?.to_owned());
            Some(PathBuf::from("vmlinuz"))
        }
        ["lib", "modules", _, list @ ("modules.builtin" | "modules.order")] => {
            Some(Path::new(MODULES).join(list))
        }
        ["lib", "modules", _, rest @ .., file] if module_name(file).is_some() => {
            Some(rest.iter().fold(PathBuf::from(MODULES), |dir, part| dir.join(part)).join(file))
        }
        _ => None,
    }
}

/// Removes the modules that guests cannot need from a tree and writes `modules.dep` for the rest.
/// Gives the number of those kept, and what they need but is nowhere.
pub(super) fn prune(tree: &Path) -> Result<(usize, BTreeSet<modinfo::Unresolved>), KernelError> {
    let files = modinfo::files(tree)?;
    let roots = files.values().filter(|path| is_kept(path)).cloned();
    let (graph, unresolved) = modinfo::scan(tree, &files, roots)?;
    for path in files.values().filter(|path| !graph.contains_key(*path)) {
        let path = tree.join(path);
        fs::remove_file(&path).map_err(KernelError::io("remove", path))?;
    }
    remove_empty(tree)?;
    modinfo::save(tree, &graph)?;
    Ok((graph.len(), unresolved))
}

fn is_kept(path: &str) -> bool {
    let path = path.strip_prefix("kernel/").unwrap_or(path);
    KEPT.iter().any(|part| path.starts_with(part))
        && !LEFT_OUT.iter().any(|part| path.starts_with(part))
}

/// Removes empty directories below `dir`, and says whether `dir` itself is empty now.
fn remove_empty(dir: &Path) -> Result<bool, KernelError> {
    let mut empty = true;
    for entry in fs::read_dir(dir).map_err(KernelError::io("list", dir))? {
        let path = entry.map_err(KernelError::io("list", dir))?.path();
        if path.is_dir() && remove_empty(&path)? {
            fs::remove_dir(&path).map_err(KernelError::io("remove", path))?;
        } else {
            empty = false;
        }
    }
    Ok(empty)
}

#[cfg(test)]
pub(crate) mod tests;
