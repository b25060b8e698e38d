//! The universal machine: the lifecycle of an Instance and of a Run.
//!
//! An *-ing* state is owned by one role, an *-ed* state hands over to the next,
//! so at any moment exactly one role may write. ABORTED is for ever, and DONE for
//! an instance; from FAILED and HALTED, and a run from DONE, only a person leads
//! back to QUEUED.
//!
//! A result proves that the attempt was running. Where it overtakes its own
//! confirmation, the caller applies `Confirmed` first and the result second;
//! therefore `Succeeded` in LAUNCHED is illegal and not a shortcut.

use baton_model::state::UniversalState;

use super::{LateRow, Machine, Row, late, row};
use UniversalEvent as E;
use UniversalState as S;

/// The machine of an Instance and of a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Universal;

events! {
    /// What can happen to an Instance or a Run.
    UniversalEvent {
        /// The definer has said everything that the work needs.
        Defined = "defined",
        /// The definition was withdrawn or never completed.
        DefinitionAbandoned = "definition-abandoned",
        /// The distributer has taken it up in order to place it.
        Claimed = "claimed",
        /// The lease of one attempt is durable.
        LeaseGranted = "lease-granted",
        /// The worker has confirmed that it holds the attempt.
        Confirmed = "confirmed",
        /// The attempt ended well.
        Succeeded = "succeeded",
        /// The attempt ended in any other way: it failed, was lost, or never began.
        AttemptEnded = "attempt-ended",
        /// Triage has granted another attempt.
        Requeued = "requeued",
        /// Triage has granted no further attempt.
        GaveUp = "gave-up",
        /// A person, or the run that it belongs to, has stopped it.
        Stopped = "stopped",
        /// A person has let it go on.
        Resumed = "resumed",
        /// A person has asked for another attempt, alone or by resuming the run.
        RetriedByHand = "retried-by-hand",
        /// A person has asked to run a task of a DONE run again. Not for an Instance.
        Reopened = "reopened",
    }
}

state_words!(UniversalState);

/// A second confirmation of an attempt that is already RUNNING.
const CONFIRMATION_REPEATED: &str = "confirmation-repeated";
/// A confirmation that was overtaken by the end of its attempt.
const CONFIRMATION_OVERTAKEN: &str = "confirmation-overtaken";
/// A result that came when its lease was already closed.
const RESULT_AFTER_CLOSE: &str = "result-after-close";
/// A stop that found nothing left to stop.
const STOP_AFTER_END: &str = "stop-after-end";

impl Machine for Universal {
    type State = UniversalState;
    type Event = UniversalEvent;

    const NAME: &'static str = "universal";
    const ABOUT: &'static str = "The lifecycle of an Instance and of a Run.";
    const INITIAL: &'static [S] = &[S::Registering];
    const TERMINAL: &'static [S] = &[S::Done, S::Failed, S::Halted, S::Aborted];
    const BY_HAND: &'static [E] = &[E::Resumed, E::RetriedByHand, E::Reopened];

    const TABLE: &'static [Row<S, E>] = &[
        row(S::Registering, E::Defined, S::Queued),
        row(S::Registering, E::DefinitionAbandoned, S::Aborted),
        row(S::Queued, E::Claimed, S::Instantiating),
        row(S::Queued, E::DefinitionAbandoned, S::Aborted),
        row(S::Queued, E::Stopped, S::Halted),
        row(S::Instantiating, E::LeaseGranted, S::Launched),
        row(S::Instantiating, E::AttemptEnded, S::Triaging),
        row(S::Instantiating, E::Stopped, S::Halted),
        row(S::Launched, E::Confirmed, S::Running),
        row(S::Launched, E::AttemptEnded, S::Triaging),
        row(S::Launched, E::Stopped, S::Halted),
        row(S::Running, E::Succeeded, S::Done),
        row(S::Running, E::AttemptEnded, S::Triaging),
        row(S::Running, E::Stopped, S::Halted),
        row(S::Triaging, E::Requeued, S::Queued),
        row(S::Triaging, E::GaveUp, S::Failed),
        row(S::Triaging, E::Stopped, S::Halted),
        row(S::Halted, E::Resumed, S::Queued),
        row(S::Failed, E::RetriedByHand, S::Queued),
        row(S::Done, E::Reopened, S::Queued),
    ];

    const LATE: &'static [LateRow<S, E>] = &[
        late(S::Running, E::Confirmed, CONFIRMATION_REPEATED),
        late(S::Done, E::Confirmed, CONFIRMATION_OVERTAKEN),
        late(S::Triaging, E::Confirmed, CONFIRMATION_OVERTAKEN),
        late(S::Queued, E::Confirmed, CONFIRMATION_OVERTAKEN),
        late(S::Failed, E::Confirmed, CONFIRMATION_OVERTAKEN),
        late(S::Halted, E::Confirmed, CONFIRMATION_OVERTAKEN),
        late(S::Done, E::Succeeded, RESULT_AFTER_CLOSE),
        late(S::Failed, E::Succeeded, RESULT_AFTER_CLOSE),
        late(S::Halted, E::Succeeded, RESULT_AFTER_CLOSE),
        late(S::Queued, E::Succeeded, RESULT_AFTER_CLOSE),
        late(S::Triaging, E::Succeeded, RESULT_AFTER_CLOSE),
        late(S::Done, E::AttemptEnded, RESULT_AFTER_CLOSE),
        late(S::Failed, E::AttemptEnded, RESULT_AFTER_CLOSE),
        late(S::Halted, E::AttemptEnded, RESULT_AFTER_CLOSE),
        late(S::Queued, E::AttemptEnded, RESULT_AFTER_CLOSE),
        late(S::Triaging, E::AttemptEnded, RESULT_AFTER_CLOSE),
        late(S::Done, E::Stopped, STOP_AFTER_END),
        late(S::Failed, E::Stopped, STOP_AFTER_END),
        late(S::Halted, E::Stopped, STOP_AFTER_END),
        late(S::Aborted, E::Stopped, STOP_AFTER_END),
    ];
}
