//! Every interval and bound of fleets, with its reason.

use baton_model::time::Millis;

/// How often fleets are looked at while something waits or is open. A submission takes a second, so a quicker look
/// gains nothing.
pub(super) const LOOK_EVERY: Millis = Millis::from_secs(2);

/// The least time between two lists of one fleet. Controllers of large clusters answer about four calls a minute of
/// one user without complaints.
pub(super) const LIST_EVERY: Millis = Millis::from_secs(15);

/// The same if nothing is in doubt: every job runs, and its pilots are here.
pub(super) const LIST_SELDOM: Millis = Millis::from_secs(60);

/// The longest time between two lists after failures.
pub(super) const LIST_BACKOFF_MAX: Millis = Millis::from_secs(5 * 60);

/// How long lists go on after a job was given up without a proof, in case it comes to be.
pub(super) const LATE_WATCH: Millis = Millis::from_secs(60 * 60);

/// After this time a call counts as failed. Backends end their own after 30 s.
pub(super) const CALL_LIMIT: Millis = Millis::from_secs(5 * 60);

/// How long a new leader requests nothing: workers come back first. The first leader of a store does not wait.
pub(super) const TAKEOVER_WAIT: Millis = Millis::from_secs(30);

/// How long a pilot that had come under an earlier leader is expected back.
pub(super) const RETURN_WAIT: Millis = Millis::from_secs(90);

/// How long a job must have been missing since an unclear submission before it is given up.
pub(super) const SIGHT_LIMIT: Millis = Millis::from_secs(5 * 60);

/// Lists that must have missed it, too.
pub(super) const SIGHT_LISTS: u32 = 3;

/// How long after an order to cancel it was taken a missing job is over.
pub(super) const GONE_AFTER: Millis = Millis::from_secs(5 * 60);

/// How long a job may be missing in lists, without pilots, before it is cancelled.
pub(super) const ABSENT_LIMIT: Millis = Millis::from_secs(15 * 60);

/// How long a running job may be without a pilot. To fetch a large container takes minutes.
pub(super) const ARRIVAL_LIMIT: Millis = Millis::from_secs(10 * 60);

/// An order to cancel that has shown no effect is repeated after this time.
pub(super) const CANCEL_AGAIN: Millis = Millis::from_secs(60);

/// A request that is younger is not cancelled.
pub(super) const CANCEL_AGE: Millis = Millis::from_secs(60);

/// A request is cancelled when nothing has waited for it for so long.
pub(super) const UNNEEDED_FOR: Millis = Millis::from_secs(30);

/// How long after a cancelled request the fleet makes no other.
pub(super) const REQUEST_PAUSE: Millis = Millis::from_secs(60);

/// The cost of a start: what the present workers do within this time is left to them. The measured time from request to
/// arrival counts between these bounds; a job that waits for hours in a queue must not stop all further ones.
pub(super) const START_COST: (Millis, Millis) = (Millis::from_secs(30), Millis::from_secs(5 * 60));

/// The first pause after a failed job; it doubles with each.
pub(super) const TRIAL_PAUSE: Millis = Millis::from_secs(30);

/// The longest pause after failed jobs.
pub(super) const TRIAL_PAUSE_MAX: Millis = Millis::from_secs(15 * 60);

/// How long a pilot must have been here before its fleet counts as well again.
pub(super) const RECOVERED_AFTER: Millis = Millis::from_secs(60);

/// Failures in a row on one node after which it is avoided.
pub(super) const NODE_FAILURES_MAX: u32 = 2;

/// How long it is avoided.
pub(super) const NODE_AVOIDED_FOR: Millis = Millis::from_secs(60 * 60);

/// If more nodes than this fail, and no job succeeds, the nodes are not the cause.
pub(super) const NODES_AVOIDED_MAX: usize = 8;

/// The span in which starts are counted.
pub(super) const STARTS_SPAN: Millis = Millis::from_secs(60 * 60);

/// Starts of jobs in that span, for each job that a fleet may have at once, and in any case.
pub(super) const STARTS_MAX: (u32, u32) = (4, 12);

/// How much longer than its idle time a pilot may be idle before its job is cancelled.
pub(super) const IDLE_GRACE: Millis = Millis::from_secs(60);

/// Without a time limit, the time that a pilot that is kept for `min` may be idle.
pub(super) const KEPT_IDLE: Millis = Millis::from_secs(365 * 24 * 3_600);

/// The shortest life of a token of pilots: it is renewed twice a day.
pub(super) const TOKEN_LIFE_MIN: Millis = Millis::from_secs(24 * 3_600);

/// How much longer than a job the half of a life is: for its start, its end, and clocks that differ.
pub(super) const TOKEN_MARGIN: Millis = Millis::from_secs(3_600);

/// The pause after a token could not be provided; it doubles with each failure.
pub(super) const TOKEN_PAUSE: Millis = Millis::from_secs(15);

/// The longest of these pauses.
pub(super) const TOKEN_PAUSE_MAX: Millis = Millis::from_secs(5 * 60);

/// Workers of one fleet: as many as the leader is measured with.
pub(super) const WORKERS_MAX: u32 = 10_000;

/// Fleets of one scheduler.
pub(super) const FLEETS_MAX: usize = 100;
