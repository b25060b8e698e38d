//! The command with which a task without a runner goes on.

use baton_runner::root::{Root, TaskId, default_root};
use baton_web::text::shell;

/// The command that resumes a task without a runner.
#[must_use]
pub fn resume_command(root: &Root, id: &TaskId) -> String {
    resume_command_of(root, id.as_str())
}

#[must_use]
pub fn resume_command_of(root: &Root, id: &str) -> String {
    let default = default_root(|name| std::env::var_os(name)).and_then(Root::new);
    let option = match default {
        Ok(default) if default == *root => String::new(),
        _ => format!("--root {} ", shell(&root.path().display().to_string())),
    };
    format!("baton local run {option}--task-id {id}")
}
