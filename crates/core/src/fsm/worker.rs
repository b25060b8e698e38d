//! The worker machine: the health of one incarnation, kept on both sides of the
//! connection with the same timeouts.
//!
//! Only HEALTHY workers are given work. MUST_DIE is for ever: the seat goes
//! to another incarnation, whose machine begins in NEW.
//!
//! `Reassociated` leads back to NEW. The same incarnation may begin a new
//! session, because its agent restarted and re-adopted what still runs, or
//! because its connection broke. Whatever was known of its running tasks belongs
//! to the old session, so it has to be asked again, and the worker has to prove
//! itself again, before it is given work.
//!
//! The table is total: each event comes from a timer or from the network, and
//! can therefore find the machine in any state.

use baton_model::state::WorkerState;

use super::{LateRow, Machine, Row, late, row};
use WorkerEvent as E;
use WorkerState as S;

/// The machine of one incarnation of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker;

events! {
    /// What can happen to one incarnation of a worker.
    WorkerEvent {
        /// What it already runs has been told and taken over.
        RunningTasksKnown = "running-tasks-known",
        /// It has answered a health check in time.
        Proved = "proved",
        /// It has not been heard of for too long to be given work.
        WentQuiet = "went-quiet",
        /// It cannot launch anything because of a fault of its host.
        Faulted = "faulted",
        /// It has been given up: silent for too long, superseded, or told to die.
        Condemned = "condemned",
        /// The same incarnation has begun a new session, for example because its agent restarted.
        Reassociated = "reassociated",
    }
}

state_words!(WorkerState);

/// The list of running tasks was told twice.
const LIST_REPEATED: &str = "list-repeated";
/// A health check was answered before the list of running tasks was known.
const PROOF_BEFORE_LIST: &str = "proof-before-list";
/// A health check was answered when health was already proved.
const PROOF_REPEATED: &str = "proof-repeated";
/// A timer for silence fired before there was health to lose.
const QUIET_BEFORE_HEALTH: &str = "quiet-before-health";
/// A timer for silence fired when the silence was already known.
const QUIET_REPEATED: &str = "quiet-repeated";
/// A fault of the host was found before there was health to lose.
const FAULT_BEFORE_HEALTH: &str = "fault-before-health";
/// A fault of the host was found again.
const FAULT_REPEATED: &str = "fault-repeated";
/// A second new session began before the first had told its list.
const REASSOCIATED_BEFORE_LIST: &str = "reassociated-before-list";
/// The incarnation was condemned twice.
const CONDEMNED_REPEATED: &str = "condemned-repeated";
/// A condemned incarnation was heard of, or missed, once more.
const AFTER_CONDEMNED: &str = "after-condemned";

impl Machine for Worker {
    type State = WorkerState;
    type Event = WorkerEvent;

    const NAME: &'static str = "worker";
    const ABOUT: &'static str =
        "The health of one incarnation of a worker, kept on both sides with the same timeouts.";
    const INITIAL: &'static [S] = &[S::New];
    const TERMINAL: &'static [S] = &[S::MustDie];

    const TABLE: &'static [Row<S, E>] = &[
        row(S::New, E::RunningTasksKnown, S::Unhealthy),
        row(S::New, E::Condemned, S::MustDie),
        row(S::Unhealthy, E::Proved, S::Healthy),
        row(S::Unhealthy, E::Condemned, S::MustDie),
        row(S::Unhealthy, E::Reassociated, S::New),
        row(S::Healthy, E::WentQuiet, S::Unhealthy),
        row(S::Healthy, E::Faulted, S::Unhealthy),
        row(S::Healthy, E::Condemned, S::MustDie),
        row(S::Healthy, E::Reassociated, S::New),
    ];

    const LATE: &'static [LateRow<S, E>] = &[
        late(S::Unhealthy, E::RunningTasksKnown, LIST_REPEATED),
        late(S::Healthy, E::RunningTasksKnown, LIST_REPEATED),
        late(S::MustDie, E::RunningTasksKnown, AFTER_CONDEMNED),
        late(S::New, E::Proved, PROOF_BEFORE_LIST),
        late(S::Healthy, E::Proved, PROOF_REPEATED),
        late(S::MustDie, E::Proved, AFTER_CONDEMNED),
        late(S::New, E::WentQuiet, QUIET_BEFORE_HEALTH),
        late(S::Unhealthy, E::WentQuiet, QUIET_REPEATED),
        late(S::MustDie, E::WentQuiet, AFTER_CONDEMNED),
        late(S::New, E::Faulted, FAULT_BEFORE_HEALTH),
        late(S::Unhealthy, E::Faulted, FAULT_REPEATED),
        late(S::MustDie, E::Faulted, AFTER_CONDEMNED),
        late(S::MustDie, E::Condemned, CONDEMNED_REPEATED),
        late(S::New, E::Reassociated, REASSOCIATED_BEFORE_LIST),
        late(S::MustDie, E::Reassociated, AFTER_CONDEMNED),
    ];
}
