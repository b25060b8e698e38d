//! How a task without a runner goes on: the command for users, and the options of a runner.

use std::path::PathBuf;

use baton_model::time::Millis;
use baton_runner::root::{Root, TaskId, default_root};
use baton_runner::task::Options;

use crate::text::shell;

/// The command that resumes a task without a runner.
pub(super) fn resume_command(root: &Root, id: &TaskId) -> String {
    resume_command_of(root, id.as_str())
}

pub(super) fn resume_command_of(root: &Root, id: &str) -> String {
    let default = default_root(|name| std::env::var_os(name)).and_then(Root::new);
    let option = match default {
        Ok(default) if default == *root => String::new(),
        _ => format!("--root {} ", shell(&root.path().display().to_string())),
    };
    format!("baton local run {option}--task-id {id}")
}

/// Options of a runner that starts this same binary, even if its file was replaced.
pub(super) fn options(cgroup: bool, launch_timeout: Millis) -> Options {
    Options {
        binary: PathBuf::from("/proc/self/exe"),
        cgroup,
        second_signal_kills: true,
        launch_timeout,
    }
}
