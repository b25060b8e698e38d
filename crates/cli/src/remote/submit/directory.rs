//! The directory of submitted work: named, that of the submission, or its sandbox.

use std::path::Path;

use baton_client::Client;
use baton_model::api::Worker;
use baton_model::paths::{self, DIRECTORY_LABEL};

use super::Submit;
use crate::host_key::host_key;
use crate::output::{Failure, clean, note};

const SANDBOX: &str = "sandbox";

/// The directory of submitted work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Directory {
    /// That of the task.
    #[default]
    Unchanged,
    /// An empty one of its own.
    Sandbox,
    /// An absolute path.
    Path(String),
}

/// The directory that the command line names. A relative one is relative to the current directory.
pub(super) fn named(command: &Submit) -> Result<Directory, Failure> {
    let Some(cwd) = &command.options.cwd else {
        let unnamed = if command.sandbox {
            Directory::Sandbox
        } else {
            Directory::Unchanged
        };
        return Ok(unnamed);
    };
    if cwd == SANDBOX {
        return Ok(Directory::Sandbox);
    }
    let path = Path::new(cwd);
    if path.is_absolute() {
        return Ok(Directory::Path(cwd.clone()));
    }
    // Resolved here, because the worker has another current directory.
    let found = path.canonicalize().map_err(|error| {
        Failure::usage(format!(
            "--cwd {cwd}: {error}; a relative directory must exist here, an absolute one on the \
             worker"
        ))
    })?;
    utf8(&found).map(Directory::Path)
}

/// The current directory, if the scheduler's own worker shares host and user with this process and
/// allows it; the sandbox otherwise.
pub(super) async fn own(client: &Client) -> Result<Directory, Failure> {
    let root = match client.root().await {
        Ok(root) => root,
        // The submission reports an unreachable scheduler; a token may allow nothing else.
        Err(_) => return Ok(Directory::Unchanged),
    };
    let local = root.local_worker;
    let Some(local) = local.filter(|local| host_key().is_some_and(|key| key == local.host)) else {
        return Ok(Directory::Unchanged);
    };
    let current = std::env::current_dir().map_err(|error| {
        Failure::usage(format!(
            "the current directory cannot be used: {error}; name one with --cwd, or use --sandbox"
        ))
    })?;
    let current = utf8(&current)?;
    let allowed = local.directories.iter().map(String::as_str);
    if !paths::is_within(&current, allowed) {
        return Ok(Directory::Unchanged);
    }
    // Only a hint: `explain` counts them as well.
    if let Ok(workers) = client.workers().await
        && let Some(text) = excluded(&workers, &current)
    {
        note(&text);
    }
    Ok(Directory::Path(current))
}

/// The workers that do not take work in a directory that its submission did not name.
fn excluded(workers: &[Worker], directory: &str) -> Option<String> {
    let allows = |worker: &&Worker| {
        let allowed = worker.labels.get(DIRECTORY_LABEL);
        allowed.is_some_and(|allowed| paths::is_within(directory, allowed.split(',')))
    };
    let mut excluded = workers.iter().filter(|worker| !allows(worker));
    let first = clean(&excluded.next()?.name);
    let (who, it) = match excluded.count() {
        0 => (format!("worker {first} does"), "it"),
        more => (format!("{} workers, such as {first}, do", more + 1), "them"),
    };
    let directory = clean(directory);
    Some(format!(
        "{who} not allow {directory}: start {it} with `--allow-cwd {directory}`, or submit with \
         `--sandbox`"
    ))
}

fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::usage(format!(
            "the directory {} is not UTF-8; name another with --cwd, or use --sandbox",
            path.display()
        ))
    })
}
