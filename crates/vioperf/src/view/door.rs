//! Who gets in: those who know the token, and by a name that nobody else can point here.

use std::fmt;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Request};
use subtle::ConstantTimeEq;

/// Bytes of the token: 256 bits.
const TOKEN_BYTES: usize = 32;
/// Names of this machine that no name server is asked for, so that no stranger's page can be behind them (DNS
/// rebinding). Any port: it is another one behind `ssh -L`.
const OWN_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// A secret that is a part of every address.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random bits.
    pub fn draw() -> Result<Self> {
        let mut bits = [0_u8; TOKEN_BYTES];
        getrandom::fill(&mut bits).context("cannot draw random bits for the token")?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bits)))
    }

    /// As a part of an address.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compared in a time that tells nothing of where they differ.
    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was sent to another name.
    WrongHost,
    /// It does not know the token.
    NoToken,
    /// It wants more than to read.
    WrongMethod,
    /// It brings something.
    HasBody,
}

/// What follows the token in the address: the page's name, and the query.
///
/// # Errors
/// [`Refusal`].
pub fn admit<'a, B>(token: &Token, request: &'a Request<B>) -> Result<(&'a str, &'a str), Refusal> {
    if !is_sent_here(request) {
        return Err(Refusal::WrongHost);
    }
    let uri = request.uri();
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let (first, page) = path.split_once('/').unwrap_or((path, ""));
    if !token.is(first) {
        return Err(Refusal::NoToken);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::WrongMethod);
    }
    if has_body(request.headers()) {
        return Err(Refusal::HasBody);
    }
    Ok((page, uri.query().unwrap_or_default()))
}

/// Whether it was sent to a name of this machine's own, and to that alone.
fn is_sent_here<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let is_own = |authority: &str| {
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        OWN_NAMES.iter().any(|name| {
            let rest = authority.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
        })
    };
    let target = request.uri().authority().is_none_or(|authority| is_own(authority.as_str()));
    target && host.to_str().is_ok_and(is_own)
}

fn has_body(headers: &HeaderMap) -> bool {
    let is_nothing = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(TRANSFER_ENCODING)
        || !headers.get_all(CONTENT_LENGTH).iter().all(is_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(token: &Token, path: &str, host: &str) -> Result<(String, String), Refusal> {
        let request = Request::get(path).header(HOST, host).body(()).unwrap();
        admit(token, &request).map(|(page, query)| (page.to_owned(), query.to_owned()))
    }

    #[test]
    fn the_token_is_random_long_and_not_told_by_accident() {
        let (one, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        assert_ne!(one.text(), other.text());
        assert!(one.text().len() >= TOKEN_BYTES && !format!("{one:?}").contains(one.text()));
    }

    #[test]
    fn who_knows_the_token_gets_in_and_nobody_else() {
        let token = Token::draw().unwrap();
        let own = token.text();
        let here = "127.0.0.1:8000";
        assert_eq!(
            ask(&token, &format!("/{own}/run?id=1"), here),
            Ok(("run".into(), "id=1".into()))
        );
        assert_eq!(ask(&token, &format!("/{own}"), here), Ok(("".into(), "".into())));
        let almost = format!("/{}A/", &own[..own.len() - 1]);
        let longer = format!("/{own}A/");
        let inside = format!("/x/{own}/");
        for path in ["/", "//", "/run", &almost, &longer, &inside, &format!("/?{own}")] {
            let known = path.trim_matches('/') == own;
            assert!(known || ask(&token, path, here) == Err(Refusal::NoToken), "{path}");
        }
    }

    #[test]
    fn only_names_that_are_this_machines_alone_lead_here() {
        let token = Token::draw().unwrap();
        let path = format!("/{}/", token.text());
        for own in ["127.0.0.1", "127.0.0.1:1", "localhost:65535", "[::1]:80"] {
            assert!(ask(&token, &path, own).is_ok(), "{own}");
        }
        for other in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "127.0.0.1:80@evil.example",
            "127.0.0.1:99999",
            "127.0.0.1:",
            "",
            "10.0.0.1",
        ] {
            assert_eq!(ask(&token, &path, other), Err(Refusal::WrongHost), "{other}");
        }
        let two = Request::get(&path).header(HOST, "localhost").header(HOST, "evil.example");
        assert_eq!(admit(&token, &two.body(()).unwrap()), Err(Refusal::WrongHost));
        let none = Request::get(&path).body(()).unwrap();
        assert_eq!(admit(&token, &none), Err(Refusal::WrongHost));
        let proxied = Request::get(format!("http://evil.example{path}")).header(HOST, "localhost");
        assert_eq!(admit(&token, &proxied.body(()).unwrap()), Err(Refusal::WrongHost));
    }

    #[test]
    fn nothing_is_taken_but_questions() {
        let token = Token::draw().unwrap();
        let request =
            || Request::builder().uri(format!("/{}/", token.text())).header(HOST, "localhost");
        let of = |method: &str| admit(&token, &request().method(method).body(()).unwrap()).err();
        assert_eq!((of("GET"), of("HEAD")), (None, None));
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"] {
            assert_eq!(of(method), Some(Refusal::WrongMethod), "{method}");
        }
        for (name, value) in [("content-length", "1"), ("transfer-encoding", "chunked")] {
            let request = request().header(name, value).body(()).unwrap();
            assert_eq!(admit(&token, &request), Err(Refusal::HasBody), "{name}");
        }
    }
}
