//! Ethernet hardware addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet hardware address, written `52:54:00:12:34:56`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six pairs of hexadecimal digits with colons between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hardware address; write it as 52:54:00:12:34:56")]
pub struct ParseMacError(String);

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseMacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(wrong)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_parses_back() {
        let mac = Mac([0x52, 0x54, 0, 0x12, 0xab, 0xff]);
        assert_eq!(mac.to_string(), "52:54:00:12:ab:ff");
        assert_eq!("52:54:00:12:AB:ff".parse(), Ok(mac));
    }

    #[test]
    fn rejects_what_is_not_one() {
        for text in
            ["", "52:54:00:12:ab", "52:54:00:12:ab:ff:00", "52:54:00:12:ab:f", "+2:54:00:12:ab:ff"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
