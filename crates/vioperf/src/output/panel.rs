//! The lines at the bottom of a terminal that tell what goes on, and are gone afterwards.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines on standard error that are drawn over one another; nothing where that is no terminal.
#[derive(Debug)]
pub struct Panel {
    screen: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl Panel {
    /// An empty one.
    pub fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { screen, lines: Vec::new() }
    }

    /// Shows these lines in place of those before; what is wider than the terminal is cut.
    pub fn show(&mut self, lines: &[String]) {
        for surplus in self.lines.drain(lines.len().min(self.lines.len())..) {
            surplus.finish_and_clear();
            self.screen.remove(&surplus);
        }
        for (index, line) in lines.iter().enumerate() {
            if let Some(bar) = self.lines.get(index) {
                bar.set_message(line.clone());
            } else {
                let bar = self.screen.add(ProgressBar::no_length());
                bar.set_style(style());
                bar.set_message(line.clone());
                bar.tick();
                self.lines.push(bar);
            }
        }
    }

    /// Prints with the lines out of the way.
    pub fn aside(&self, print: impl FnOnce()) {
        self.screen.suspend(print);
    }
}

/// A message as wide as the terminal, and nothing else.
fn style() -> ProgressStyle {
    ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}
