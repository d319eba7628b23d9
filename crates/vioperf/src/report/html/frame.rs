//! What stands around every page: its head, its style, its scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::interactive::Interactive;
use crate::report::text::clean;

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The whole of it.
    pub text: String,
    /// What it allows itself (Content-Security-Policy); also in its head, as it may be opened from disk.
    pub policy: String,
}

/// What is not the page's own content.
pub struct Frame<'a> {
    /// What it is called.
    pub title: String,
    /// Style sheets beside that of every page.
    pub styles: Vec<&'static str>,
    /// What has to be said before any number.
    pub notice: Option<&'a str>,
    /// Where else one can go, where it is one page of several.
    pub way: Option<Markup>,
    /// What a reader may change.
    pub interactive: &'a Interactive,
    /// The vioperf that measured.
    pub version: &'a str,
}

impl Frame<'_> {
    /// The page.
    pub fn around(&self, content: &Markup) -> Page {
        let policy = self.interactive.policy();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    // Nothing that a guest wrote could load or run, even if it were not escaped.
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    @if self.way.is_some() {
                        // A browser would ask for one, without being told the token.
                        link rel="icon" href="data:,";
                    }
                    title { (self.title) }
                    style {
                        (PreEscaped(include_str!("style.css")))
                        @for style in &self.styles { (PreEscaped(style)) }
                        @if self.way.is_some() { (PreEscaped(include_str!("way.css"))) }
                    }
                }
                body {
                    @if let Some(way) = &self.way { nav.way aria-label="vioperf view" { (way) } }
                    @if let Some(notice) = self.notice { aside.notice { (clean(notice)) } }
                    (content)
                    footer { "vioperf " (clean(self.version)) }
                    (self.interactive.scripts_markup())
                }
            }
        };
        Page { text: page.into_string() + "\n", policy }
    }
}
