//! On a machine that the user reaches by ssh: one node over standard input and output, of which nothing is
//! left.

use std::env;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use vioperf_node::serve_pipes;

/// How it has to be called: to be started by hand would remove the program.
const CALLED: &str = "remote-node";
/// A conductor asks every second while a load runs; one that is silent for so long has gone, or the path to
/// it, whatever the connection looks like from here.
const SILENT: Duration = Duration::from_secs(20);

/// Serves until nobody asks any more.
pub fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() != Some(CALLED) || arguments.next().is_some() {
        eprintln!("this is the first process of a lab guest; on a machine use vioperf");
        return ExitCode::from(2);
    }
    remove_itself();
    match serve_pipes(SILENT) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vioperf's node: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The file that runs goes with its directory, if that was made for it alone; the process needs neither.
fn remove_itself() {
    let Ok(own) = env::current_exe() else { return };
    if let Err(error) = fs::remove_file(&own) {
        eprintln!("vioperf's node cannot remove {}: {error}; remove it by hand", own.display());
    }
    // Holds something else, or is not ours: then it stays.
    let _ = own.parent().map(fs::remove_dir);
}
