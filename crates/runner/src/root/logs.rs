//! Names and removal of the output of a task's processes; `crate::logs` reads it.

use std::io;
use std::path::Path;

use baton_model::task::{ProcessName, RunNo};

use super::tree::Dir;

/// The directory of all logs in a sandbox.
pub const LOGS_DIR: &str = ".logs";

/// Removes the output of one run. No link is followed: the owner of the sandbox could redirect the
/// removal.
pub fn remove_run_logs(sandbox: &Path, process: &ProcessName, run: RunNo) -> io::Result<()> {
    let Some(logs) = Dir::open(sandbox)?.part(LOGS_DIR)? else {
        return Ok(());
    };
    match logs.part(&process.0)? {
        Some(runs) => runs.remove(&run.0.to_string()),
        None => Ok(()),
    }
}
