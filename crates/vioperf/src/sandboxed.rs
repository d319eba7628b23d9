//! Into the sandbox, and what is to do outside of it before and after.

use vioperf_lab::put_back;
use vioperf_lab::sandbox::{self, Ended, Entered, Sandbox};

use crate::exit::Failure;
use crate::output::Output;
use crate::paths;

/// Which side of the split this process is on.
pub enum Side {
    /// Outside; the inner process has ended, and the host is as it was.
    Outside(Ended),
    /// Inside.
    Inside(Box<Sandbox>),
}

/// Splits the program in two; outside, waits for the end and puts back what the inner process could not.
///
/// # Errors
/// When there can be no sandbox.
pub fn enter(output: &Output) -> Result<Side, Failure> {
    match sandbox::enter(&paths::journal()).map_err(|error| Failure::Machine(error.into()))? {
        Entered::Inside(sandbox) => Ok(Side::Inside(sandbox)),
        Entered::Guard(ended) => {
            if let Some(message) = ended.message() {
                output.error(message);
            }
            put_back_what_is_left(output);
            Ok(Side::Outside(ended))
        }
    }
}

/// Puts back what runs that were killed left altered of the host; before anybody asks whether it can be had.
pub fn put_back_what_is_left(output: &Output) {
    for outcome in put_back::what_is_left(&paths::journal()) {
        match outcome {
            Ok(said) => output.note(said),
            Err(error) => output.warning(format_args!(
                "what a killed run altered could not be put back; the next run tries again: {error}"
            )),
        }
    }
}
