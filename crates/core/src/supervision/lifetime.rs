//! When a worker ends by itself, and its drain.
//!
//! ```text
//!   serving ──closes_at, idle, SIGTERM──▶ draining ──all ended, or kill_at──▶ killing ──▶ goodbye
//!                                          takes no work, warns, waits        everything dies
//! ```
//!
//! A drain lasts for [`Lifetime::drain_grace`] at most, from its begin to the end of the process. Its
//! last part, the *reserve*, is for killing what is left and for reporting it: a batch system that
//! kills the worker at its end finds nothing.

use baton_model::message::LeaveCause;
use baton_model::time::{Millis, Mono};

use super::Supervisor;
use super::io::Action;
use crate::protocol::worker::io::Input;

/// The longest part of a drain that is kept for killing and reporting.
const RESERVE_MAX: Millis = Millis::from_secs(7);

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The latest time of its exit, its drain included.
    pub until: Option<Mono>,
    /// It ends when it had no attempt, and was held for none, for this long.
    pub idle_exit: Option<Millis>,
    /// From the begin of a drain to the end of the worker.
    pub drain_grace: Millis,
    /// SIGTERM begins a drain; without it the agent leaves its work to the next one.
    pub drains: bool,
}

impl Lifetime {
    /// [`Self::drain_grace`], unless it is configured.
    pub const DRAIN_GRACE: Millis = Millis::from_secs(30);

    /// When its drain begins by itself, and no more work is taken.
    #[must_use]
    pub fn closes_at(&self) -> Option<Mono> {
        self.until.map(|until| before(until, self.drain_grace))
    }
}

impl Default for Lifetime {
    fn default() -> Self {
        Self {
            until: None,
            idle_exit: None,
            drain_grace: Self::DRAIN_GRACE,
            drains: false,
        }
    }
}

/// A drain in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    /// When what is left is killed.
    kill_at: Mono,
    /// Everything is being killed.
    is_killing: bool,
}

impl Supervisor {
    /// Begins to end: with a drain, unless it was interrupted. A second request changes nothing but
    /// that: an interrupted drain ends at once.
    pub(super) fn leave(&mut self, now: Mono, cause: LeaveCause, out: &mut Vec<Action>) {
        if cause == LeaveCause::Interrupted {
            self.drain.get_or_insert(Drain {
                kill_at: now,
                is_killing: false,
            });
            let by = now + self.lifetime.drain_grace;
            self.inputs.push_back(Input::Leave(cause, by));
            return self.kill_rest(now, out);
        }
        if self.drain.is_some() || self.dying.is_some() {
            return;
        }
        let by = now + self.lifetime.drain_grace;
        let by = self.lifetime.until.map_or(by, |until| until.min(by));
        let reserve = RESERVE_MAX.min(by.since(now).scaled(1, 3));
        self.drain = Some(Drain {
            kill_at: before(by, reserve),
            is_killing: false,
        });
        self.inputs.push_back(Input::Leave(cause, by));
        self.feed_worker(now, out);
        // Another worker may have room for what was not started.
        for (at, _) in &mut self.waiting {
            *at = now;
        }
        self.withdraw_overdue(now, out);
        self.warn_all(out);
        self.end_kept_back(Mono(u64::MAX));
    }

    /// Does what its lifetime demands: after every event.
    pub(super) fn watch_lifetime(&mut self, now: Mono, out: &mut Vec<Action>) {
        let is_free = self.worker.alive() == 0 && !self.worker.is_held(now);
        if !is_free {
            self.idle_since = None;
        } else {
            self.idle_since.get_or_insert(now);
        }
        if self.dying.is_some() {
            return;
        }
        match self.drain {
            Some(drain) => {
                if is_free || now >= drain.kill_at {
                    self.kill_rest(now, out);
                }
            }
            None => {
                let is_over = self.lifetime.closes_at().is_some_and(|at| at <= now);
                let is_idle = self.idle_until().is_some_and(|at| at <= now);
                if is_over {
                    self.leave(now, LeaveCause::Lifetime, out);
                } else if is_idle {
                    self.leave(now, LeaveCause::Idle, out);
                } else {
                    return;
                }
                self.watch_lifetime(now, out);
            }
        }
    }

    /// The next time at which something follows from its lifetime.
    pub(super) fn next_of_lifetime(&self) -> Option<Mono> {
        if self.dying.is_some() {
            return None;
        }
        match self.drain {
            Some(drain) => Some(drain.kill_at),
            None => {
                let due = [self.lifetime.closes_at(), self.idle_until()];
                due.into_iter().flatten().min()
            }
        }
    }

    /// When it ends because it has no work.
    fn idle_until(&self) -> Option<Mono> {
        Some(self.idle_since? + self.lifetime.idle_exit?)
    }

    /// Kills what is left, and ends the incarnation when everything is dead and reported.
    fn kill_rest(&mut self, now: Mono, out: &mut Vec<Action>) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        if !std::mem::replace(&mut drain.is_killing, true) {
            self.inputs.push_back(Input::GiveUp);
            self.feed_worker(now, out);
        }
    }
}

/// A time, so long before another.
pub(super) fn before(at: Mono, span: Millis) -> Mono {
    Mono(at.0.saturating_sub(span.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use baton_model::ids::{Association, Epoch, NotifySeq, SessionId, StoreId};
    use baton_model::message::{
        HeartbeatReply, Launch, LaunchRefusal, LaunchVerdict, Status, ToScheduler, ToWorker,
    };
    use baton_model::outcome::{KillCause, Outcome};
    use baton_model::spec::{InstanceSpec, Warning, Work};
    use baton_model::state::WorkerState;
    use baton_model::task::RunKey;
    use baton_model::time::Stamp;
    use baton_model::timeouts::Timeouts;

    use super::super::attempts::Attempt;
    use super::super::io::{Event, Sighting};
    use super::super::takeover::{Inventory, KnownAttempt};
    use super::super::tests::{ended, identity, outcome_of, run, running, started};
    use super::*;

    const USR1: i32 = 10;

    /// An attempt that wants to be warned 10 s before its end.
    fn warned(process: u32) -> KnownAttempt {
        let mut known = running(process, Work::default());
        Arc::make_mut(&mut known.assignment.spec).warn = Some(Warning {
            signal: USR1,
            before: Millis::from_secs(10),
        });
        known
    }

    /// A worker with this lifetime that runs these, and is HEALTHY.
    fn worker(lifetime: Lifetime, known: Vec<KnownAttempt>) -> Supervisor {
        let identity = super::super::Identity {
            lifetime,
            ..identity()
        };
        let owned: BTreeSet<RunKey> = known.iter().map(|known| known.run).collect();
        let inventory = Inventory::new(known, Vec::new(), None);
        let unasked = |_: &Attempt| -> Sighting { panic!("the coordinator reports its own runs") };
        let (mut worker, _) =
            Supervisor::resume(&identity, inventory, &owned, None, unasked, Mono(100));
        worker.handle(Mono(101), Event::Tick);
        greet(&mut worker, Mono(101));
        worker
    }

    fn association(worker: &Supervisor) -> Association {
        Association {
            store: StoreId(1),
            epoch: Epoch(1),
            incarnation: worker.worker().me().incarnation,
            session: SessionId(1),
        }
    }

    /// A leader answers the heartbeat that was sent then.
    fn greet(worker: &mut Supervisor, sent: Mono) {
        hold(worker, sent, 0);
    }

    /// The same, while it is held for so many attempts of others.
    fn hold(worker: &mut Supervisor, sent: Mono, held: u32) {
        let reply = HeartbeatReply {
            association: association(worker),
            stamp: Stamp(sent),
            state: WorkerState::Healthy,
            timeouts: Timeouts::default().for_worker(),
            worker_set: None,
            held,
        };
        let reply = ToWorker::HeartbeatReply(reply);
        worker.handle(sent, Event::Message(reply));
    }

    fn sent(actions: &[Action]) -> impl Iterator<Item = &ToScheduler> {
        actions.iter().filter_map(|action| match action {
            Action::Send(message) => Some(message),
            _ => None,
        })
    }

    fn kills(actions: &[Action]) -> Option<(u64, Millis)> {
        actions.iter().find_map(|action| match action {
            Action::KillEverything { id, grace } => Some((*id, *grace)),
            _ => None,
        })
    }

    fn warnings(actions: &[Action]) -> Vec<RunKey> {
        let warnings = actions.iter().filter_map(|action| match action {
            Action::Warn { run, signal: USR1 } => Some(*run),
            _ => None,
        });
        warnings.collect()
    }

    fn until(seconds: u64) -> Lifetime {
        Lifetime {
            until: Some(Mono(1_000 * seconds)),
            ..Lifetime::default()
        }
    }

    /// Lets the worker act until this time; returns everything that it did.
    fn pass(worker: &mut Supervisor, to: Mono) -> Vec<(Mono, Action)> {
        let mut done = Vec::new();
        while let Some(due) = worker.next_due().filter(|due| *due <= to) {
            let actions = worker.handle(due, Event::Tick);
            done.extend(actions.into_iter().map(|action| (due, action)));
        }
        done
    }

    #[test]
    fn a_worker_drains_before_the_end_of_its_lifetime() {
        let mut worker = worker(until(100), vec![warned(1), running(2, Work::default())]);
        let done = pass(&mut worker, Mono(100_000));
        let of = |wanted: fn(&Action) -> bool| -> Vec<Mono> {
            let found = done.iter().filter(|(_, action)| wanted(action));
            found.map(|(at, _)| *at).collect()
        };
        assert_eq!(of(|it| matches!(it, Action::Warn { .. })), [Mono(70_000)]);
        let killed = of(|it| matches!(it, Action::KillEverything { .. }));
        assert_eq!(killed, [Mono(93_000)], "what is left, before the end");
        let leaving = done.iter().find_map(|(at, action)| match action {
            Action::Send(ToScheduler::ProcessHeartbeat(it)) if it.tenure.leaving => Some(*at),
            _ => None,
        });
        assert_eq!(
            leaving,
            Some(Mono(70_000)),
            "the scheduler learns it at once"
        );
    }

    #[test]
    fn a_worker_that_is_held_for_a_gang_is_not_idle() {
        let lifetime = Lifetime {
            idle_exit: Some(Millis::from_secs(20)),
            ..Lifetime::default()
        };
        for (held, leaves) in [(1, false), (0, true)] {
            let mut worker = worker(lifetime, Vec::new());
            for second in 1..60 {
                worker.handle(Mono(1_000 * second), Event::Tick);
                hold(&mut worker, Mono(1_000 * second), held);
            }
            assert_eq!(worker.drain.is_some(), leaves, "held for {held}");
        }
    }

    #[test]
    fn an_attempt_is_warned_before_a_drain_if_it_wants_to_be() {
        let lifetime = Lifetime {
            drain_grace: Millis::from_secs(5),
            ..until(100)
        };
        let mut worker = worker(lifetime, vec![warned(1)]);
        let done = pass(&mut worker, Mono(99_000));
        let warned = done
            .iter()
            .filter(|(_, it)| matches!(it, Action::Warn { .. }));
        let warned: Vec<Mono> = warned.map(|(at, _)| *at).collect();
        assert_eq!(
            warned,
            [Mono(90_000)],
            "and not again when the drain begins"
        );
    }

    #[test]
    fn an_attempt_is_warned_of_its_timeout_and_fails_by_itself() {
        let mut known = warned(1);
        known.assignment.timeout = Some(Millis::from_secs(60));
        let mut worker = worker(Lifetime::default(), vec![known]);
        let done = pass(&mut worker, Mono(59_000));
        let warned = done
            .iter()
            .filter(|(_, it)| matches!(it, Action::Warn { .. }));
        assert_eq!(warned.count(), 1);
        worker.handle(Mono(59_001), ended(run(1, 0), Outcome::Exited(1)));
        assert_eq!(outcome_of(&worker, 1), Some(Outcome::Exited(1)));
    }

    #[test]
    fn a_failure_after_the_warning_of_a_drain_is_a_loss_and_a_success_is_one() {
        let known = vec![warned(1), warned(2), running(3, Work::default())];
        let mut worker = worker(Lifetime::default(), known);
        let actions = worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        assert_eq!(warnings(&actions), [run(1, 0), run(2, 0)]);
        worker.handle(Mono(300), ended(run(1, 0), Outcome::Exited(75)));
        worker.handle(Mono(301), ended(run(2, 0), Outcome::Exited(0)));
        worker.handle(Mono(302), ended(run(3, 0), Outcome::Exited(1)));
        let lost = Outcome::Killed(KillCause::WorkerEnded);
        assert!(lost.is_loss());
        assert_eq!(outcome_of(&worker, 1), Some(lost));
        assert_eq!(outcome_of(&worker, 2), Some(Outcome::Exited(0)));
        assert_eq!(
            outcome_of(&worker, 3),
            Some(Outcome::Exited(1)),
            "not warned"
        );
    }

    /// A worker that drains on SIGTERM, and whose attempt has ended so.
    fn with_casualty(outcome: Outcome) -> Supervisor {
        let lifetime = Lifetime {
            drains: true,
            ..Lifetime::default()
        };
        let mut worker = worker(lifetime, vec![running(1, Work::default())]);
        worker.handle(Mono(200), ended(run(1, 0), outcome));
        worker
    }

    #[test]
    fn an_end_by_the_signal_that_ends_the_worker_is_a_loss() {
        let lost = Outcome::Killed(KillCause::WorkerEnded);
        for status in [143, 130, 137] {
            let mut worker = with_casualty(Outcome::Exited(status));
            assert_eq!(outcome_of(&worker, 1), None, "it is kept back");
            worker.handle(Mono(900), Event::Leave(LeaveCause::Terminated));
            assert_eq!(outcome_of(&worker, 1), Some(lost), "{status}");
        }
        let mut worker = with_casualty(Outcome::Exited(1));
        worker.handle(Mono(900), Event::Leave(LeaveCause::Terminated));
        assert_eq!(outcome_of(&worker, 1), Some(Outcome::Exited(1)));
    }

    #[test]
    fn a_signal_to_an_attempt_alone_is_a_failure_two_seconds_later() {
        let mut worker = with_casualty(Outcome::Exited(143));
        pass(&mut worker, Mono(2_199));
        assert_eq!(outcome_of(&worker, 1), None);
        pass(&mut worker, Mono(2_200));
        assert_eq!(outcome_of(&worker, 1), Some(Outcome::Exited(143)));
    }

    #[test]
    fn the_signal_may_reach_an_attempt_after_its_worker() {
        let mut worker = worker(Lifetime::default(), vec![running(1, Work::default())]);
        worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        worker.handle(Mono(300), ended(run(1, 0), Outcome::Exited(143)));
        let lost = Outcome::Killed(KillCause::WorkerEnded);
        assert_eq!(outcome_of(&worker, 1), Some(lost));
    }

    #[test]
    fn a_draining_worker_refuses_launches_and_gives_back_what_waits() {
        let mut waiting = running(1, Work::default());
        (waiting.waiting, waiting.started) = (true, None);
        let mut worker = worker(
            Lifetime::default(),
            vec![waiting, running(2, Work::default())],
        );
        let actions = worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        assert!(
            actions.contains(&Action::Withdraw(run(1, 0))),
            "{actions:?}"
        );
        let actions = worker.handle(Mono(201), Event::Refused(run(1, 0)));
        let given_back = |it: &ToScheduler| match it {
            ToScheduler::UpdateStatus { statuses, .. } => {
                statuses.iter().any(|(_, it)| *it == Status::WasNotRunning)
            }
            _ => false,
        };
        assert!(sent(&actions).any(given_back), "{actions:?}");
        assert_eq!(
            verdict(&mut worker, Mono(202), None),
            Some(LaunchRefusal::Leaving)
        );
    }

    /// Why the worker refuses a launch of an instance that asks for this much time.
    fn verdict(worker: &mut Supervisor, now: Mono, time: Option<Millis>) -> Option<LaunchRefusal> {
        let mut lease = running(9, Work::default()).assignment.lease;
        lease.attempt.instance.0 += now.0;
        let launch = Launch {
            lease,
            spec: Arc::new(InstanceSpec {
                time_request: time,
                ..InstanceSpec::default()
            }),
            allowance: None,
            trace: None,
        };
        let message = ToWorker::RunTask {
            association: association(worker),
            seq: NotifySeq(0),
            stamp: Stamp(Mono(101)),
            launches: vec![launch],
        };
        let actions = worker.handle(now, Event::Message(message));
        sent(&actions).find_map(|message| match message {
            ToScheduler::RunTaskReply { verdicts, .. } => match verdicts.first()?.1 {
                LaunchVerdict::Refused(refusal) => Some(refusal),
                LaunchVerdict::Accepted => None,
            },
            _ => None,
        })
    }

    #[test]
    fn a_launch_that_needs_more_time_than_is_left_is_refused() {
        let mut worker = worker(until(100), Vec::new());
        let minute = Some(Millis::from_secs(60));
        assert_eq!(verdict(&mut worker, Mono(5_000), minute), None);
        let long = Some(Millis::from_secs(65));
        let refused = verdict(&mut worker, Mono(5_001), long);
        assert_eq!(refused, Some(LaunchRefusal::TooLong));
        assert_eq!(verdict(&mut worker, Mono(5_002), None), None);
    }

    #[test]
    fn an_idle_worker_ends_also_without_a_scheduler() {
        let lifetime = Lifetime {
            idle_exit: Some(Millis::from_secs(60)),
            ..Lifetime::default()
        };
        let identity = super::super::Identity {
            lifetime,
            ..identity()
        };
        let mut worker = Supervisor::begin(&identity, Vec::new(), Mono(0));
        worker.handle(Mono(0), Event::Tick);
        assert!(kills_of(&pass(&mut worker, Mono(59_999))).is_none());
        let id = kills_of(&pass(&mut worker, Mono(60_000))).expect("it ends");
        let left = Event::EverythingKilled { id, left: 0 };
        let actions = worker.handle(Mono(60_001), left);
        assert!(actions.contains(&Action::EndLife), "{actions:?}");
        assert!(worker.worker().is_leaving());
    }

    fn kills_of(done: &[(Mono, Action)]) -> Option<u64> {
        done.iter().find_map(|(_, action)| match action {
            Action::KillEverything { id, .. } => Some(*id),
            _ => None,
        })
    }

    #[test]
    fn work_postpones_the_idle_exit() {
        let lifetime = Lifetime {
            idle_exit: Some(Millis::from_secs(60)),
            ..Lifetime::default()
        };
        let mut worker = worker(lifetime, vec![running(1, Work::default())]);
        assert!(kills_of(&pass(&mut worker, Mono(70_000))).is_none());
        worker.handle(Mono(70_001), ended(run(1, 0), Outcome::Exited(0)));
        assert!(kills_of(&pass(&mut worker, Mono(130_000))).is_none());
        assert!(kills_of(&pass(&mut worker, Mono(130_001))).is_some());
    }

    #[test]
    fn a_goodbye_follows_the_last_acknowledgement_and_is_repeated() {
        let mut worker = worker(Lifetime::default(), vec![running(1, Work::default())]);
        let lease = running(1, Work::default()).assignment.lease;
        worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        let actions = worker.handle(Mono(300), ended(run(1, 0), Outcome::Exited(0)));
        let (id, _) = kills(&actions).expect("nothing is left to wait for");
        let says =
            |actions: &[Action]| sent(actions).any(|it| matches!(it, ToScheduler::Goodbye { .. }));
        let actions = worker.handle(Mono(301), Event::EverythingKilled { id, left: 0 });
        assert!(!says(&actions), "the end is not acknowledged");
        let ack = ToWorker::StatusAck {
            association: association(&worker),
            leases: vec![lease],
        };
        let actions = worker.handle(Mono(302), Event::Message(ack));
        assert!(
            says(&actions) && !actions.contains(&Action::EndLife),
            "{actions:?}"
        );
        assert!(says(&worker.handle(Mono(802), Event::Tick)), "again");
        let ack = ToWorker::GoodbyeAck {
            association: association(&worker),
        };
        let actions = worker.handle(Mono(803), Event::Message(ack));
        assert_eq!(actions, [Action::EndLife]);
        assert_eq!(worker.next_due(), None);
    }

    #[test]
    fn a_worker_that_is_not_answered_leaves_all_the_same() {
        let mut worker = worker(Lifetime::default(), Vec::new());
        let actions = worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        let (id, _) = kills(&actions).expect("it has no work");
        worker.handle(Mono(201), Event::EverythingKilled { id, left: 0 });
        let done = pass(&mut worker, Mono(10_000));
        assert_eq!(done.last(), Some(&(Mono(2_201), Action::EndLife)));
    }

    #[test]
    fn an_interrupted_drain_ends_at_once() {
        let mut worker = worker(Lifetime::default(), vec![running(1, Work::default())]);
        let actions = worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        assert_eq!(kills(&actions), None);
        let actions = worker.handle(Mono(300), Event::Leave(LeaveCause::Interrupted));
        assert!(kills(&actions).is_some(), "{actions:?}");
        worker.handle(
            Mono(301),
            ended(run(1, 0), Outcome::Killed(KillCause::Requested)),
        );
        let lost = Outcome::Killed(KillCause::WorkerEnded);
        assert_eq!(outcome_of(&worker, 1), Some(lost));
    }

    #[test]
    fn what_starts_during_a_drain_is_warned_at_once() {
        let mut known = warned(1);
        known.started = None;
        let mut worker = worker(
            Lifetime::default(),
            vec![known, running(2, Work::default())],
        );
        let actions = worker.handle(Mono(200), Event::Leave(LeaveCause::Terminated));
        assert_eq!(warnings(&actions), []);
        worker.handle(Mono(201), started(run(1, 0)));
        let actions = worker.handle(Mono(201), Event::Tick);
        assert_eq!(warnings(&actions), [run(1, 0)]);
    }
}
