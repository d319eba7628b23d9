//! The older iptables: how many rules each table has. A table is only asked for where it is there already:
//! asking would make it.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
/// `IPT_TABLE_MAXNAMELEN`.
const NAME_BYTES: usize = 32;
/// Hooks of IP.
const HOOKS: usize = 5;
const MOST_TABLES: usize = 16;

/// `struct ipt_getinfo` and `struct ip6t_getinfo`, which are alike.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct TableInfo {
    name: [u8; NAME_BYTES],
    valid_hooks: u32,
    hook_entry: [u32; HOOKS],
    underflow: [u32; HOOKS],
    entries: u32,
    size: u32,
}

/// By family and table; none where none is there, or they may not be read.
pub(super) fn rules(proc: &Path) -> BTreeMap<String, u32> {
    let families = [
        ("ip", "ip_tables_names", AddressFamily::Inet, libc::SOL_IP),
        ("ip6", "ip6_tables_names", AddressFamily::Inet6, libc::SOL_IPV6),
    ];
    let mut found = BTreeMap::new();
    for (family, file, domain, level) in families {
        let path = proc.join("thread-self/net").join(file);
        let names = std::fs::read_to_string(path).unwrap_or_default();
        for name in names.split_ascii_whitespace().take(MOST_TABLES) {
            if let Some(info) = info(domain, level, name) {
                found.insert(format!("{family} {name}"), of(&info));
            }
        }
    }
    found
}

/// Each chain of the kernel's ends with its policy, and the table with an entry of its own.
fn of(info: &TableInfo) -> u32 {
    info.entries.saturating_sub(info.valid_hooks.count_ones() + 1)
}

fn info(domain: AddressFamily, level: libc::c_int, name: &str) -> Option<TableInfo> {
    let mut info = TableInfo::default();
    // The last byte stays 0.
    info.name.get_mut(..NAME_BYTES - 1)?.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let socket: OwnedFd =
        socket(domain, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw).ok()?;
    let mut length = libc::socklen_t::try_from(size_of::<TableInfo>()).ok()?;
    // SAFETY: the kernel reads and writes no more than `length` bytes, which is the size of the
    // structure; every value of its fields is valid.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            GET_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (code == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_no_rules() {
        // `filter` as the kernel makes it: three chains with their policies, and its last entry.
        let empty = TableInfo { valid_hooks: 0b1110, entries: 4, ..TableInfo::default() };
        assert_eq!(of(&empty), 0);
        assert_eq!(of(&TableInfo { entries: 9, ..empty }), 5);
        assert_eq!(of(&TableInfo::default()), 0);
    }

    #[test]
    fn no_table_is_none() {
        let proc = tempfile::tempdir().unwrap();
        assert!(rules(proc.path()).is_empty());
        let net = proc.path().join("thread-self/net");
        std::fs::create_dir_all(&net).unwrap();
        let long = "x".repeat(300);
        std::fs::write(net.join("ip_tables_names"), format!("none-such\n{long}\n")).unwrap();
        assert!(rules(proc.path()).is_empty());
    }
}
