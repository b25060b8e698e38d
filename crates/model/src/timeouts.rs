//! The protocol's time budget.
//!
//! Every attempt has a time for which it outlives the contact between its worker and a
//! scheduler, `lost_after`: that of its task, or the scheduler's own, which is the
//! [lease](Timeouts::lease). The scheduler counts it from the *receipt* of a heartbeat, the
//! worker from its *sending*; both clocks may run up to 10 % fast or slow. A worker
//! therefore gets four fifths of it (0.9 / 1.1 = 0.818), less what killing takes, so that
//! the attempt is dead strictly before the scheduler may call it lost:
//!
//! ```text
//! worker     |-- heartbeat_gap --|--- share of lost_after ---| TERM | KILL |slack|
//!            sent             UNHEALTHY                   deadline     dead
//! scheduler    |---- heartbeat_gap ----|-------- rest of lost_after -------------|
//!              received             UNHEALTHY                                  lost
//! ```

use serde::{Deserialize, Serialize};

use crate::spec::{Exclusive, InstanceSpec};
use crate::time::Millis;

/// How long work outlives the contact to its scheduler, unless task or scheduler say otherwise.
///
/// Longer than a restart of a scheduler, an upgrade, a reboot of its host or a failover of its
/// database usually takes. It is also what the death of a host costs its work, where nothing proves
/// it earlier.
pub const LOST_AFTER_DEFAULT: Millis = Millis::from_secs(300);

/// The shortest `lost_after` of a task: whatever the scheduler's own lease is, a worker has time for
/// late heartbeats and for killing.
pub const LOST_AFTER_MIN: Millis = Millis::from_secs(60);

/// After this many heartbeat gaps without a heartbeat a worker is silent: another one may take its
/// name, and another boot of its host counts as a reboot.
const SILENT_GAPS: u64 = 6;

/// The time for which an attempt outlives the last heartbeat of its worker that was answered.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseTerm {
    /// The lease of the leader that answers.
    #[default]
    Lease,
    /// A time of its own.
    For(Millis),
    /// For ever: only a proof replaces it, so that nothing has to kill it.
    Unlimited,
}

impl LeaseTerm {
    /// The term of an instance's attempts as the scheduler counts it.
    #[must_use]
    pub const fn of(spec: &InstanceSpec) -> Self {
        match (spec.exclusive, spec.lost_after) {
            (Exclusive::Strict, _) => Self::Unlimited,
            (Exclusive::Timed, Some(span)) => Self::For(span),
            (Exclusive::Timed, None) => Self::Lease,
        }
    }
}

/// The scheduler's own timeouts. The worker's are derived from them and travel
/// in every heartbeat reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timeouts {
    /// How often a worker sends a heartbeat.
    pub heartbeat_period: Millis,
    /// Without a heartbeat for longer, a worker is UNHEALTHY.
    pub heartbeat_gap: Millis,
    /// How often a worker's health is checked by launching a trivial process.
    pub check_period: Millis,
    /// Without a good check (counted from its sending) for longer, UNHEALTHY.
    pub check_gap: Millis,
    /// UNHEALTHY for longer, a worker without attempts is MUST_DIE.
    pub lose_after: Millis,
    /// Between SIGTERM and SIGKILL when a worker gives up.
    pub kill_grace: Millis,
    /// Time allowed for SIGKILL to take effect, for a host's service manager to
    /// restart a guard that was itself killed, and for scheduling delays.
    pub kill_slack: Millis,
    /// Without a reply to `runTask` for longer, the scheduler is unsure.
    pub reply_wait: Millis,
    /// The first pause between two `notifyIfTasksNotRunning`; it doubles.
    pub unsure_poll_min: Millis,
    /// The longest such pause.
    pub unsure_poll_max: Millis,
    /// How often a worker repeats a status that was not acknowledged.
    pub status_retry: Millis,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            heartbeat_period: Millis::from_secs(5),
            heartbeat_gap: Millis::from_secs(15),
            check_period: Millis::from_secs(30),
            check_gap: Millis::from_secs(70),
            lose_after: Millis::from_secs(75),
            kill_grace: Millis::from_secs(5),
            kill_slack: Millis::from_secs(12),
            reply_wait: Millis::from_secs(4),
            unsure_poll_min: Millis::from_secs(1),
            unsure_poll_max: Millis::from_secs(64),
            status_retry: Millis::from_secs(2),
        }
    }
}

/// The worker's share of the time budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerTimeouts {
    /// How often to send a heartbeat.
    pub heartbeat_period: Millis,
    /// Without an acknowledged heartbeat for longer, UNHEALTHY.
    pub heartbeat_gap: Millis,
    /// Without a good health check for longer, UNHEALTHY.
    pub check_gap: Millis,
    /// From the sending of the last acknowledged heartbeat to the dead-man's SIGTERM, for attempts
    /// without a time of their own.
    pub lease: Millis,
    /// From SIGTERM to SIGKILL.
    pub kill_grace: Millis,
    /// From SIGTERM until everything is certainly dead.
    pub kill_max: Millis,
    /// How often to repeat a status that was not acknowledged.
    pub status_retry: Millis,
}

/// Timeouts under which the protocol would be unsafe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeoutsError {
    #[error("{0} must be at least 1 ms")]
    Zero(&'static str),
    /// Otherwise one lost message makes a worker UNHEALTHY.
    #[error("heartbeat_gap must be at least twice heartbeat_period")]
    HeartbeatGapTooShort,
    #[error("check_gap must be at least twice check_period")]
    CheckGapTooShort,
    /// After killing time and clock drift the worker would have no lease left.
    #[error(
        "heartbeat_gap + lose_after is too short: four fifths of it, less kill_grace and \
         kill_slack, must leave the worker longer than heartbeat_gap"
    )]
    LeaseTooShort,
}

impl Timeouts {
    /// Timeouts whose [lease](Self::lease) is this span. A lease shorter than the usual one scales
    /// the others, so that the worker keeps its share; a longer one does not make heartbeats rarer.
    #[must_use]
    pub fn with_lease(lease: Millis) -> Self {
        let usual = Self::default();
        if lease >= usual.lease() {
            let lose_after = lease.saturating_sub(usual.heartbeat_gap);
            return Self {
                lose_after,
                ..usual
            };
        }
        let scaled = |span: Millis| Millis(span.scaled(lease.0, usual.lease().0).0.max(1));
        let heartbeat_gap = scaled(usual.heartbeat_gap);
        Self {
            heartbeat_period: scaled(usual.heartbeat_period),
            heartbeat_gap,
            lose_after: lease.saturating_sub(heartbeat_gap),
            kill_grace: scaled(usual.kill_grace),
            kill_slack: scaled(usual.kill_slack),
            ..usual
        }
    }

    /// How long after the last heartbeat that it answered the scheduler must
    /// treat a worker's leases as possibly alive, unless their tasks say otherwise.
    #[must_use]
    pub fn lease(&self) -> Millis {
        self.heartbeat_gap + self.lose_after
    }

    /// Without a heartbeat for longer, a worker is silent.
    #[must_use]
    pub fn silence(&self) -> Millis {
        self.heartbeat_gap.scaled(SILENT_GAPS, 1).min(self.lease())
    }

    fn kill_max(&self) -> Millis {
        self.kill_grace + self.kill_slack
    }

    /// Derives the worker's share of the budget.
    #[must_use]
    pub fn for_worker(&self) -> WorkerTimeouts {
        let heartbeat_gap = four_fifths(self.heartbeat_gap);
        WorkerTimeouts {
            heartbeat_period: self.heartbeat_period,
            heartbeat_gap,
            check_gap: self.check_gap,
            lease: worker_share(self.lease(), self.kill_max()),
            kill_grace: self.kill_grace,
            kill_max: self.kill_max(),
            status_retry: self.status_retry,
        }
    }

    /// Refuses a budget under which a worker would not give up strictly first.
    ///
    /// # Errors
    /// Names the span that is wrong and how to fix it.
    pub fn validate(&self) -> Result<(), TimeoutsError> {
        let spans = [
            ("heartbeat_period", self.heartbeat_period),
            ("check_period", self.check_period),
            ("lose_after", self.lose_after),
            ("reply_wait", self.reply_wait),
            ("unsure_poll_min", self.unsure_poll_min),
            ("unsure_poll_max", self.unsure_poll_max),
            ("status_retry", self.status_retry),
        ];
        for (field, span) in spans {
            if span.0 == 0 {
                return Err(TimeoutsError::Zero(field));
            }
        }
        if self.heartbeat_gap < self.heartbeat_period.scaled(2, 1) {
            return Err(TimeoutsError::HeartbeatGapTooShort);
        }
        if self.check_gap < self.check_period.scaled(2, 1) {
            return Err(TimeoutsError::CheckGapTooShort);
        }
        if self.for_worker().lease <= self.heartbeat_gap {
            return Err(TimeoutsError::LeaseTooShort);
        }
        Ok(())
    }
}

/// The worker's share of a span that the scheduler waits, less what killing takes.
#[must_use]
pub fn worker_share(span: Millis, kill_max: Millis) -> Millis {
    four_fifths(span).saturating_sub(kill_max)
}

/// The worker's share where both clocks may be off by 10 %: below 0.9 / 1.1.
fn four_fifths(span: Millis) -> Millis {
    span.scaled(4, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(Timeouts::default().validate(), Ok(()));
    }

    #[test]
    fn a_slow_worker_is_dead_before_a_fast_scheduler_calls_it_lost() {
        let timeouts = Timeouts::default();
        let worker = timeouts.for_worker();
        let all_dead = worker.lease + timeouts.kill_grace + timeouts.kill_slack;
        // Real time = clock time / rate: the worker's clock is slow, the scheduler's fast.
        let latest_death = all_dead.0 as f64 / 0.9;
        let earliest_loss = timeouts.lease().0 as f64 / 1.1;
        assert!(
            latest_death < earliest_loss,
            "{latest_death} >= {earliest_loss}"
        );
    }

    #[test]
    fn every_term_that_a_task_may_ask_for_ends_on_the_worker_first() {
        let timeouts = Timeouts::default();
        let worker = timeouts.for_worker();
        for seconds in [60, 90, 200_000] {
            let span = Millis::from_secs(seconds);
            assert!(span >= LOST_AFTER_MIN);
            let kept = worker_share(span, worker.kill_max);
            assert!(kept > timeouts.heartbeat_gap, "late heartbeats");
            let latest_death = (kept + worker.kill_max).0 as f64 / 0.9;
            let earliest_loss = span.0 as f64 / 1.1;
            assert!(latest_death < earliest_loss, "{span}");
        }
    }

    #[test]
    fn a_lease_of_any_length_leaves_the_worker_its_share() {
        for seconds in [1, 3, 60, 90, 300, 3_600, 172_800] {
            let timeouts = Timeouts::with_lease(Millis::from_secs(seconds));
            assert_eq!(timeouts.validate(), Ok(()), "{seconds} s");
            assert_eq!(timeouts.lease(), Millis::from_secs(seconds));
        }
        let long = Timeouts::with_lease(Millis::from_secs(172_800));
        assert_eq!(long.heartbeat_gap, Timeouts::default().heartbeat_gap);
        let usual = Timeouts::with_lease(LOST_AFTER_DEFAULT).for_worker();
        assert_eq!(usual.lease, Millis::from_secs(223));
    }

    #[test]
    fn a_budget_without_room_for_killing_is_refused_with_the_hint() {
        let timeouts = Timeouts {
            lose_after: Millis::from_secs(20),
            ..Timeouts::default()
        };
        let error = timeouts.validate().expect_err("20 s leave no lease");
        assert_eq!(error, TimeoutsError::LeaseTooShort);
        assert!(error.to_string().contains("kill_grace"));
    }

    #[test]
    fn zero_spans_are_refused_by_name() {
        let timeouts = Timeouts {
            status_retry: Millis(0),
            ..Timeouts::default()
        };
        assert_eq!(
            timeouts.validate(),
            Err(TimeoutsError::Zero("status_retry"))
        );
    }

    #[test]
    fn gaps_must_hold_two_periods() {
        let heartbeat = Timeouts {
            heartbeat_gap: Millis::from_secs(9),
            ..Timeouts::default()
        };
        assert_eq!(
            heartbeat.validate(),
            Err(TimeoutsError::HeartbeatGapTooShort)
        );
        let check = Timeouts {
            check_gap: Millis::from_secs(59),
            ..Timeouts::default()
        };
        assert_eq!(check.validate(), Err(TimeoutsError::CheckGapTooShort));
    }
}
