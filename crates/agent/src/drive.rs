//! The event loop: one thread around one `poll`.
//!
//! ```text
//!   scheduler ──messages──▶┐               ┌──▶ messages ──one write──▶ scheduler
//!   coordinator ─replies──▶├─▶ supervisor ─┤
//!   time, signals ────────▶┘               └──▶ requests ──one write──▶ coordinator
//! ```
//!
//! All messages of one iteration leave in one write to each side.

use std::io;
use std::path::Path;
use std::sync::Arc;

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::Supervisor;
use baton_core::supervision::backoff::IncarnationBackoff;
use baton_core::supervision::io::Event;
use baton_model::message::LeaveCause;
use baton_model::time::Mono;
use baton_model::timeouts::LeaseTerm;
use baton_runner::coordinator::{COMMAND, CoordinatorSpec};
use baton_runner::sys::cgroup::{self, Cgroup};
use baton_runner::sys::clock::Alarm;
use baton_runner::sys::signals::{self, Signals};
use baton_runner::sys::{clock, reap};
use baton_service::Watchdog;
use rustix::event::{PollFd, PollFlags};

use crate::connection::Connection;
use crate::coordinator::Coordinator;
use crate::end_filing::EndFiler;
use crate::error::Error;
use crate::incarnation::{Host, identity_of};
use crate::launch::Launcher;
use crate::log_limit::LogLimit;
use crate::processes::ProcessReader;
use crate::progress::ProgressWatch;
use crate::scheduler::Scheduler;
use crate::state::{CHECKPOINT, StateDir};
use crate::sweep::Sweep;
use crate::usage::UsageWatch;
use crate::{AgentExit, Config};

/// A running agent.
pub(crate) struct Agent {
    pub(crate) config: Config,
    pub(crate) host: Host,
    pub(crate) dir: StateDir,
    pub(crate) supervisor: Supervisor,
    pub(crate) coordinator: Coordinator,
    pub(crate) scheduler: Scheduler,
    pub(crate) launcher: Launcher,
    pub(crate) backoff: IncarnationBackoff,
    /// The supervisor has ended this incarnation.
    pub(crate) life_ended: bool,
    /// It was interrupted: it kills everything, and ends.
    interrupted: bool,
    pub(crate) usage_watch: UsageWatch,
    progress_watch: ProgressWatch,
    pub(crate) log_limit: LogLimit,
    pub(crate) process_reader: ProcessReader,
    /// The last launch was prevented by a fault of this host; for the log.
    pub(crate) is_faulty: bool,
    sweep: Sweep,
    pub(crate) end_filer: EndFiler,
    /// Kept open: it is not swept while an agent without a coordinator starts another.
    group: Option<Cgroup>,
}

impl Agent {
    /// Opens the state directory, and starts or resumes an incarnation.
    pub(crate) fn open(config: Config) -> Result<Self, Error> {
        let now = clock::now().mono;
        let (token, tls) = (config.token.clone(), config.tls.clone());
        let connection = Connection::new(&config.scheduler, token, tls, now)?
            .with_token_file(config.token_file.clone())
            .with_proxy(config.proxy.clone());
        // Exceeding a file size limit must be an error that is reported, not a fatal signal.
        signals::ignore(&[libc::SIGXFSZ, libc::SIGPIPE]);
        let dir = StateDir::open(&config.state)?;
        let host = Host::current()?;
        // The children of a dying coordinator are reparented to this process, with their exit
        // status.
        reap::become_subreaper().map_err(Error::io("become the subreaper"))?;
        let group = create_group(&dir.mark());
        sweep_groups();
        let spec = coordinator_spec(&config, dir.path(), dir.mark(), group.as_ref());
        let mut agent = Self {
            host,
            supervisor: Supervisor::begin(&identity_of(&config, &dir, host), Vec::new(), now),
            coordinator: Coordinator::new(spec, host.boot)?,
            scheduler: Scheduler::new(connection),
            launcher: Launcher::new(dir.path(), &dir.mark(), &config),
            backoff: IncarnationBackoff::default(),
            life_ended: false,
            interrupted: false,
            progress_watch: ProgressWatch::new(now),
            log_limit: LogLimit::new(dir.path(), config.log_limit, now),
            usage_watch: UsageWatch::new(group.as_ref().map(|it| it.path().to_owned()), now),
            process_reader: ProcessReader::new(dir.path()).map_err(Error::io("create a socket"))?,
            is_faulty: false,
            sweep: Sweep::new(dir.path(), config.keep, now),
            end_filer: EndFiler::new(dir.path()),
            dir,
            group,
            config,
        };
        agent.start_or_resume()?;
        agent.forget_secrets();
        Ok(agent)
    }

    /// Runs until it is told to exit.
    pub(crate) fn drive(mut self) -> Result<AgentExit, Error> {
        signals::restore(libc::SIGCHLD);
        let wanted = [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP, libc::SIGINT];
        let mut signals = Signals::listen(&wanted).map_err(Error::io("listen to signals"))?;
        let alarm = Alarm::new().map_err(Error::io("create a timer"))?;
        baton_service::ready();
        let mut watchdog = Watchdog::from_env();
        loop {
            watchdog.turn(clock::now().mono);
            if std::mem::take(&mut self.life_ended)
                && let Some(ended) = self.finish_incarnation()?
            {
                return Ok(ended);
            }
            self.flush()?;
            let ready = self.wait(&signals, &alarm, watchdog.next_due());
            let ready = ready.map_err(Error::io("wait"))?;
            if ready.signals {
                for signal in signals.take().map_err(Error::io("take signals"))? {
                    if let Some(ended) = self.handle_signal(signal) {
                        return Ok(ended);
                    }
                }
            }
            if ready.reaper {
                self.coordinator.reaper_disconnected();
            }
            self.coordinator.connect_reaper();
            if ready.coordinator {
                self.read_coordinator()?;
            }
            if ready.processes {
                for (request, answer) in self.process_reader.take() {
                    self.handle(Event::ProcessesRead(request, answer));
                }
            }
            let now = clock::now().mono;
            self.read_scheduler(now, ready.scheduler);
            self.handle_timers(now, &ready);
        }
    }

    fn handle_signal(&mut self, signal: i32) -> Option<AgentExit> {
        match signal {
            libc::SIGCHLD => self.coordinator.collect_exits(),
            libc::SIGINT if self.interrupted => {
                tracing::warn!("exiting now; the remaining processes are being killed");
                // Both signals may arrive in the same iteration: then the coordinator has no order
                // yet.
                if let Err(error) = self.flush() {
                    tracing::error!("{error}");
                }
                return Some(AgentExit::Ended);
            }
            libc::SIGINT => {
                tracing::info!("shutting down: killing everything; interrupt again to exit now");
                self.interrupted = true;
                baton_service::stopping();
                self.handle(Event::Leave(LeaveCause::Interrupted));
            }
            libc::SIGTERM if self.config.lifetime.drains => {
                let grace = self.config.lifetime.drain_grace;
                let live = self.supervisor.worker().alive();
                tracing::info!("draining: {live} attempts have up to {grace} to end");
                baton_service::stopping();
                self.handle(Event::Leave(LeaveCause::Terminated));
            }
            _ => {
                self.detach();
                return Some(AgentExit::Detached);
            }
        }
        None
    }

    /// Exits and leaves the attempts running.
    fn detach(&mut self) {
        baton_service::stopping();
        if self.supervisor.is_idle() {
            // The coordinator is not needed; its log tells the next agent the state.
            self.coordinator.dismiss();
            self.remove_group();
        } else {
            // If it is gone, the next agent finds out.
            let _ = self.coordinator.flush();
        }
        tracing::info!("exiting; {}", self.outlook());
    }

    /// Until when the attempts go on without an agent.
    fn outlook(&self) -> String {
        let attempts = self.supervisor.attempts().iter();
        let live: Vec<LeaseTerm> = attempts
            .filter(|attempt| !attempt.is_over())
            .map(|attempt| attempt.assignment.term())
            .collect();
        let count = match live.len() {
            0 => return "nothing is running".to_owned(),
            1 => "1 attempt continues".to_owned(),
            count => format!("{count} attempts continue"),
        };
        let order = self.coordinator.guard().map(GuardOrder::from);
        let deadlines = live.iter().filter_map(|term| order?.deadline_of(*term));
        let now = clock::now().mono;
        match deadlines.min() {
            Some(first) => format!(
                "{count}; if it is not started again, the first is killed in {}",
                first.since(now)
            ),
            None => format!("{count}, however late it is started again"),
        }
    }

    /// Removes the control group: the coordinator was told to exit, and nothing runs.
    pub(crate) fn remove_group(&mut self) {
        if let Some(Err(error)) = self.group.take().map(Cgroup::remove) {
            tracing::warn!("cannot remove the control group: {error}; the next start does");
        }
    }

    /// Sends all pending messages, with one write to each side.
    fn flush(&mut self) -> Result<(), Error> {
        self.save_handover();
        while self.coordinator.flush().is_err() {
            self.replace_coordinator()?;
        }
        self.scheduler.flush(clock::now().mono);
        Ok(())
    }

    fn wait(&self, signals: &Signals, alarm: &Alarm, ping: Option<Mono>) -> io::Result<Ready> {
        let due = [
            self.supervisor.next_due(),
            Some(self.scheduler.next_due()),
            self.usage_watch.next_due(self.supervisor.attempts()),
            self.progress_watch.next_due(self.supervisor.attempts()),
            self.log_limit.next_due(self.supervisor.attempts()),
            Some(self.sweep.next_due()),
            self.coordinator.reaper().next_due(),
            ping,
        ];
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&self.process_reader, PollFlags::IN),
        ];
        let link = self.coordinator.link();
        if let Some(link) = link {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, link.wants_write());
            fds.push(PollFd::new(link, flags));
        }
        let reaper = fds.len();
        if let Some(fd) = self.coordinator.reaper().fd() {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let scheduler = fds.len();
        if let Some((fd, flags)) = self.scheduler.interest() {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        alarm.poll(&mut fds, due.into_iter().flatten().min())?;
        let any = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready {
            signals: any(0),
            processes: any(1),
            coordinator: link.is_some() && any(2),
            reaper: reaper < scheduler && any(reaper),
            scheduler: any(scheduler),
        })
    }

    fn read_coordinator(&mut self) -> Result<(), Error> {
        let (replies, alive) = self.coordinator.receive();
        for reply in replies {
            self.handle_reply(reply);
        }
        if alive {
            return Ok(());
        }
        self.replace_coordinator()
    }

    fn read_scheduler(&mut self, now: Mono, ready: bool) {
        let received = self.scheduler.receive(now, ready);
        if received.connected {
            // A scheduler that has just answered gets a heartbeat at once.
            let offer = Arc::clone(&self.config.offer);
            let worker = self.supervisor.worker_mut();
            worker.note_dialled(self.scheduler.place().into());
            worker.offer(now, offer);
        }
        for message in received.messages {
            self.handle(Event::Message(message));
        }
        for delivery in received.secrets {
            self.take_secrets(now, delivery);
        }
    }

    fn handle_timers(&mut self, now: Mono, ready: &Ready) {
        if self.supervisor.next_due().is_some_and(|due| due <= now) {
            self.handle(Event::Tick);
        }
        for (run, bytes) in self.usage_watch.sample(now, self.supervisor.attempts()) {
            self.handle(Event::MemoryUsed(run, bytes));
        }
        let measured = self.usage_watch.measured(self.supervisor.attempts());
        self.supervisor.worker_mut().measure(measured);
        let attempts = self.supervisor.attempts();
        let progress = self.progress_watch.read(now, attempts, &self.launcher);
        for (lease, progress) in progress {
            self.supervisor.worker_mut().note_progress(lease, progress);
        }
        self.log_limit.check(now, self.supervisor.attempts());
        self.end_filer.turn(self.supervisor.attempts());
        if now >= self.sweep.next_due() {
            let attempts = self.supervisor.attempts();
            let idle = !ready.coordinator && !ready.scheduler;
            self.sweep.turn(now, idle, |lease| attempts.contains(lease));
        }
    }
}

/// Removes what is left of workers and tasks that are gone, while this one starts.
fn sweep_groups() {
    let sweep = || {
        let removed = cgroup::sweep(COMMAND);
        if removed > 0 {
            tracing::info!("removed {removed} control groups without an owner");
        }
    };
    let spawned = std::thread::Builder::new()
        .name("sweep".to_owned())
        .spawn(sweep);
    if let Err(error) = spawned {
        tracing::warn!("cannot start a thread to remove old control groups: {error}");
    }
}

/// Creates the worker's control group, where that is possible.
pub(crate) fn create_group(mark: &str) -> Option<Cgroup> {
    cgroup::create(&format!("{}{mark}", cgroup::PREFIX))
}

/// What the worker's coordinator is started with.
pub(crate) fn coordinator_spec(
    config: &Config,
    state: &Path,
    mark: String,
    group: Option<&Cgroup>,
) -> CoordinatorSpec {
    CoordinatorSpec {
        binary: config.binary.clone(),
        checkpoint: state.join(CHECKPOINT),
        sandbox: state.to_owned(),
        mark,
        cgroup: group.map(|group| group.path().to_owned()),
        guarded: true,
    }
}

struct Ready {
    signals: bool,
    processes: bool,
    coordinator: bool,
    /// It is gone: it sends nothing unasked.
    reaper: bool,
    scheduler: bool,
}
