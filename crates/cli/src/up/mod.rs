//! `baton up`: the scheduler in this process, and one worker as a child process.
//!
//! The worker is a separate process, so that its attempts survive a crash of this one: the next
//! `up` starts another agent, which takes over the same incarnation. An agent left behind by an
//! earlier `up` may try a port that is no longer in use; it is terminated first, and its attempts
//! continue.
//!
//! SIGTERM is what a service manager sends before it starts the next `up`: the scheduler ends first,
//! so that it places nothing more, then the agent alone, and the attempts continue. SIGINT ends the
//! attempts with the worker.

mod background;
mod worker;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use baton_model::api::LocalWorker;
use baton_server::{Config, Ports, Ready, serve_at};
use baton_store::data_dir;
use baton_terminal::interrupts::{Interrupt, Interrupts};
use clap::Args;

use crate::credentials::CredentialArgs;
use crate::host_key::host_key;
use crate::logging;
use crate::output::{CommandResult, Failure, USAGE};
use crate::scheduler::{ServerArgs, failure, on_threads};
use crate::worker::absolute;
use worker::{FirstStart, Order, WorkerSupervisor};

/// Run the scheduler and one worker on this host
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton up
  baton up --resources cpu=4,memory=8GiB --library tasks/
  baton up --detach

With --detach it runs in the background, and `baton down` ends it. Otherwise
^C ends the worker with its attempts, then the scheduler; a second ^C does not wait for the worker.
SIGTERM ends both and leaves the attempts running; the next `baton up` on the same data directory
takes them over. Without one they are killed after a while (`lost_after`, usually 3m43s), and strict
ones never; the log says until when.")]
pub(crate) struct Up {
    #[command(flatten)]
    server: ServerArgs,
    /// Resources of the worker, such as cpu=4,memory=8GiB [default: those of this host]
    #[arg(long, value_name = "LIST")]
    resources: Option<String>,
    /// Label of the worker, for constraints; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Directory in which, and below which, the worker runs work outside of its sandbox; may be
    /// repeated [default: /]
    #[arg(long = "allow-cwd", value_name = "DIR", value_parser = absolute)]
    directories: Vec<String>,
    /// Run all work in its sandbox
    #[arg(long, conflicts_with = "directories")]
    sandbox_only: bool,
    /// Return when it is ready, and leave it running in the background; its log is baton.log in the
    /// data directory
    #[arg(long)]
    detach: bool,
    /// The process that `--detach` leaves behind.
    #[arg(long, hide = true, conflicts_with = "detach")]
    background: bool,
}

impl Up {
    /// The directories that the worker allows.
    fn directories(&self) -> Vec<String> {
        match (self.sandbox_only, &*self.directories) {
            (true, _) => Vec::new(),
            (false, []) => vec!["/".to_owned()],
            (false, directories) => directories.to_vec(),
        }
    }

    /// Arguments of the worker that come from this command.
    fn worker_arguments(&self, directories: Vec<String>) -> Vec<String> {
        let mut arguments = vec!["--name".to_owned(), "local".to_owned()];
        if let Some(resources) = &self.resources {
            arguments.extend(["--resources".to_owned(), resources.clone()]);
        }
        for directory in directories {
            arguments.extend(["--allow-cwd".to_owned(), directory]);
        }
        for label in &self.labels {
            arguments.extend(["--label".to_owned(), label.clone()]);
        }
        arguments
    }
}

/// Runs until a signal, or starts a process that does. `configured` are options of the worker that
/// this command does not have.
pub(crate) fn run(
    command: &Up,
    credentials: &CredentialArgs,
    configured: Vec<String>,
) -> CommandResult {
    if command.detach {
        return background::start(&command.server);
    }
    if command.background {
        background::leave_terminal()?;
    }
    let _logging = logging::init(!command.background)?;
    credentials.reject_for_server()?;
    command.server.load_tzdata()?;
    let mut config = command.server.config()?;
    if config.workers_need_tokens() {
        let drawn = baton_store::token::generate();
        let failed = |error| Failure::failed(format!("cannot generate a secret: {error}"));
        config.own_worker = Some(drawn.map_err(failed)?);
    }
    let directories = command.directories();
    config.local_worker = host_key()
        .filter(|_| !directories.is_empty())
        .map(|host| LocalWorker {
            host,
            directories: directories.clone(),
        });
    on_threads(async {
        // Before anything is created: another server may have them.
        let ports = Ports::reserve(&config).map_err(|error| failure(&error))?;
        let data = &command.server.data;
        let state = data_dir::open_with_worker(data).map_err(Failure::data_dir)?;
        let worker = WorkerSupervisor {
            // This same binary, even if its file was replaced.
            binary: PathBuf::from("/proc/self/exe"),
            state,
            arguments: [command.worker_arguments(directories), configured].concat(),
            token: config.own_worker.clone(),
            pin: config.tls.as_ref().map(|files| files.cert.clone()),
        };
        serve_with(command, config, ports, worker).await
    })
}

/// Runs the scheduler, and the worker beside it as soon as that is ready.
async fn serve_with(
    command: &Up,
    config: Config,
    ports: Ports,
    worker: WorkerSupervisor,
) -> CommandResult {
    let mut interrupts = Interrupts::new()?;
    let (ready_sender, ready_receiver) = mpsc::channel::<Ready>();
    let (end, ending) = mpsc::channel();
    let (refuse, refused) = tokio::sync::oneshot::channel::<()>();
    let (worker_done, worker_ended) = tokio::sync::oneshot::channel::<()>();
    let announcement = Announcement {
        server: command.server.clone(),
        in_background: command.background,
    };
    let supervising = thread::spawn(move || {
        // Dropped at the end of this thread.
        let _worker_done = worker_done;
        if let Ok(ready) = ready_receiver.recv() {
            // Errors before this are for the one who started it; and only now the directory is ours.
            let terminal = announcement.begin_log();
            worker.run(ready.workers, &ending, |first| match first {
                FirstStart::Begun => announcement.make(&ready),
                FirstStart::Refused => {
                    announcement.show_log(terminal);
                    // The server waits for it as long as it runs.
                    let _ = refuse.send(());
                }
            });
        }
    });
    let orders = end.clone();
    let is_refused = Arc::new(AtomicBool::new(false));
    let refusal = Arc::clone(&is_refused);
    let shutdown = async move {
        let signal = tokio::select! {
            signal = interrupts.next() => signal,
            // Otherwise the worker has begun.
            Ok(()) = refused => {
                refusal.store(true, Ordering::Relaxed);
                return;
            }
        };
        baton_service::stopping();
        match signal {
            Interrupt::Interrupted => end_worker(&orders, worker_ended, interrupts).await,
            Interrupt::Terminated => {
                tracing::info!("exiting; the next start takes running attempts over")
            }
        }
    };
    let ready = move |ready: Ready| {
        // The supervisor waits for it as long as the server runs.
        let _ = ready_sender.send(ready);
    };
    let served = serve_at(config, ports, ready, shutdown).await;
    served.map_err(|error| failure(&error))?;
    // The supervisor has exited if the worker was ended, or if there never was one.
    let _ = end.send(Order::Detach);
    if supervising.join().is_err() {
        tracing::error!("the worker supervisor has panicked");
    }
    if is_refused.load(Ordering::Relaxed) {
        return Err(Failure::Silent(USAGE));
    }
    Ok(())
}

/// The message that the server is ready, and its worker has begun.
struct Announcement {
    server: ServerArgs,
    in_background: bool,
}

impl Announcement {
    /// A server in the background logs to a file, as its worker does.
    fn begin_log(&self) -> Option<File> {
        let logs = self.in_background;
        logs.then(|| background::begin_log(&self.server.data))?
    }

    fn make(&self, ready: &Ready) {
        self.server.announce(ready);
    }

    /// Tells why the worker has refused its options; in the foreground it has done so.
    fn show_log(&self, terminal: Option<File>) {
        if self.in_background {
            background::show_log(&self.server.data, terminal);
        }
    }
}

/// Ends the worker while the scheduler still accepts its reports. A second signal stops waiting
/// for that.
async fn end_worker(
    orders: &Sender<Order>,
    worker_ended: tokio::sync::oneshot::Receiver<()>,
    mut interrupts: Interrupts,
) {
    tracing::info!("ending the worker with its attempts; press ^C again to exit without waiting");
    // The supervisor has exited if there never was a worker.
    let _ = orders.send(Order::End);
    let mut worker_ended = worker_ended;
    tokio::select! {
        _ = &mut worker_ended => {}
        _ = interrupts.next() => {
            // As above.
            let _ = orders.send(Order::End);
            let _ = worker_ended.await;
        }
    }
}
