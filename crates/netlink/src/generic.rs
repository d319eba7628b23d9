//! Whether the kernel speaks a generic netlink family.
//!
//! Source: `Documentation/userspace-api/netlink/intro.rst` of Linux, linux/genetlink.h.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use nix::errno::Errno;

use crate::{NetlinkError, Result};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// Asks for a generic netlink family by name; the kernel may load the module that has it.
///
/// # Errors
/// When the kernel has no generic netlink, or its answer cannot be read.
pub fn has_generic_family(name: &str) -> Result<bool> {
    let failed = |step| move |source: io::Error| NetlinkError::Socket { step, source };
    let mut socket = netlink_sys::Socket::new(NETLINK_GENERIC).map_err(failed("open"))?;
    socket.bind_auto().map_err(failed("bind"))?;
    socket.send(&request(name), 0).map_err(failed("send"))?;
    let (answer, _) = socket.recv_from_full().map_err(failed("receive"))?;
    let unreadable =
        || NetlinkError::Unreadable { operation: "ask for a family", reason: "cut short".into() };
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind.ok_or_else(unreadable)? != NLMSG_ERROR {
        return Ok(true);
    }
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match Errno::from_raw(code.ok_or_else(unreadable)?.saturating_neg()) {
        Errno::ENOENT => Ok(false),
        errno => Err(failed("ask for a family")(errno.into())),
    }
}

/// `struct nlmsghdr`, `struct genlmsghdr`, and the name as an attribute.
fn request(name: &str) -> Vec<u8> {
    let attribute = u16::try_from(4 + name.len() + 1).unwrap_or(u16::MAX);
    let mut bytes = Vec::new();
    bytes.extend([0; 4]);
    bytes.extend(GENL_ID_CTRL.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([CTRL_CMD_GETFAMILY, 1, 0, 0]);
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(CTRL_ATTR_FAMILY_NAME.to_ne_bytes());
    bytes.extend(name.bytes().chain([0]));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_ne_bytes();
    bytes.splice(..4, length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_always_there_and_nonsense_never() {
        assert!(has_generic_family("nlctrl").unwrap());
        assert!(!has_generic_family("no-such-thing").unwrap());
    }
}
