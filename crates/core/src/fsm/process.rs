//! The process machine: one command inside a task, run once. Another try of the
//! same command is another process record, which begins in WAITING again.
//!
//! The coordinator records the start of a process before its end, so an end
//! never meets FORKED: a process that dies at once has been `Started` and then
//! has `Failed`. A process that is still WAITING when its attempt is killed was
//! never started, and stays WAITING.
//!
//! Two observers may report the same death, the coordinator and, if that one is
//! gone, the agent as subreaper; a third, the search by identity, may give up on
//! a process whose record arrives a moment later. The first report stands.

use baton_model::state::ProcessState;

use super::{LateRow, Machine, Row, late, row};
use ProcessEvent as E;
use ProcessState as S;

/// The machine of one process of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process;

events! {
    /// What can happen to a process.
    ProcessEvent {
        /// The coordinator has forked it.
        Forked = "forked",
        /// It could not be launched at all.
        LaunchFailed = "launch-failed",
        /// It runs, and its identity is recorded.
        Started = "started",
        /// It exited with success.
        Succeeded = "succeeded",
        /// It exited with failure, crashed, or ran out of memory.
        Failed = "failed",
        /// It was killed, by Baton or from outside.
        Killed = "killed",
        /// What became of it can no longer be proved.
        ProofLost = "proof-lost",
    }
}

state_words!(ProcessState);

/// Two observers reported the same start.
const START_REPEATED: &str = "start-repeated";
/// A start was reported when the end was already known.
const START_AFTER_END: &str = "start-after-end";
/// Two observers reported the same end.
const END_REPEATED: &str = "end-repeated";
/// Something was proved after all, but LOST had been recorded.
const PROOF_AFTER_LOST: &str = "proof-after-lost";
/// A search was overtaken by the known end.
const LOST_AFTER_END: &str = "lost-after-end";

impl Machine for Process {
    type State = ProcessState;
    type Event = ProcessEvent;

    const NAME: &'static str = "process";
    const ABOUT: &'static str = "One command inside a task, run once.";
    const INITIAL: &'static [S] = &[S::Waiting];
    const TERMINAL: &'static [S] = &[S::Success, S::Failed, S::Killed, S::Lost];

    const TABLE: &'static [Row<S, E>] = &[
        row(S::Waiting, E::Forked, S::Forked),
        row(S::Waiting, E::LaunchFailed, S::Failed),
        row(S::Forked, E::Started, S::Running),
        row(S::Forked, E::ProofLost, S::Lost),
        row(S::Running, E::Succeeded, S::Success),
        row(S::Running, E::Failed, S::Failed),
        row(S::Running, E::Killed, S::Killed),
        row(S::Running, E::ProofLost, S::Lost),
    ];

    const LATE: &'static [LateRow<S, E>] = &[
        late(S::Running, E::Started, START_REPEATED),
        late(S::Success, E::Started, START_AFTER_END),
        late(S::Failed, E::Started, START_AFTER_END),
        late(S::Killed, E::Started, START_AFTER_END),
        late(S::Lost, E::Started, PROOF_AFTER_LOST),
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
