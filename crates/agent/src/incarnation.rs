//! Starting, resuming and ending incarnations.
//!
//! An incarnation survives a restart of the agent, of the coordinator, or of both, as long as the
//! boot is the same and the last deadline of the dead-man timer has not passed. Otherwise all
//! processes with the worker's mark are killed first, and only when they are dead is the counter
//! (`life`) raised: the existence of an incarnation proves that no process of an earlier one runs.
//! Unacknowledged ends are carried over.

use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::io::{GuardOrder, Input, Record};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, HostId, Incarnation};
use baton_model::outcome::KillCause;
use baton_model::time::{Millis, Mono};
use baton_runner::coordinator::{Discovery, Link};
use baton_runner::sys::clock;
use baton_runner::wire::{Reply, Request};
use rustix::event::{PollFd, PollFlags, poll};

use crate::attempts::{AttemptSnapshot, Phase};
use crate::drive::Agent;
use crate::error::Error;
use crate::state::{Handover, StateDir, WorkerState};
use crate::{AgentExit, Config};

/// Delay before killing again what could not be killed.
const KILL_RETRY: Millis = Millis::from_secs(1);
/// How often a coordinator is told to exit.
const EXIT_TRIES_MAX: u32 = 10;
/// How long it gets each time.
const EXIT_WAIT: Millis = Millis::from_secs(1);

/// The first and the longest backoff between two short incarnations.
const BACKOFF_MIN: Millis = Millis(500);
const BACKOFF_MAX: Millis = Millis::from_secs(30);

/// An order to kill everything.
#[derive(Debug, Default)]
pub(crate) struct KillOrder {
    id: u64,
    grace: Millis,
    done: bool,
    retry_at: Option<Mono>,
}

impl KillOrder {
    pub(crate) fn issue(&mut self, grace: Millis) -> u64 {
        self.id += 1;
        self.grace = grace;
        self.done = false;
        self.retry_at = None;
        self.id
    }

    pub(crate) fn acknowledge(&mut self, id: u64, left: u32, now: Mono) {
        if id != self.id {
            return;
        }
        self.done = left == 0;
        if left > 0 {
            tracing::error!("{left} processes cannot be killed; retrying");
            self.retry_at = Some(now + KILL_RETRY);
        }
    }

    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.retry_at
    }

    pub(crate) fn take_retry(&mut self, now: Mono) -> Option<(u64, Millis)> {
        self.retry_at.take_if(|at| *at <= now)?;
        Some((self.issue(Millis(0)), Millis(0)))
    }
}

/// Backoff between incarnations. A worker that is refused at once, again and again, must not spend
/// all its time on dying.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff {
    began: Mono,
    delay: Millis,
}

impl RestartBackoff {
    /// Records the start of an incarnation; returns until when it should not connect.
    fn next_start(&mut self, now: Mono) -> Mono {
        let short = now.since(self.began) < BACKOFF_MAX;
        self.began = now;
        self.delay = if short {
            Millis(self.delay.0 * 2).clamp(BACKOFF_MIN, BACKOFF_MAX)
        } else {
            Millis(0)
        };
        now + self.delay
    }
}

/// The state machine of the current incarnation.
pub(crate) fn new_machine(
    config: &Config,
    dir: &StateDir,
    host: HostId,
    boot: BootId,
    records: Vec<Record>,
    now: Mono,
) -> Worker {
    let me = Holder {
        worker: config.name.clone(),
        incarnation: Incarnation {
            lineage: dir.lineage,
            number: dir.worker_state.number,
        },
        host,
        boot,
    };
    let offer = Arc::new(config.offer.clone());
    Worker::begin(me, config.slots, offer, Bugs::default(), records, now)
}

impl Agent {
    /// Starts the state machine with the current attempts.
    fn start_machine(&mut self) {
        let records = self.attempts.iter().map(|attempt| Record {
            lease: attempt.lease,
            spec: Arc::clone(&attempt.spec),
            ended: match &attempt.phase {
                Phase::Ended(report) => Some(report.clone()),
                Phase::Requested | Phase::Waiting | Phase::Running => None,
            },
        });
        let records = records.collect();
        let now = clock::now().mono;
        self.worker = new_machine(&self.config, &self.dir, self.host, self.boot, records, now);
        self.incarnation_over = false;
    }

    /// Resumes the last incarnation.
    pub(crate) fn resume(&mut self, over: bool) {
        self.start_machine();
        let epoch = self.dir.worker_state.epoch;
        match self.guard {
            Some(guard) => self.worker.resume(GuardOrder {
                epoch: guard.epoch.max(epoch),
                ..guard.into()
            }),
            None => self.worker.obeyed(epoch),
        }
        if over {
            self.inputs.push_back(Input::GuardFired);
        }
        tracing::info!("resuming incarnation {}", self.worker.me().incarnation);
    }

    /// Starts the next incarnation. All processes of the previous one are dead.
    pub(crate) fn start_incarnation(&mut self, ended: Vec<AttemptSnapshot>) -> Result<(), Error> {
        let handover = Handover {
            guard: None,
            attempts: ended,
        };
        self.dir.set_handover(&handover)?;
        let worker_state = WorkerState {
            number: self.dir.worker_state.number.next(),
            boot: self.boot,
            epoch: self.dir.worker_state.epoch,
            dying: false,
        };
        self.dir.set_worker_state(worker_state)?;
        self.guard = None;
        self.dying = None;
        self.kill_order = KillOrder::default();
        self.waiting.clear();
        self.checks.clear();
        self.inputs.clear();
        self.attempts.drain();
        for snapshot in handover.attempts {
            let mut attempt = snapshot.into_record();
            attempt.in_handover = true;
            self.attempts.insert(attempt);
        }
        self.attach();
        self.start_machine();
        self.worker.obeyed(worker_state.epoch);
        tracing::info!("starting incarnation {}", self.worker.me().incarnation);
        Ok(())
    }

    /// Ends the incarnation, if the state machine has ended it and no process is left.
    pub(crate) fn finish_incarnation(&mut self) -> Result<Option<AgentExit>, Error> {
        if !self.incarnation_over || !self.kill_order.done {
            return Ok(None);
        }
        let attempts = self.attempts.drain();
        let over = attempts.iter().filter(|attempt| attempt.is_over());
        let ended: Vec<AttemptSnapshot> = over.map(|attempt| attempt.to_snapshot()).collect();
        let attempts = ended.clone();
        // Must be saved before the coordinator exits, which has them on record.
        self.dir.set_handover(&Handover {
            guard: None,
            attempts,
        })?;
        let mut requests = std::mem::take(&mut self.requests);
        requests.push(Request::Exit);
        let mut link = self.link.take();
        if let Some(link) = &mut link {
            // Fails only if it is already gone.
            let _ = link.send_all(&requests);
        }
        if self.shutting_down {
            tracing::info!("the incarnation has ended; all processes are dead");
            return Ok(Some(AgentExit::Ended));
        }
        if let Some(link) = link {
            await_exit(link);
        }
        self.exits.take(self.boot);
        self.restart_coordinator()?;
        self.start_incarnation(ended)?;
        let quiet_until = self.restart_backoff.next_start(clock::now().mono);
        self.connection.pause_until(quiet_until);
        Ok(None)
    }

    /// A coordinator whose timer has fired launches nothing any more: starts another in its place.
    fn restart_coordinator(&mut self) -> Result<(), Error> {
        for _ in 0..EXIT_TRIES_MAX {
            let found = self.coordinator.discover();
            match found.map_err(Error::io("reach the coordinator"))? {
                Discovery::Running(mut link, _) => {
                    // It exits, or is gone: the next iteration finds out.
                    let _ = link.send(&Request::Exit);
                    await_exit(link);
                }
                Discovery::Absent(permit) => {
                    let begun = permit.start(&self.coordinator, &mut self.spawner, false);
                    let (link, _) = begun.map_err(Error::io("start the coordinator"))?;
                    self.link = Some(link);
                    return Ok(());
                }
            }
        }
        let error = std::io::Error::other("it does not exit");
        Err(Error::io("replace the coordinator")(error))
    }

    /// Kills all processes with the worker's mark, and waits until they are dead.
    pub(crate) fn kill_leftovers(&mut self) -> Result<(), Error> {
        self.dying = Some(KillCause::Suicide);
        let what = "kill the processes of an earlier incarnation";
        loop {
            let id = self.kill_order.issue(Millis(0));
            let left = self.kill_once(id).map_err(Error::io(what))?;
            if left == 0 {
                return Ok(());
            }
            tracing::error!(
                "{left} processes of an earlier incarnation cannot be killed; retrying"
            );
            std::thread::sleep(std::time::Duration::from_millis(KILL_RETRY.0));
        }
    }

    fn kill_once(&mut self, id: u64) -> std::io::Result<u32> {
        let Some(link) = &mut self.link else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        let spared = self.foreign_children.clone();
        let grace = Millis(0);
        link.send_all(&[
            Request::Attach { spared },
            Request::KillEverything { id, grace },
        ])?;
        loop {
            poll(&mut [PollFd::new(&*link, PollFlags::IN)], None)?;
            let (replies, alive) = link.receive()?;
            for reply in replies {
                if let Reply::EverythingKilled { left, .. } = reply {
                    return Ok(left);
                }
            }
            if !alive {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
        }
    }
}

/// Waits a bounded time until a coordinator that was told to exit is gone. It serves one connection
/// at a time: connecting again now would replace the connection that carries the order.
fn await_exit(mut link: Link) {
    let until = clock::now().mono + EXIT_WAIT;
    loop {
        let left = until.since(clock::now().mono);
        if left == Millis(0) {
            return;
        }
        let timeout = clock::timeout(left);
        // An error or an interruption only shortens the wait.
        let _ = poll(&mut [PollFd::new(&link, PollFlags::IN)], Some(&timeout));
        if !matches!(link.receive(), Ok((_, true))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_incarnations_start_with_growing_backoff() {
        let mut backoff = RestartBackoff::default();
        let mut now = Mono(1_000_000);
        assert_eq!(backoff.next_start(now), now, "the one before was long");
        let mut delays = Vec::new();
        for _ in 0..9 {
            let until = backoff.next_start(now);
            delays.push(until.since(now));
            now = until;
        }
        assert_eq!(delays[..3], [Millis(500), Millis(1_000), Millis(2_000)]);
        assert!(delays.iter().all(|delay| *delay <= BACKOFF_MAX));
        now = now + BACKOFF_MAX + BACKOFF_MAX;
        assert_eq!(backoff.next_start(now), now);
    }

    #[test]
    fn what_cannot_be_killed_is_killed_again() {
        let mut order = KillOrder::default();
        let id = order.issue(Millis(5));
        order.acknowledge(id + 1, 0, Mono(0));
        assert!(!order.done, "an answer to another order");
        order.acknowledge(id, 1, Mono(0));
        assert!(!order.done);
        assert_eq!(order.take_retry(Mono(1)), None);
        let (retry, _) = order.take_retry(Mono(KILL_RETRY.0)).expect("due");
        order.acknowledge(retry, 0, Mono(KILL_RETRY.0));
        assert!(order.done);
    }
}
