//! The order to kill everything.

use baton_model::coordinator::Reply;
use baton_model::outcome::KillCause;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};

use super::kernel::{SIGKILL, SIGTERM};
use super::runs::{ProcessRun, Role, Root};
use super::{Host, Turn};

/// The time limit of a kill; survivors are then reported.
pub(super) const KILL_MAX: Millis = Millis::from_secs(5);
/// The time that rotators get to write what is in their pipes.
pub(super) const ROTATORS_MAX: Millis = Millis::from_secs(1);
/// The polling interval while everything is being killed.
const POLL_EVERY: Millis = Millis(10);

/// An order to kill everything, in progress. No other request is handled meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KillAll {
    id: u64,
    stage: KillStage,
    deadline: Mono,
    next_poll_at: Mono,
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum KillStage {
    /// Everything was asked to stop.
    Terminating,
    /// Everything is gone but the rotators, which end by themselves. The exits of what was killed
    /// come in the next turn.
    Rotators,
}

impl KillAll {
    pub(super) const fn next_poll_at(&self) -> Mono {
        self.next_poll_at
    }

    /// Drops the answer: the runner that requested it is gone.
    pub(super) const fn drop_requester(&mut self) {
        self.id = 0;
    }
}

impl Host {
    /// Starts killing every process of the task.
    pub(super) fn kill_everything(
        &mut self,
        turn: &mut Turn<'_>,
        now: Mono,
        grace: Millis,
        id: u64,
    ) {
        self.killing = Some(KillAll {
            id,
            stage: KillStage::Terminating,
            deadline: now + grace,
            next_poll_at: now,
            left: 0,
        });
        self.refuse_waiting(turn);
        if grace > Millis(0) && !self.has_no_processes(turn) {
            self.signal_everything(turn);
        }
        self.continue_killing(turn, now);
    }

    /// Continues killing everything, until it is done.
    pub(super) fn continue_killing(&mut self, turn: &mut Turn<'_>, now: Mono) {
        let Some(mut killing) = self.killing.take() else {
            return;
        };
        if killing.stage == KillStage::Terminating {
            let gone = self.has_no_processes(turn) || self.is_everything_gone(turn);
            if !gone && now < killing.deadline {
                killing.next_poll_at = now + POLL_EVERY;
                self.killing = Some(killing);
                return;
            }
            if !gone {
                killing.left = self.kill_all(turn);
            }
            killing.stage = KillStage::Rotators;
            killing.deadline = now + ROTATORS_MAX;
            // What was just killed is reaped before it is reported.
            killing.next_poll_at = now;
            self.killing = Some(killing);
            return;
        }
        self.end_lingering(turn);
        let rotators = self.rotators();
        if !rotators.is_empty() && now < killing.deadline {
            killing.next_poll_at = now + POLL_EVERY;
            self.killing = Some(killing);
            return;
        }
        for pid in rotators {
            turn.kernel.signal_group(pid, SIGKILL);
        }
        if killing.left == 0 {
            self.free_all_absent();
        }
        if killing.id != 0 {
            turn.reply(Reply::EverythingKilled {
                id: killing.id,
                left: killing.left,
            });
        }
    }

    /// True if no process of the task is left. The control group may know of more than a walk
    /// finds: of processes with neither a parent of ours nor the mark.
    fn is_everything_gone(&self, turn: &mut Turn<'_>) -> bool {
        let found = self.with_everything(|sweep| turn.kernel.any(sweep));
        found == Some(false)
            && !self.table.held().any(|run| turn.kernel.is_held_alive(run))
            && !turn.kernel.is_root_cgroup_populated()
    }

    fn signal_everything(&mut self, turn: &mut Turn<'_>) {
        self.mark_signalled();
        for run in self.table.held() {
            turn.kernel.signal_held(run, SIGTERM);
        }
        self.with_everything(|sweep| turn.kernel.signal(sweep, SIGTERM));
    }

    fn kill_all(&mut self, turn: &mut Turn<'_>) -> u32 {
        self.mark_signalled();
        turn.kernel.kill_root_cgroup();
        // Needs no descriptor, so it works when there are none left.
        let children = self.table.live().map(|(_, run)| run);
        let children = children.filter(|run| run.root == Root::Child);
        for pid in children.filter_map(ProcessRun::pid) {
            turn.kernel.signal_group(pid, SIGKILL);
        }
        for run in self.table.held() {
            turn.kernel.signal_held(run, SIGKILL);
        }
        self.with_everything(|sweep| turn.kernel.kill(sweep, KILL_MAX))
    }

    fn mark_signalled(&mut self) {
        let runs = self.table.runs.values_mut();
        for run in runs.filter(|run| run.is_live()) {
            run.signalled.get_or_insert(KillCause::Requested);
        }
    }

    /// Ends the runs whose first process is gone and of which nothing lingers any more.
    fn end_lingering(&mut self, turn: &mut Turn<'_>) {
        let live: Vec<RunKey> = self.table.live().map(|(key, _)| key).collect();
        for key in live {
            self.poll_run(turn, key);
        }
    }

    /// True if no process can be left: we have no child, and there was no earlier coordinator.
    fn has_no_processes(&self, turn: &Turn<'_>) -> bool {
        !self.settings.successor && !turn.kernel.has_children()
    }

    fn rotators(&self) -> Vec<u32> {
        let children = self.table.children.iter();
        let rotators = children.filter(|(_, role)| matches!(role, Role::Rotator(_)));
        rotators.map(|(pid, _)| *pid).collect()
    }
}
