//! Published figures beside a run's own: ratios and ranking, never rates.

mod of_run;

pub use of_run::of_run;
