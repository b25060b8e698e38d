//! What people want of runs, and why they do not get it.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Generation, RequestId, RunId};
use baton_model::spec::Exclusive;
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltCause, HaltMode, ItemSpan, Plan};

use super::Deadlines;
use crate::ledger::{RunHead, StoredRun};
use crate::protocol::scheduler::context::{Cx, Effect, StoreMode};
use crate::workflow::compare::{self, Comparison};
use crate::workflow::{Dag, check, invalidate};

/// Ids that leaders without a store may give out, each.
const RUNS_PER_EPOCH: u64 = 1_000_000;

/// What somebody wants of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCommand {
    /// That it be carried out.
    Register {
        plan: Arc<Plan>,
        /// More of it is to come.
        open: bool,
    },
    /// That this be a part of it.
    Extend {
        run: RunId,
        /// The tasks that stand behind those before.
        plan: Arc<Plan>,
    },
    /// That it begin: nothing more is to come.
    Start(RunId),
    /// That it stop.
    Halt {
        run: RunId,
        /// What becomes of what has begun.
        how: HaltMode,
        /// Only if this generation is the live one.
        generation: Option<Generation>,
    },
    /// That it go on.
    Resume(Resume),
}

/// That a run go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The run as the store has it, since one that is over is not in memory.
    pub run: StoredRun,
    /// Another plan.
    pub plan: Option<Arc<Plan>>,
    /// A task that is done again, also if it is DONE; and whether whatever comes after it is.
    pub rerun: Option<(String, bool)>,
    /// Only if this generation is the last one.
    pub generation: Option<Generation>,
}

/// Why a wish about a run is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunError {
    /// There is no such run.
    Unknown(RunId),
    /// It is not where that could be done.
    State(RunId, UniversalState, &'static str),
    /// Another generation lives.
    Generation(RunId, Generation),
    /// The plan is none, for this reason.
    Plan(String),
    /// It has no such task.
    NoTask(RunId, String),
    /// Without a store nothing but time separates two executions.
    StrictNeedsStore,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(run) => write!(f, "there is no run {run}"),
            Self::State(run, state, what) => {
                // A command that people are told is one that they can type.
                let what = what.replace("RUN", &run.to_string());
                write!(f, "{run} is {}; {what}", state.word())
            }
            Self::Generation(run, generation) => {
                let generation = generation.0;
                write!(
                    f,
                    "{run} is at generation {generation} by now; see what became of it first: \
                     `baton show {run}`"
                )
            }
            Self::Plan(why) => f.write_str(why),
            Self::NoTask(run, task) => write!(f, "{run} has no task `{task}`"),
            Self::StrictNeedsStore => f.write_str(
                "exclusive: strict needs a store that survives a restart; \
                 use --store sqlite or postgres, or exclusive: timed",
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// Carries a wish out, or says why not.
pub(in crate::scheduler) fn execute(
    cx: &mut Cx<'_>,
    deadlines: &mut Deadlines,
    request: RequestId,
    command: RunCommand,
) {
    let done = match command {
        RunCommand::Register { plan, open } => register(cx, plan, open),
        RunCommand::Extend { run, plan } => extend(cx, run, plan),
        RunCommand::Start(run) => start(cx, run),
        RunCommand::Halt {
            run,
            how,
            generation,
        } => halt(cx, run, how, generation),
        RunCommand::Resume(resume) => self::resume(cx, resume),
    };
    if let Ok((id, _)) = &done
        && let Some(run) = cx.ledger.runs().run(*id)
    {
        deadlines.set(&run.head, run.dag.plan.timeout, cx.now);
    }
    cx.step.emit(Effect::Run(request, done));
}

type Answer = Result<(RunId, Generation), RunError>;

fn register(cx: &mut Cx<'_>, plan: Arc<Plan>, open: bool) -> Answer {
    admissible(cx, &plan)?;
    let floor = match cx.config.store {
        StoreMode::Durable => 0,
        // Workers may still hold instances of runs that nobody remembers.
        StoreMode::Memory => cx.epoch.0.saturating_mul(RUNS_PER_EPOCH),
    };
    let run = cx.ledger.runs().last().max(RunId(floor)).next();
    cx.commit(Fact::RunRegistered {
        run,
        at: cx.now.wall,
        plan,
        open,
    });
    Ok((run, Generation(1)))
}

fn extend(cx: &mut Cx<'_>, run: RunId, plan: Arc<Plan>) -> Answer {
    let head = registering(cx, run)?;
    let mut whole = (*registered(cx, run)?.plan).clone();
    whole.tasks.extend_from_slice(&plan.tasks);
    whole.pools.extend_from_slice(&plan.pools);
    admissible(cx, &whole)?;
    cx.commit(Fact::RunExtended {
        run,
        at: cx.now.wall,
        plan,
    });
    Ok((run, head.generation))
}

fn start(cx: &mut Cx<'_>, run: RunId) -> Answer {
    let head = registering(cx, run)?;
    cx.commit(Fact::RunDefined {
        run,
        at: cx.now.wall,
    });
    Ok((run, head.generation))
}

fn halt(cx: &mut Cx<'_>, run: RunId, how: HaltMode, generation: Option<Generation>) -> Answer {
    let head = known(cx, run, generation)?;
    match head.state {
        UniversalState::Registering => {
            cx.commit(Fact::RunEnded {
                run,
                generation: head.generation,
                state: UniversalState::Aborted,
            });
        }
        state if state.is_terminal() => {
            return Err(RunError::State(run, state, "there is nothing to halt"));
        }
        // Once it is told to kill, it is not told to drain.
        _ if matches!(head.halting, Some((HaltMode::Kill, _)))
            || head.halting.map(|it| it.0) == Some(how) => {}
        _ => cx.commit(Fact::RunHalting {
            run,
            mode: how,
            cause: HaltCause::Requested,
        }),
    }
    Ok((run, head.generation))
}

fn resume(cx: &mut Cx<'_>, command: Resume) -> Answer {
    #[cfg(feature = "seeded-bugs")]
    let command = crate::bugs::scheduler::accept_stale(cx, command);
    let run = command.run.head.id;
    let head = known(cx, run, command.generation)?;
    if !matches!(head.state, UniversalState::Halted | UniversalState::Failed) {
        let hint = match head.state {
            UniversalState::Done | UniversalState::Aborted => "submit it anew",
            _ if head.halting.is_some() => {
                "it is being halted; wait until it is: `baton watch RUN`, or `baton halt RUN --kill`"
            }
            _ => "halt it first: `baton halt RUN`",
        };
        return Err(RunError::State(run, head.state, hint));
    }
    if let Some(plan) = &command.plan {
        admissible(cx, plan)?;
    }
    // It was read from the store before: somebody may have been faster.
    if cx.ledger.runs_mut().admit(command.run).is_err() {
        return Err(RunError::Generation(run, head.generation));
    }
    let changes = changes(cx, run, command.plan.as_ref(), command.rerun.as_ref());
    let (comparison, again) = match changes {
        Ok(changes) => changes,
        Err(error) => {
            cx.ledger.runs_mut().drop_ended(run);
            return Err(error);
        }
    };
    let generation = head.generation.next();
    cx.commit(Fact::RunResumed {
        run,
        generation,
        at: cx.now.wall,
        plan: command.plan,
        carried: comparison.carried,
        rerun: again,
    });
    Ok((run, generation))
}

/// What a resume means to what is DONE.
fn changes(
    cx: &Cx<'_>,
    run: RunId,
    plan: Option<&Arc<Plan>>,
    wanted: Option<&(String, bool)>,
) -> Result<(Comparison, Vec<ItemSpan>), RunError> {
    let live = cx.ledger.runs().run(run).ok_or(RunError::Unknown(run))?;
    let item_counts = |task| live.progress.item_count(task);
    let mut spans = match wanted {
        #[cfg(feature = "seeded-bugs")]
        None if cx.config.bugs.has(crate::bugs::Bug::ResumeKeepsNothing) => {
            crate::bugs::scheduler::all_items(live)
        }
        None => Vec::new(),
        Some((task, downstream)) => {
            let place = live.dag.index_of(task);
            let place = place.ok_or_else(|| RunError::NoTask(run, task.clone()))?;
            invalidate::requested_spans(&live.dag, place, *downstream, item_counts)
        }
    };
    let done = invalidate::without(live.done(), &spans);
    let Some(plan) = plan else {
        spans.extend(invalidate::stale_spans(&live.dag, &done));
        return Ok((Comparison::default(), spans));
    };
    let after = Dag::new(Arc::clone(plan));
    let mut comparison = compare::compare(&live.dag, &after, item_counts);
    let undone = invalidate::stale_spans(&after, &compare::carry_over(done, &comparison.carried));
    comparison.carried = invalidate::carried_without(comparison.carried, &undone);
    Ok((comparison, spans))
}

fn admissible(cx: &Cx<'_>, plan: &Plan) -> Result<(), RunError> {
    check::check(plan).map_err(RunError::Plan)?;
    let mut tasks = plan.tasks.iter();
    let strict = tasks.any(|task| task.spec.exclusive == Exclusive::Strict);
    match strict && cx.config.store == StoreMode::Memory {
        true => Err(RunError::StrictNeedsStore),
        false => Ok(()),
    }
}

fn known(cx: &Cx<'_>, run: RunId, generation: Option<Generation>) -> Result<RunHead, RunError> {
    let head = cx.ledger.runs().head(run).ok_or(RunError::Unknown(run))?;
    match generation {
        Some(wanted) if wanted != head.generation => {
            Err(RunError::Generation(run, head.generation))
        }
        _ => Ok(head.clone()),
    }
}

fn registering(cx: &Cx<'_>, run: RunId) -> Result<RunHead, RunError> {
    let head = known(cx, run, None)?;
    match head.state {
        UniversalState::Registering => Ok(head),
        state => Err(RunError::State(run, state, "its plan is complete")),
    }
}

fn registered<'a>(cx: &'a Cx<'_>, run: RunId) -> Result<&'a Dag, RunError> {
    let found = cx.ledger.runs().run(run);
    found.map(|run| &*run.dag).ok_or(RunError::Unknown(run))
}
