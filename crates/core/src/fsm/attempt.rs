//! The attempt machine: one try of an instance, as the runner on its worker
//! sees it.
//!
//! However an attempt ends, it goes through CLEANING, so that no regular process
//! is left when the final ones begin, and through FINALIZING, so that the final
//! ones get their turn also after a kill. What cannot be proved is LOST, never
//! SUCCESS; and a proof that turns up after LOST was reported changes nothing,
//! because the scheduler may already have started another attempt.

use baton_model::state::AttemptState;

use super::{LateRow, Machine, Row, late, row};
use AttemptEvent as E;
use AttemptState as S;

/// The machine of one attempt on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt;

events! {
    /// What can happen to an attempt on its worker.
    AttemptEvent {
        /// No regular process is left to start: all have succeeded, or too many have failed.
        PlanEnded = "plan-ended",
        /// It has to end: the scheduler or a person said so, or the lease ran out.
        KillRequested = "kill-requested",
        /// No regular process runs any more.
        Cleaned = "cleaned",
        /// The final processes are over, and everything needed has succeeded.
        Succeeded = "succeeded",
        /// The final processes are over, and too much has failed.
        Failed = "failed",
        /// The final processes are over, and the attempt had been told to end.
        Killed = "killed",
        /// What became of its processes can no longer be proved.
        ProofLost = "proof-lost",
    }
}

state_words!(AttemptState);

/// The plan ended while a kill was already ending the attempt.
const PLAN_ENDED_WHILE_ENDING: &str = "plan-ended-while-ending";
/// A kill met an attempt that was already ending.
const KILL_WHILE_ENDING: &str = "kill-while-ending";
/// A kill met an attempt that was over.
const KILL_AFTER_END: &str = "kill-after-end";
/// The last process and the wait for it ended at the same moment.
const CLEANED_REPEATED: &str = "cleaned-repeated";
/// The last final process and the wait for it ended at the same moment.
const END_REPEATED: &str = "end-repeated";
/// Something was proved after all, but LOST had been reported.
const PROOF_AFTER_LOST: &str = "proof-after-lost";
/// A search for lost processes was overtaken by the known end.
const LOST_AFTER_END: &str = "lost-after-end";

impl Machine for Attempt {
    type State = AttemptState;
    type Event = AttemptEvent;

    const NAME: &'static str = "attempt";
    const ABOUT: &'static str = "One try of an instance, as its worker sees it.";
    const INITIAL: &'static [S] = &[S::Active];
    const TERMINAL: &'static [S] = &[S::Success, S::Failed, S::Killed, S::Lost];

    const TABLE: &'static [Row<S, E>] = &[
        row(S::Active, E::PlanEnded, S::Cleaning),
        row(S::Active, E::KillRequested, S::Cleaning),
        row(S::Active, E::ProofLost, S::Lost),
        row(S::Cleaning, E::Cleaned, S::Finalizing),
        row(S::Cleaning, E::ProofLost, S::Lost),
        row(S::Finalizing, E::Succeeded, S::Success),
        row(S::Finalizing, E::Failed, S::Failed),
        row(S::Finalizing, E::Killed, S::Killed),
        row(S::Finalizing, E::ProofLost, S::Lost),
    ];

    const LATE: &'static [LateRow<S, E>] = &[
        late(S::Cleaning, E::PlanEnded, PLAN_ENDED_WHILE_ENDING),
        late(S::Finalizing, E::PlanEnded, PLAN_ENDED_WHILE_ENDING),
        late(S::Lost, E::PlanEnded, PROOF_AFTER_LOST),
        late(S::Cleaning, E::KillRequested, KILL_WHILE_ENDING),
        late(S::Finalizing, E::KillRequested, KILL_WHILE_ENDING),
        late(S::Success, E::KillRequested, KILL_AFTER_END),
        late(S::Failed, E::KillRequested, KILL_AFTER_END),
        late(S::Killed, E::KillRequested, KILL_AFTER_END),
        late(S::Lost, E::KillRequested, KILL_AFTER_END),
        late(S::Finalizing, E::Cleaned, CLEANED_REPEATED),
        late(S::Lost, E::Cleaned, PROOF_AFTER_LOST),
        late(S::Success, E::Succeeded, END_REPEATED),
        late(S::Success, E::Failed, END_REPEATED),
        late(S::Success, E::Killed, END_REPEATED),
        late(S::Failed, E::Succeeded, END_REPEATED),
        late(S::Failed, E::Failed, END_REPEATED),
        late(S::Failed, E::Killed, END_REPEATED),
        late(S::Killed, E::Succeeded, END_REPEATED),
        late(S::Killed, E::Failed, END_REPEATED),
        late(S::Killed, E::Killed, END_REPEATED),
        late(S::Lost, E::Succeeded, PROOF_AFTER_LOST),
        late(S::Lost, E::Failed, PROOF_AFTER_LOST),
        late(S::Lost, E::Killed, PROOF_AFTER_LOST),
        late(S::Success, E::ProofLost, LOST_AFTER_END),
        late(S::Failed, E::ProofLost, LOST_AFTER_END),
        late(S::Killed, E::ProofLost, LOST_AFTER_END),
        late(S::Lost, E::ProofLost, LOST_AFTER_END),
    ];
}
