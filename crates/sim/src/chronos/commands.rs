//! Commands of clients to the leader.

use std::sync::Arc;

use baton_core::ledger::{Run, StoredRun};
use baton_core::scheduler::{
    Command, DefineCommand, Input, PauseCommand, Precondition, RemoveCommand, Resume, RunCommand,
    TriggerCommand, Trust,
};
use baton_model::ids::{InstanceId, RequestId, RunId};
use baton_model::library::{IdempotencyKey, TriggerSource};
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use baton_model::workflow::HaltMode;

use super::draw::{SECOND, name};
use super::world::World;

impl World {
    pub(super) fn define(&mut self) {
        let name = name(&mut self.rng);
        let known = self.decided().and_then(|ledger| {
            let task = ledger.library().find(&name)?;
            task.trigger().cloned()
        });
        let mut definition = self.definition();
        // Often the same schedule with other limits.
        if let Some(known) = known.filter(|_| self.rng.chance(400)) {
            definition.trigger.schedule = known.schedule;
        }
        let dry = self.rng.chance(30);
        self.note(|| format!("define {name}: {:?}", definition.trigger));
        self.feed(Input::Command(
            RequestId(0),
            Command::Define(Box::new(DefineCommand {
                name,
                definition: definition.into(),
                expected: Precondition::Anything,
                by_file: false,
                dry,
            })),
        ));
    }

    pub(super) fn remove(&mut self) {
        let name = name(&mut self.rng);
        self.note(|| format!("remove {name}"));
        self.feed(Input::Command(
            RequestId(0),
            Command::Remove(RemoveCommand {
                name,
                expected: None,
                by_file: false,
            }),
        ));
    }

    /// Pauses an entry, or ends its pause.
    pub(super) fn pause(&mut self) {
        let name = name(&mut self.rng);
        let paused = self.rng.chance(500);
        self.note(|| format!("pause {name}: {paused}"));
        self.feed(Input::Command(
            RequestId(0),
            Command::Pause(PauseCommand {
                name,
                paused,
                reason: None,
            }),
        ));
    }

    pub(super) fn trigger(&mut self) {
        let name = name(&mut self.rng);
        let key = self.rng.chance(700).then(|| IdempotencyKey {
            key: (self.rng.below(20), 0),
            request: self.rng.below(3),
        });
        self.note(|| format!("trigger {name} with {key:?}"));
        self.feed(Input::Command(
            RequestId(0),
            Command::Trigger(TriggerCommand {
                name,
                bound: None,
                by: TriggerSource::Remote,
                trust: Trust::Open,
                secret_sha256: None,
                key,
            }),
        ));
    }

    /// A recently assigned id.
    fn recent(&mut self) -> u64 {
        let last = self.durable().known().last().map_or(0, |it| it.0);
        last.saturating_sub(self.rng.below(30))
    }

    pub(super) fn cancel(&mut self) {
        let first = self.recent();
        let last = first + self.rng.below(3) * self.rng.below(20);
        self.note(|| format!("cancel {first} to {last}"));
        self.feed(Input::Command(
            RequestId(0),
            Command::Cancel {
                first: InstanceId(first),
                last: InstanceId(last),
                mode: KillMode::Graceful,
            },
        ));
    }

    /// A recently assigned id of a run.
    fn recent_run(&mut self) -> RunId {
        let last = self.durable().runs().last().0;
        RunId(last.saturating_sub(self.rng.below(5)))
    }

    pub(super) fn halt(&mut self) {
        let run = self.recent_run();
        let modes = [HaltMode::Drain, HaltMode::Kill, HaltMode::KillNow];
        let how = self.rng.pick(&modes);
        self.note(|| format!("halt {run}: {how:?}"));
        let halt = RunCommand::Halt {
            run,
            how,
            generation: None,
        };
        self.feed(Input::Command(RequestId(0), Command::Run(Box::new(halt))));
    }

    pub(super) fn resume(&mut self) {
        self.commit_all();
        let id = self.recent_run();
        let ended = |run: &&Run| {
            matches!(
                run.head.state,
                UniversalState::Failed | UniversalState::Halted
            )
        };
        let Some(run) = self.durable().runs().run(id).filter(ended) else {
            return;
        };
        let run = StoredRun {
            head: run.head.clone(),
            plan: Arc::clone(&run.dag.plan),
            ended: run.progress.done().collect(),
        };
        self.note(|| format!("resume {id}"));
        let resume = RunCommand::Resume(Resume {
            run,
            plan: None,
            rerun: None,
            generation: None,
        });
        self.feed(Input::Command(RequestId(0), Command::Run(Box::new(resume))));
    }

    pub(super) fn retry(&mut self) {
        self.commit_all();
        let id = InstanceId(self.recent());
        let Some(instance) = self.durable().find(id).filter(|it| it.state.is_terminal()) else {
            return;
        };
        self.note(|| format!("retry {id}"));
        self.feed(Input::Command(
            RequestId(0),
            Command::Retry(Box::new(instance)),
        ));
        let delay = self.rng.below(SECOND);
        self.pass(delay);
    }
}
