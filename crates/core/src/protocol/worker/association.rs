//! Heartbeats: the only unsolicited message of a worker, and the only call without an
//! association.

use std::sync::Arc;

use baton_model::ids::{Association, Epoch, Incarnation, NotifySeq};
use baton_model::limits::{PROGRESS_PER_HEARTBEAT_MAX, PROTOCOL_VERSION};
use baton_model::message::{Greeting, Heartbeat, HeartbeatReply, Refusal, ToScheduler};
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::timeouts::LeaseTerm;

use super::Worker;
use super::io::{Effect, GuardOrder};

impl Worker {
    /// Sends what is due: a heartbeat, and statuses that wait for an acknowledgement.
    pub(super) fn send_due(&mut self, now: Mono, out: &mut Vec<Effect>) {
        if self.life_ended {
            return;
        }
        if now >= self.next_heartbeat {
            self.send_heartbeat(now, out);
        }
        self.send_statuses(now, out);
    }

    fn send_heartbeat(&mut self, now: Mono, out: &mut Vec<Effect>) {
        // Strictly growing, so that the scheduler can tell a repeat from the next.
        if let Some(Stamp(last)) = self.last_sent
            && last >= now
        {
            self.next_heartbeat = last + Millis(1);
            return;
        }
        let stamp = Stamp(now);
        self.first_sent.get_or_insert(stamp);
        self.last_sent = Some(stamp);
        self.next_heartbeat = now + self.timeouts.heartbeat_period;
        out.push(Effect::Send(ToScheduler::ProcessHeartbeat(Heartbeat {
            version: PROTOCOL_VERSION,
            worker: self.me.clone(),
            executor: self.executor.clone(),
            slots: self.slots,
            offer: Arc::clone(&self.offer),
            association: self.association,
            epoch_seen: self.epoch_seen,
            stamp,
            state: self.state,
            worker_set: self.worker_set,
            tenure: self.tenure(now),
            greeting: self.greeting(),
            measured: self.measured,
        })));
        self.send_progress(out);
    }

    /// Tells what attempts have said of their progress since the last heartbeat.
    fn send_progress(&mut self, out: &mut Vec<Effect>) {
        let Some(association) = self.association else {
            return;
        };
        let last = self.told_progress_of;
        let attempts = self
            .attempts
            .take_progress(last, PROGRESS_PER_HEARTBEAT_MAX);
        if let Some((lease, _)) = attempts.last() {
            self.told_progress_of = Some(*lease);
            let message = ToScheduler::Progress {
                association,
                attempts,
            };
            out.push(Effect::Send(message));
        }
    }

    /// What it says of itself while it has no association.
    fn greeting(&self) -> Option<Greeting> {
        let wall = self.wall.filter(|_| self.association.is_none())?;
        Some(Greeting {
            version: Arc::clone(&self.version),
            wall,
            host: self.host,
            dialled: self.dialled.clone(),
        })
    }

    /// A leader has answered one of our heartbeats.
    pub(super) fn answered(&mut self, now: Mono, reply: &HeartbeatReply, out: &mut Vec<Effect>) {
        if !self.is_ours(reply.association.incarnation, reply.stamp) {
            return;
        }
        match self.compare(reply.association) {
            Freshness::Older => {
                self.counts.notice("older-association");
                return;
            }
            Freshness::Newer => self.associate(now, reply.association),
            Freshness::Current => {}
        }
        if self.state == WorkerState::MustDie || reply.state == WorkerState::MustDie {
            self.give_up(now, out);
            return;
        }
        let overtaken = self.last_answered.is_some_and(|last| reply.stamp <= last);
        if overtaken {
            self.counts.notice("heartbeat-reply-overtaken");
            return;
        }
        self.last_answered = Some(reply.stamp);
        self.held_for = reply.held;
        self.timeouts = reply.timeouts;
        self.take_worker_set(reply);
        self.take_state(now, reply.state);
        let mut order = self.guard_order(reply.stamp);
        if seeded!(self.bugs, DeadManInAgent) {
            order.deadline = Mono(u64::MAX);
        }
        if seeded!(self.bugs, DeadlineOfAnother) {
            let held = self.attempts.iter();
            let terms = held.map(|(_, entry)| LeaseTerm::of(&entry.spec));
            let others = terms.filter_map(|term| order.deadline_of(term));
            order.deadline = others.fold(order.deadline, Mono::max);
        }
        out.push(Effect::Guard(order));
    }

    /// A leader has refused our heartbeat.
    pub(super) fn refused(
        &mut self,
        now: Mono,
        (epoch, incarnation, stamp): (Epoch, Incarnation, Stamp),
        refusal: Refusal,
        out: &mut Vec<Effect>,
    ) {
        if !self.is_ours(incarnation, stamp) || epoch < self.epoch_seen {
            self.counts.notice("foreign-refusal");
            return;
        }
        if refusal.is_order_to_die() {
            self.is_copy |= refusal == Refusal::Copied;
            self.give_up(now, out);
        } else {
            self.counts.notice("other-version");
        }
    }

    /// The deadline of attempts without a time of their own, unless another heartbeat is answered.
    /// No launch that echoes this heartbeat starts after it.
    pub(super) fn deadline(&self, answered: Stamp) -> Mono {
        answered.0 + self.timeouts.lease
    }

    /// True if it is held for an attempt on another worker, as far as it knows: a scheduler that is not heard
    /// holds nothing.
    #[must_use]
    pub fn is_held(&self, now: Mono) -> bool {
        let answered = self.last_answered.filter(|_| self.held_for > 0);
        answered.is_some_and(|answered| now < self.deadline(answered))
    }

    /// The order that follows from an answer to this heartbeat.
    pub(super) fn guard_order(&self, answered: Stamp) -> GuardOrder {
        GuardOrder {
            deadline: self.deadline(answered),
            grace: self.timeouts.kill_grace,
            kill_max: self.timeouts.kill_max,
            epoch: self.epoch_seen,
            stamp: answered,
        }
    }

    fn is_ours(&mut self, incarnation: Incarnation, stamp: Stamp) -> bool {
        let sent = self.first_sent <= Some(stamp) && Some(stamp) <= self.last_sent;
        let ours = incarnation == self.me.incarnation && self.first_sent.is_some() && sent;
        if !ours {
            self.counts.notice("foreign-heartbeat-reply");
        }
        ours
    }

    /// Associations of one worker are ordered by epoch, then by session, so a late
    /// reply of an earlier one can never undo a later one.
    fn compare(&self, offered: Association) -> Freshness {
        if offered.epoch < self.epoch_seen && !seeded!(self.bugs, OlderEpochObeyed) {
            return Freshness::Older;
        }
        let Some(current) = self.association else {
            return Freshness::Newer;
        };
        if offered == current {
            return Freshness::Current;
        }
        let newer = (offered.epoch, offered.session) > (current.epoch, current.session);
        if newer || seeded!(self.bugs, OlderEpochObeyed) {
            Freshness::Newer
        } else {
            Freshness::Older
        }
    }

    /// Everything that was numbered within the old association begins anew; what
    /// we hold, and what we owe, stays.
    fn associate(&mut self, now: Mono, association: Association) {
        self.association = Some(association);
        // This session knows of none.
        self.attempts.untell_progress();
        self.epoch_seen = association.epoch;
        if !seeded!(self.bugs, SequenceNotReset) {
            self.seq = NotifySeq(0);
        }
        self.next_status = now;
        if self.state != WorkerState::MustDie {
            self.move_to(WorkerState::New);
        }
    }

    fn take_worker_set(&mut self, reply: &HeartbeatReply) {
        let Some(set) = reply.worker_set else { return };
        let older = self
            .worker_set
            .is_some_and(|held| held.id.epoch == set.id.epoch && held.id.version > set.id.version);
        if !older {
            self.worker_set = Some(set);
        }
    }

    /// The scheduler's view overrules ours, except that nothing undoes MUST_DIE.
    fn take_state(&mut self, now: Mono, state: WorkerState) {
        if state == WorkerState::Healthy && self.last_checked.is_none() {
            // The scheduler has seen a good check of this incarnation that this agent,
            // started since, has not.
            self.last_checked = Some(now);
        }
        self.move_to(state);
    }
}

/// How an offered association relates to ours.
enum Freshness {
    Older,
    Current,
    Newer,
}
