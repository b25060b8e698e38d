//! The loop of the coordinator: one connection, requests in their order, records
//! before replies.

use std::io;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use baton_core::bugs::Bugs;
use baton_core::host::Host;
use baton_core::host::io::{Effect, HostStep, Input, Settings, Urgency};
use baton_core::host::kernel::Kernel as _;
use baton_core::step::{Batch, Outbox};
use baton_model::ids::Epoch;
use baton_model::time::Mono;
use rustix::event::{PollFd, PollFlags};

use super::connection::Connection;
use super::journal::Journal;
use super::kernel::{System, log_failure};
use super::{Config, LISTENER_FD, LOCK_FD, last_resort};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::clock::{self, Alarm};
use crate::sys::signals::{self, Signals};
use crate::sys::{identity, inherit, memory, reap};
use crate::wire::RunKey;

/// The pause after the loop could not wait for events.
const WAIT_RETRY: Duration = Duration::from_millis(500);

/// The epoch of the outbox: a coordinator has one log, and no other writes it.
const EPOCH: Epoch = Epoch(1);

/// A running coordinator: the host machine, and what connects it to this host.
struct Coordinator {
    config: Config,
    host: Host,
    system: System,
    /// Decided and not committed.
    step: HostStep,
    outbox: Outbox<Effect>,
    journal: Journal,
    connection: Connection,
}

/// Runs until a runner requests the exit, or the coordinator has been idle for
/// [`IDLE_MAX`](baton_core::host::IDLE_MAX). Errors
/// are written to standard error.
pub(super) fn run(config: Config) -> io::Result<()> {
    let log = |error: &io::Error| log_line!("coordinator: {error}");
    // Held for as long as this process lives: it shows that a coordinator exists.
    let _lock = inherit::descriptor(LOCK_FD).inspect_err(log)?;
    let listener = inherit::descriptor(LISTENER_FD).inspect_err(log)?;
    let listener = UnixListener::from(listener);
    // Logged before the socket closes: a runner that waits there then reads it.
    start(config, &listener).inspect_err(log)
}

fn start(config: Config, listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let signals = Signals::listen(&[libc::SIGCHLD])?;
    signals::ignore_all_of_a_session();
    reap::become_subreaper()?;
    let boot = identity::boot_id()?;
    let journal = Journal::create(&config, config.begun(boot)).map_err(io::Error::other)?;
    let system = System::new(&config, boot)?;
    let settings = Settings {
        mark: config.mark.clone(),
        pid: std::process::id(),
        successor: config.successor,
        guarded: config.guarded,
        bugs: Bugs::NONE,
    };
    let mut coordinator = Coordinator {
        config,
        host: Host::new(settings, clock::now().mono),
        system,
        step: HostStep::default(),
        outbox: Outbox::new(EPOCH),
        journal,
        connection: Connection::default(),
    };
    if coordinator.config.successor {
        coordinator.system.kill_unstarted_children()?;
    }
    memory::release_startup_pages()?;
    let alarm = Alarm::new()?;
    let serve = AssertUnwindSafe(|| coordinator.serve(listener, signals, &alarm));
    if catch_unwind(serve).is_err() && coordinator.is_sole_guard() {
        last_resort::kill_all(
            &coordinator.config.mark,
            coordinator.config.cgroup.as_deref(),
        );
    }
    Ok(())
}

impl Coordinator {
    /// Serves until it is over. No error ends it: a coordinator that cannot read or write still
    /// watches the time.
    fn serve(&mut self, listener: &UnixListener, mut signals: Signals, alarm: &Alarm) {
        loop {
            let ready = self
                .wait(listener, &signals, alarm)
                .unwrap_or_else(|error| {
                    log_line!("coordinator: cannot wait: {error}");
                    std::thread::sleep(WAIT_RETRY);
                    Ready::default()
                });
            if ready.signals {
                log_failure(signals.take());
            }
            // Before exits: if this process was stopped beyond the lease, the reaper has killed its
            // children, and that is how they have ended.
            self.handle(Input::Deadlines);
            self.take_exits();
            for run in ready.held {
                self.handle(Input::HeldEnded(run));
            }
            self.handle(Input::Tick);
            // Before new requests: waiting launches have come first.
            self.handle(Input::Fill);
            if ready.client {
                self.read_requests();
            }
            self.handle_requests();
            self.handle(Input::Fill);
            if ready.listener {
                self.accept(listener);
            }
            self.flush_replies();
            if self.is_over() {
                return;
            }
        }
    }

    fn wait(&self, listener: &UnixListener, signals: &Signals, alarm: &Alarm) -> io::Result<Ready> {
        let mut callers = PollFlags::empty();
        callers.set(PollFlags::IN, self.connection.accepts());
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(listener, callers),
        ];
        // While everything is being killed, no further request is handled.
        if let Some((channel, flags)) = self.connection.interest(!self.host.is_killing()) {
            fds.push(PollFd::new(channel, flags));
        }
        let others = fds.len();
        // The pidfd of an adopted process reports its end.
        let held = || {
            let watched = self.host.watched();
            watched.filter_map(|run| Some((run, self.system.held(run)?)))
        };
        for (_, handle) in held() {
            fds.push(PollFd::new(handle, PollFlags::IN));
        }
        alarm.poll(&mut fds, self.next_due())?;
        let any = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready {
            held: held()
                .zip(others..)
                .filter(|(_, index)| any(*index))
                .map(|((run, _), _)| run)
                .collect(),
            signals: any(0),
            listener: any(1),
            client: self.connection.is_up() && any(2),
        })
    }

    fn next_due(&self) -> Option<Mono> {
        let all = [
            self.journal.next_due(),
            self.connection.next_due(),
            self.host.replies_due(),
            self.host.next_due(&self.system),
        ];
        all.into_iter().flatten().min()
    }

    /// Passes an input to the host, and carries out what cannot wait for the next replies.
    fn handle(&mut self, input: Input) {
        if self.decide(input) == Urgency::Now {
            self.commit();
        }
    }

    fn decide(&mut self, input: Input) -> Urgency {
        self.host.handle(input, &mut self.system, &mut self.step)
    }

    /// Writes the records of all decisions, and carries out the effects that waited for them.
    fn commit(&mut self) {
        while let Some(answer) = self.commit_once() {
            if self.decide(answer) == Urgency::WithReplies {
                return;
            }
        }
    }

    fn commit_once(&mut self) -> Option<Input> {
        let batch = self.outbox.accept(std::mem::take(&mut self.step));
        self.write_records(batch.as_ref().map_or(&[], Batch::facts));
        if let Some(batch) = batch {
            // A log that cannot be written is evidence lost, not work lost: see `Journal`.
            self.outbox.release(batch.durable());
        }
        let mut answer = None;
        for effect in self.outbox.drain() {
            match effect {
                Effect::Reply(reply) => self.connection.push(reply),
                Effect::Spawn { run, launch } => {
                    let fault = self.journal.fault();
                    answer = Some(self.system.spawn(run, launch, &self.config.mark, fault));
                }
                Effect::Reap { pid } => {
                    let usage = self.system.reap(pid);
                    answer = Some(Input::Reaped { pid, usage });
                }
            }
        }
        answer
    }

    /// Passes on every child that has ended. Polled in every turn: it costs one call, and one
    /// signal may stand for several exits.
    fn take_exits(&mut self) {
        let mut last = None;
        while let Some(Some((pid, status))) = log_failure(reap::next_exited()) {
            if last.replace(pid) == Some(pid) {
                // It could not be reaped.
                break;
            }
            self.handle(Input::Exited { pid, status });
        }
        if last.is_some() {
            self.handle(Input::ExitsTaken);
        }
    }

    /// Accepts a new runner.
    fn accept(&mut self, listener: &UnixListener) {
        while let Some(caller) = self.connection.accept(listener) {
            self.commit();
            let pid = caller.pid;
            if let Err(error) = self.connection.replace(caller) {
                log_line!("coordinator: cannot greet the runner: {error}");
                continue;
            }
            self.system.set_runner(Some(pid));
            self.handle(Input::Connected);
            self.send_replies();
        }
    }

    fn read_requests(&mut self) {
        if !self.connection.fill() {
            // Requests received before the disconnect count: a runner that ends sends Exit and
            // disconnects.
            self.handle_requests();
            self.drop_client();
        }
    }

    /// Handles requests, up to one that blocks the others.
    fn handle_requests(&mut self) {
        while !self.host.is_killing() {
            match self.connection.next() {
                Ok(Some(request)) => self.handle(Input::Request(request)),
                Ok(None) => return,
                Err(error) => {
                    log_line!("coordinator: invalid request from the runner: {error}");
                    self.drop_client();
                }
            }
        }
    }

    fn flush_replies(&mut self) {
        let due = self.host.replies_due();
        if self.connection.is_up() && due.is_some_and(|due| clock::now().mono < due) {
            // Records made since then can wait with the replies.
            return;
        }
        self.send_replies();
    }

    fn send_replies(&mut self) {
        self.commit();
        self.host.replies_sent(clock::now().mono);
        if !self.connection.flush() {
            self.drop_client();
        }
    }

    fn drop_client(&mut self) {
        self.connection.close();
        self.system.set_runner(None);
        self.handle(Input::Disconnected);
        self.commit();
        self.journal.sync();
    }

    fn write_records(&mut self, records: &[CoordinatorRecord]) {
        if self.journal.must_recreate() {
            // These are included, too; a repeated record changes nothing.
            let first = self.summary();
            self.journal.recreate(&first);
        }
        if records.is_empty() {
            return;
        }
        if self.journal.write(records, self.host.known_runs()) {
            let first = self.summary();
            self.journal.compact(&first);
        }
        if !self.connection.is_up() {
            self.journal.sync();
        }
    }

    /// The full state, as the first records of a log.
    fn summary(&self) -> Vec<CoordinatorRecord> {
        let begun = self.config.begun(self.system.boot());
        let state = self.host.summary(clock::now().into());
        std::iter::once(begun).chain(state).collect()
    }

    /// True if no agent would take over from this coordinator of a worker.
    fn is_sole_guard(&self) -> bool {
        self.config.guarded && !self.connection.is_up()
    }

    fn is_over(&self) -> bool {
        // Without a log, its state is nowhere else.
        let is_unused = || self.host.is_unused(&self.system) && self.journal.is_writable();
        self.host.is_dismissed() || is_unused()
    }
}

#[derive(Default)]
struct Ready {
    held: Vec<RunKey>,
    signals: bool,
    listener: bool,
    client: bool,
}
