//! Messages and attributes of netlink as bytes (netlink(7)): nothing in them is believed.

/// `NLA_TYPE_MASK`: without the flags for nesting and byte order.
const TYPE: u16 = 0x3fff;
/// Length and type.
const HEADER: usize = 4;

/// Attributes one after the other; ends at the first that is cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.0.get(2..HEADER)?.try_into().ok()?) & TYPE;
        let value = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// The first message of a datagram: its type, what follows its header, and what follows it.
pub(crate) fn message(bytes: &[u8], header: usize) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(number(bytes)?).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(header..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// A number of 32 bits in the machine's byte order, with which the value begins.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

/// The same in the network's byte order.
pub(crate) fn network_number(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?))
}

/// Text that ends with a 0.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}
