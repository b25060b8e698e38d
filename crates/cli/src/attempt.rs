//! `baton __attempt DIR`: the task of a worker's attempt, run to its end.
//!
//! The one process of the attempt, as far as its worker is concerned. Where the runner's log
//! is there already it goes on with it.

use std::path::{Path, PathBuf};

use baton_agent::TaskFile;
use baton_runner::root::{Root, TaskId};
use baton_runner::task::{NewTask, NoopWatcher, Options, Task};

use crate::local::{code, failure_code};

/// Runs the task in the current directory; answers the exit status, as `baton local run` does.
pub(crate) fn main(args: &[String]) -> i32 {
    let [dir] = args else {
        eprintln!("this command is started by baton itself, not by hand");
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
    let new = NewTask {
        spec: file.spec,
        sandbox: Some(sandbox),
        env: file.env,
    };
    let options = Options {
        binary: PathBuf::from("/proc/self/exe"),
        // What it runs is limited as a whole, by whoever limits the attempt.
        cgroup: false,
    };
    let failed = |error| (failure_code(&error), error.to_string());
    let mut task = Task::begin(&root, &id, new, &options).map_err(failed)?;
    task.drive(&mut NoopWatcher).map(code).map_err(failed)
}
