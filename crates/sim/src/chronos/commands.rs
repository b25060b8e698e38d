//! Commands of clients to the leader.

use std::sync::Arc;

use baton_core::ledger::{Run, StoredRun};
use baton_core::scheduler::{
    BackfillCommand, Command, DefineCommand, Input, KnownLaunches, PauseCommand, Precondition,
    RemoveCommand, Resume, RunCommand, TriggerCommand, Trust,
};
use baton_model::backfill::BackfillState;
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RequestId, RunId, TaskNo};
use baton_model::library::{Cause, IdempotencyKey, TriggerSource};
use baton_model::outcome::KillMode;
use baton_model::schedule::TickVerdict;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::HaltMode;

use super::check::Entry;
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
        self.feed(Input::command(
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
        self.feed(Input::command(
            RequestId(0),
            Command::Remove(RemoveCommand {
                name,
                expected: Precondition::Anything,
                by_file: false,
            }),
        ));
    }

    /// Pauses an entry, or ends its pause.
    pub(super) fn pause(&mut self) {
        let name = name(&mut self.rng);
        let paused = self.rng.chance(500);
        self.note(|| format!("pause {name}: {paused}"));
        self.feed(Input::command(
            RequestId(0),
            Command::Pause(PauseCommand {
                name,
                paused,
                reason: None,
            }),
        ));
    }

    /// Registers a backfill.
    pub(super) fn backfill(&mut self) {
        let name = name(&mut self.rng);
        let (from, to) = self.past_interval();
        let Some(task) = self.durable().library().find(&name) else {
            return;
        };
        let task = task.number;
        self.note(|| format!("backfill {name} from {} to {}", from.0, to.0));
        let known = self.known_launches(task);
        let register = BackfillCommand::Register {
            name,
            from,
            to,
            reverse: self.rng.chance(300),
            max_concurrent: self.rng.within(1, 3) as u32,
            known,
            dry: self.rng.chance(30),
        };
        self.give_backfill(register);
    }

    /// Halts, resumes or cancels a backfill.
    pub(super) fn change_backfill(&mut self) {
        let backfills = self.durable().library().backfills();
        let open: Vec<_> = backfills.iter().map(|it| it.head.clone()).collect();
        if open.is_empty() {
            return;
        }
        let head = &open[self.rng.below(open.len() as u64) as usize];
        let command = if self.rng.chance(100) {
            BackfillCommand::Cancel(head.id)
        } else if head.state == BackfillState::Running {
            BackfillCommand::Halt(head.id)
        } else {
            BackfillCommand::Resume {
                backfill: head.id,
                known: self.known_launches(head.task),
            }
        };
        self.note(|| format!("change {}", head.id));
        self.give_backfill(command);
    }

    fn give_backfill(&mut self, command: BackfillCommand) {
        let command = Command::Backfill(Box::new(command));
        self.feed(Input::command(RequestId(0), command));
    }

    /// What a store tells about the launches of an entry. Sometimes the leader has decided more.
    fn known_launches(&mut self, task: TaskNo) -> KnownLaunches {
        if self.rng.chance(800) {
            self.commit_all();
        }
        let launched = |entry: &Entry| match &entry.fact {
            Fact::Launched {
                entry: of,
                cause: Cause::Due { first: at, .. } | Cause::Backfill { nominal: at, .. },
                verdict: TickVerdict::Launch | TickVerdict::Late { .. },
                ..
            } => (*of == task).then_some(*at),
            _ => None,
        };
        let mut times: Vec<Wall> = self.entries().iter().filter_map(launched).collect();
        times.sort_unstable();
        let stored = self.durable().library().task(task);
        KnownLaunches {
            launches: stored.map_or(0, |task| task.launches),
            since: Wall(0),
            times,
        }
    }

    pub(super) fn trigger(&mut self) {
        let name = name(&mut self.rng);
        let key = self.rng.chance(700).then(|| IdempotencyKey {
            key: (self.rng.below(20), 0),
            request: self.rng.below(3),
        });
        self.note(|| format!("trigger {name} with {key:?}"));
        self.feed(Input::command(
            RequestId(0),
            Command::Trigger(TriggerCommand {
                name,
                bound: None,
                by: TriggerSource::Remote,
                trust: Trust::Open,
                secret_sha256: None,
                key,
                trace: None,
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
        self.feed(Input::command(
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
        let mode = self.rng.pick(&modes);
        self.note(|| format!("halt {run}: {mode:?}"));
        let halt = RunCommand::Halt {
            run,
            mode,
            generation: None,
        };
        self.feed(Input::command(RequestId(0), Command::Run(Box::new(halt))));
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
        self.feed(Input::command(RequestId(0), Command::Run(Box::new(resume))));
    }

    pub(super) fn retry(&mut self) {
        self.commit_all();
        let id = InstanceId(self.recent());
        let Some(instance) = self.durable().find(id).filter(|it| it.state.is_terminal()) else {
            return;
        };
        self.note(|| format!("retry {id}"));
        self.feed(Input::command(
            RequestId(0),
            Command::Retry(Box::new(instance)),
        ));
        let delay = self.rng.below(SECOND);
        self.pass(delay);
    }
}
