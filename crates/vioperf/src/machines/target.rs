//! `HOST[:PORT]`: a name or an address, an IPv6 address with a port in brackets.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use super::DEFAULT_PORT;

/// Which of the two Internet protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Whichever the name has.
    Any,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

impl Family {
    fn takes(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// A server as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
}

/// What names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no machine: write it like server, 192.0.2.1:5210 or [2001:db8::1]:5210")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError(text.to_owned());
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            None if text.parse::<Ipv6Addr>().is_ok() || scoped(text) => (text, None),
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
            None => DEFAULT_PORT,
        };
        let plain = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Whether it is an IPv6 address with a zone (`fe80::1%eth0`).
fn scoped(text: &str) -> bool {
    text.split_once('%').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':') && self.port != DEFAULT_PORT;
        match (brackets, self.port) {
            (_, DEFAULT_PORT) => f.pad(&self.host),
            (true, port) => write!(f, "[{}]:{port}", self.host),
            (false, port) => write!(f, "{}:{port}", self.host),
        }
    }
}

impl Target {
    /// Its addresses, in the system's order of preference.
    ///
    /// # Errors
    /// When it has none, of that family.
    pub fn addresses(&self, family: Family) -> std::io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, self.port)],
            Err(_) => (self.host.as_str(), self.port).to_socket_addrs()?.collect(),
        };
        let wanted: Vec<SocketAddr> =
            found.iter().copied().filter(|address| family.takes(address)).collect();
        if wanted.is_empty() {
            let kind = if family == Family::V4 { "IPv4" } else { "IPv6" };
            return Err(std::io::Error::other(format!("{} has no {kind} address", self.host)));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_with_and_without_a_port() {
        let cases = [
            ("server", "server", 5210),
            ("server:80", "server", 80),
            ("192.0.2.1:7", "192.0.2.1", 7),
            ("2001:db8::1", "2001:db8::1", 5210),
            ("[2001:db8::1]", "2001:db8::1", 5210),
            ("[2001:db8::1]:7", "2001:db8::1", 7),
            ("fe80::1%eth0", "fe80::1%eth0", 5210),
        ];
        for (text, host, port) in cases {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
        for text in ["", ":5", "a:0", "a:b", "[::1", "[::1]x", "a b", "a:70000"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_family_is_kept_to() {
        let target: Target = "::1".parse().unwrap();
        assert_eq!(target.addresses(Family::V6).unwrap().len(), 1);
        let error = target.addresses(Family::V4).unwrap_err().to_string();
        assert!(error.contains("::1 has no IPv4 address"), "{error}");
    }
}
