//! `baton __attempt DIR`: hidden command that runs the task of a worker's attempt to its end.
//!
//! To its worker this is the attempt's only process. If the runner's log exists already, the
//! task is resumed.

use std::path::{Path, PathBuf};

use baton_agent::TaskFile;
use baton_runner::root::{Root, TaskId};
use baton_runner::task::{LAUNCH_TIMEOUT, NewTask, NoopWatcher, Options, Task};

use crate::local::{code, failure_code};

/// Runs the task in the current directory; returns the exit status as `baton local run` does.
pub(crate) fn main(args: &[String]) -> i32 {
    let [dir] = args else {
        eprintln!("baton: internal command, started by a worker only");
        return 2;
    };
    match run(Path::new(dir)) {
        Ok(code) => i32::from(code),
        Err((code, text)) => {
            eprintln!("baton: {text}");
            i32::from(code)
        }
    }
}

fn run(dir: &Path) -> Result<u8, (u8, String)> {
    let invalid = |error: &dyn std::fmt::Display| (2, error.to_string());
    let file = TaskFile::load(dir)
        .map_err(|error| invalid(&format!("cannot read {}: {error}", dir.display())))?;
    let root = Root::new(dir).map_err(|error| invalid(&error))?;
    let id = TaskId::new(&file.id).map_err(|error| invalid(&error))?;
    let sandbox = std::env::current_dir().map_err(|error| invalid(&error))?;
    // The coordinator of the worker has set them when it has assigned the devices.
    let assigned = file.device_variables.into_iter();
    let assigned = assigned.filter_map(|name| Some((std::env::var(&name).ok()?, name)));
    let new = NewTask {
        spec: file.spec,
        sandbox: Some(sandbox),
        env: file.env,
        assigned_env: assigned.map(|(value, name)| (name, value)).collect(),
        secrets: file.secrets,
    };
    let options = Options {
        binary: PathBuf::from("/proc/self/exe"),
        // The worker has put the whole attempt into a cgroup already.
        cgroup: false,
        // The worker kills at once by SIGKILL.
        second_signal_kills: false,
        warning: file.warning,
        launch_timeout: LAUNCH_TIMEOUT,
    };
    let failed = |error| (failure_code(&error), error.to_string());
    let mut task = Task::begin(&root, &id, new, &options).map_err(failed)?;
    task.drive(&mut NoopWatcher).map(code).map_err(failed)
}
