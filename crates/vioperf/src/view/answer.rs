//! From a request to an answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

use super::address::{Address, Pair};
use super::door::{self, Refusal, Token};
use super::pages;
use super::shelf::{Shelf, ShelfError, Stamp, stamp};
use crate::report::html::frame::Page;

/// Pages of runs that are kept: those of a reader who goes back and forth. The largest have 2 MiB.
const KEPT: usize = 8;

/// Within this a browser that is started has asked.
const ONCE_TIME: Duration = Duration::from_secs(60);

/// What every answer says beside its page's policy.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Answers who knows the token.
#[derive(Debug)]
pub struct Viewer {
    token: Token,
    shelf: Shelf,
    kept: Mutex<VecDeque<Kept>>,
    once: Mutex<Option<Once>>,
}

/// A way in that is good for one request, soon: other users of the machine can read what a program is started
/// with, as a browser is, and must not find the token there.
#[derive(Debug)]
struct Once {
    token: Token,
    until: Instant,
}

/// A page that took time to make.
#[derive(Debug)]
struct Kept {
    address: Address,
    stamps: Vec<Stamp>,
    page: Arc<Page>,
}

/// What is answered.
type Answer = Response<Full<Bytes>>;

impl Viewer {
    /// Shows these runs to who knows a new token.
    ///
    /// # Errors
    /// When no token can be drawn.
    pub fn new(shelf: Shelf) -> anyhow::Result<Self> {
        Ok(Self { token: Token::draw()?, shelf, kept: Mutex::default(), once: Mutex::default() })
    }

    /// The way in, after the server's name.
    pub fn entrance(&self) -> String {
        format!("/{}/", self.token.text())
    }

    /// The same for a browser that is started with it: good once, and within a minute.
    ///
    /// # Errors
    /// When no token can be drawn.
    pub fn entrance_once(&self) -> anyhow::Result<String> {
        let token = Token::draw()?;
        let entrance = format!("/{}/", token.text());
        *self.once() = Some(Once { token, until: Instant::now() + ONCE_TIME });
        Ok(entrance)
    }

    /// Whether a request comes by [`Viewer::entrance_once`]; no further one does.
    fn comes_by_once<B>(&self, request: &Request<B>) -> bool {
        let mut once = self.once();
        let is_it = once.as_ref().is_some_and(|once| {
            Instant::now() < once.until && door::admit(&once.token, request).is_ok()
        });
        is_it && once.take().is_some()
    }

    fn once(&self) -> MutexGuard<'_, Option<Once>> {
        self.once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub async fn answer<B>(self: &Arc<Self>, request: &Request<B>) -> Answer {
        let (name, query) = match door::admit(&self.token, request) {
            Ok(admitted) => admitted,
            Err(Refusal::NoToken) if self.comes_by_once(request) => {
                return elsewhere(&self.entrance());
            }
            Err(refusal) => return refuse(refusal),
        };
        // Links are relative to what ends in a slash.
        if name.is_empty() && !request.uri().path().ends_with('/') {
            return elsewhere(&self.entrance());
        }
        let Some(address) = Address::read(name, query) else {
            return send(StatusCode::NOT_FOUND, &pages::trouble("There is no such page."));
        };
        let viewer = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || viewer.page(address)).await;
        match made {
            Ok(Ok(page)) => send(StatusCode::OK, &page),
            Ok(Err(error)) => send(status(&error), &pages::trouble(&error.to_string())),
            // Whatever it was, it must not end the server.
            Err(_) => {
                let sorry = "This page could not be made: that is a defect of vioperf. The terminal says more.";
                send(StatusCode::INTERNAL_SERVER_ERROR, &pages::trouble(sorry))
            }
        }
    }

    /// Makes a page, or takes the one that was made before of the same.
    fn page(&self, address: Address) -> Result<Arc<Page>, ShelfError> {
        let runs = match &address {
            Address::Run(id) => vec![self.shelf.directory(id)?],
            Address::Compare(Pair { a, b, .. }) if !a.is_empty() && !b.is_empty() => {
                vec![self.shelf.directory(a)?, self.shelf.directory(b)?]
            }
            _ => return pages::of(&address, &self.shelf, &[]).map(Arc::new),
        };
        let stamps: Vec<Stamp> = runs.iter().map(|directory| stamp(directory)).collect();
        let is_same = |kept: &&Kept| kept.address == address && kept.stamps == stamps;
        if let Some(kept) = self.kept().iter().find(is_same) {
            return Ok(Arc::clone(&kept.page));
        }
        let page = Arc::new(pages::of(&address, &self.shelf, &runs)?);
        let mut kept = self.kept();
        kept.retain(|kept| kept.address != address);
        kept.truncate(KEPT - 1);
        kept.push_front(Kept { address, stamps, page: Arc::clone(&page) });
        Ok(page)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status(error: &ShelfError) -> StatusCode {
    match error {
        ShelfError::Unknown(_) | ShelfError::NotStored(_) | ShelfError::Store(_) => {
            StatusCode::NOT_FOUND
        }
        ShelfError::Wrong(_) => StatusCode::BAD_REQUEST,
        ShelfError::History(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn refuse(refusal: Refusal) -> Answer {
    let (status, why) = match refusal {
        Refusal::WrongHost => (
            StatusCode::MISDIRECTED_REQUEST,
            "vioperf view answers to 127.0.0.1 and localhost alone: open the address that it printed.",
        ),
        Refusal::NoToken => (
            StatusCode::FORBIDDEN,
            "This address lacks the token: open the whole address that vioperf view printed. Each start has a new \
             one.",
        ),
        Refusal::WrongMethod => {
            (StatusCode::METHOD_NOT_ALLOWED, "There is nothing but pages to read.")
        }
        Refusal::HasBody => (StatusCode::PAYLOAD_TOO_LARGE, "A question has no body."),
    };
    let mut answer = send(status, &pages::refused(why));
    if refusal == Refusal::WrongMethod {
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    // What was sent with it is not read.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn elsewhere(to: &str) -> Answer {
    let mut answer = send(StatusCode::SEE_OTHER, &pages::trouble("It is one step further."));
    if let Ok(to) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(header::LOCATION, to);
    }
    answer
}

fn send(status: StatusCode, page: &Page) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(page.text.clone())));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let further = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    let policy = HeaderValue::from_str(&format!("{}; {further}", page.policy));
    let nothing = HeaderValue::from_static("default-src 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.unwrap_or(nothing));
    answer
}
