//! The scheduler and the worker of `baton run`, and its data directory.
//!
//! | module | holds |
//! |---|---|
//! | `children` | the scheduler and the worker, as child processes |
//! | `record` | the id of the instance or run, durable across crashes |
//! | `inspect` | a look into the data directory, by `baton show`, `explain` and `logs` |
//!
//! The scheduler and the worker are those of a cluster, with private ports and a private data
//! directory. The instance is stored by the scheduler: running the same file again resumes it. So
//! this process keeps no other durable state than its id.
//!
//! What is submitted, and how it is followed and printed, is up to the caller: see [`supervise`].

mod children;
mod inspect;
mod record;

use std::io;
use std::path::Path;
use std::time::Duration;

use baton_client::Client;
use baton_terminal::connection::REFUSED;
use baton_terminal::interrupts::Interrupts;
use baton_terminal::output::{CANCELLED, CommandResult, Failure, INTERNAL, clean, note};
use rustix::process::Signal;

pub use self::children::{TETHER, tether, worker_state};
pub use self::inspect::inspect;
pub use self::record::RunDirectory;
use children::Children;

/// How long a scheduler that cannot be reached may take to exit.
const EXIT_MAX: Duration = Duration::from_secs(1);

/// Starts the children on a data directory, which is an absolute path, does `work` with them, and
/// always ends them. `secrets` is the file of sources of secrets, as an absolute path.
///
/// The parent-death signal of the children is bound to the thread that starts them: this one.
pub async fn supervise(
    data: &Path,
    secrets: Option<&Path>,
    work: impl AsyncFnOnce(&Client) -> CommandResult,
) -> CommandResult {
    let mut interrupts = Interrupts::new()?;
    let mut children = tokio::select! {
        children = Children::start(data, secrets) => children?,
        _ = interrupts.next() => return Err(Failure::Silent(CANCELLED)),
    };
    let client = children.client.clone();
    let result = tokio::select! {
        result = work(&client) => result,
        failure = children.supervise() => Err(failure),
        _ = interrupts.next() => {
            note("stopping; repeat the command to resume. Press ^C again to exit at once");
            Err(Failure::Silent(CANCELLED))
        }
    };
    // If the scheduler is unreachable because it has exited, that is the error to report.
    let result = match result {
        Err(Failure::Message(REFUSED, message)) => Err(tokio::select! {
            failure = children.supervise() => failure,
            () = tokio::time::sleep(EXIT_MAX) => Failure::Message(REFUSED, message),
        }),
        result => result,
    };
    tokio::select! {
        () = children.end() => {}
        _ = interrupts.next() => children.signal(Signal::KILL),
    }
    result
}

/// The failure of a file of the data directory.
pub fn io_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::Message(
        INTERNAL,
        format!("{}: {error}", clean(&path.display().to_string())),
    )
}
