//! Commands about runs, and why they are refused.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Generation, RunId};
use baton_model::library::{Created, IdempotencyKey};
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltCause, HaltMode, ItemSpan, Plan};

use super::super::instances::SubmitError;
use super::super::launch::{self, PlanError};
use super::Deadlines;
use crate::ledger::{RunHead, StoredRun};
use crate::scheduler::context::Cx;
use crate::workflow::compare::{self, Comparison};
use crate::workflow::{Dag, invalidate};

/// A command about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCommand {
    /// Creates a run.
    Register {
        plan: Arc<Plan>,
        /// More of the plan follows.
        open: bool,
        /// Of the submissions with the same key only the first creates a run.
        key: Option<IdempotencyKey>,
    },
    /// Adds a part to the plan of an open run.
    Extend {
        run: RunId,
        /// The tasks to append.
        plan: Arc<Plan>,
    },
    /// Starts an open run: its plan is complete.
    Start(RunId),
    Halt {
        run: RunId,
        /// What happens to running instances.
        mode: HaltMode,
        /// Only if this is the current generation.
        generation: Option<Generation>,
    },
    Resume(Resume),
}

/// A command to resume a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The run as the store has it, since runs that are over are not in memory.
    pub run: StoredRun,
    /// A changed plan.
    pub plan: Option<Arc<Plan>>,
    /// A task to run again although it may be DONE, and whether everything downstream of it runs
    /// again, too.
    pub rerun: Option<(String, bool)>,
    /// Only if this is the current generation.
    pub generation: Option<Generation>,
}

/// Why the state of a run does not allow a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// There is nothing to halt: it has ended.
    Ended,
    /// It cannot be resumed: nothing of it is left to run.
    Done,
    /// It cannot be resumed: it was never started.
    NotResumable,
    /// It cannot be resumed while it is being halted.
    Halting,
    /// It cannot be resumed before it is halted.
    Active,
    /// No more tasks can be added.
    Complete,
}

impl Obstacle {
    /// The obstacle to a resume, if any; `reruns` if a task is to run again although it is DONE.
    #[must_use]
    pub const fn of_resume(head: &RunHead, reruns: bool) -> Option<Self> {
        match head.state {
            UniversalState::Halted | UniversalState::Failed => None,
            UniversalState::Done if reruns => None,
            UniversalState::Done => Some(Self::Done),
            UniversalState::Aborted => Some(Self::NotResumable),
            _ if head.halting.is_some() => Some(Self::Halting),
            _ => Some(Self::Active),
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "there is nothing to halt",
            Self::Done => "nothing of it is left to run",
            Self::NotResumable => "it cannot be resumed",
            Self::Halting => "it is being halted",
            Self::Active => "it must be halted first",
            Self::Complete => "its plan is already complete",
        })
    }
}

/// Why a command about a run is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunError {
    Unknown(RunId),
    /// Its state does not allow it.
    State(RunId, UniversalState, Obstacle),
    /// It has another generation than expected.
    Generation(RunId, Generation),
    /// The plan is invalid.
    Plan(String),
    NoTask(RunId, String),
    /// `exclusive: strict` needs a durable store.
    NeedsStore,
    /// The idempotency key belongs to another request, which has created this.
    KeyUsed(Created),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(run) => write!(f, "there is no run {run}"),
            Self::State(run, state, obstacle) => write!(f, "{run} is {}; {obstacle}", state.word()),
            Self::Generation(run, generation) => {
                write!(f, "{run} is at generation {} now", generation.0)
            }
            Self::Plan(reason) => f.write_str(reason),
            Self::NoTask(run, task) => write!(f, "{run} has no task `{task}`"),
            Self::NeedsStore => SubmitError::NeedsStore.fmt(f),
            Self::KeyUsed(created) => SubmitError::KeyUsed(*created).fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Carries out a command.
pub(in crate::scheduler) fn execute(
    cx: &mut Cx<'_>,
    deadlines: &mut Deadlines,
    command: RunCommand,
) -> Reply {
    let done = match command {
        RunCommand::Register { plan, open, key } => register(cx, plan, open, key),
        RunCommand::Extend { run, plan } => extend(cx, run, plan),
        RunCommand::Start(run) => start(cx, run),
        RunCommand::Halt {
            run,
            mode,
            generation,
        } => halt(cx, run, mode, generation),
        RunCommand::Resume(resume) => self::resume(cx, resume),
    };
    if let Ok((id, _)) = &done
        && let Some(run) = cx.ledger.runs().run(*id)
    {
        deadlines.set(&run.head, run.dag.plan.timeout, cx.now);
    }
    done
}

type Reply = Result<(RunId, Generation), RunError>;

fn register(cx: &mut Cx<'_>, plan: Arc<Plan>, open: bool, key: Option<IdempotencyKey>) -> Reply {
    let earlier = cx.ledger.keys().earlier(None, key.as_ref());
    match earlier.map_err(RunError::KeyUsed)? {
        Some(Created::Run(run)) => return Ok((run, find_run(cx, run, None)?.generation)),
        Some(created) => return Err(RunError::KeyUsed(created)),
        None => {}
    }
    check_plan(cx, &plan)?;
    let run = launch::unused_run_id(cx);
    cx.commit(Fact::RunRegistered {
        run,
        at: cx.now.wall,
        plan: launch::with_deadline(plan, cx.now.wall),
        open,
        origin: None,
    });
    if let Some(key) = key
        && !seeded!(cx.config.bugs, KeyForgotten)
    {
        let created = Created::Run(run);
        cx.commit(Fact::KeyRecorded { key, created });
    }
    Ok((run, Generation(1)))
}

fn extend(cx: &mut Cx<'_>, run: RunId, plan: Arc<Plan>) -> Reply {
    let head = find_open_run(cx, run)?;
    let mut whole = (*find_dag(cx, run)?.plan).clone();
    whole.tasks.extend_from_slice(&plan.tasks);
    whole.pools.extend_from_slice(&plan.pools);
    check_plan(cx, &whole)?;
    cx.commit(Fact::RunExtended {
        run,
        at: cx.now.wall,
        plan,
    });
    Ok((run, head.generation))
}

fn start(cx: &mut Cx<'_>, run: RunId) -> Reply {
    let head = find_open_run(cx, run)?;
    cx.commit(Fact::RunDefined {
        run,
        at: cx.now.wall,
    });
    Ok((run, head.generation))
}

fn halt(cx: &mut Cx<'_>, run: RunId, mode: HaltMode, generation: Option<Generation>) -> Reply {
    let head = find_run(cx, run, generation)?;
    match head.state {
        UniversalState::Registering => {
            cx.commit(Fact::RunEnded {
                run,
                generation: head.generation,
                state: UniversalState::Aborted,
            });
        }
        state if state.is_terminal() => {
            return Err(RunError::State(run, state, Obstacle::Ended));
        }
        // A kill is not weakened to a drain.
        _ if head.halting.is_some_and(|(current, _)| current >= mode) => {}
        _ => cx.commit(Fact::RunHalting {
            run,
            mode,
            cause: HaltCause::Requested,
        }),
    }
    Ok((run, head.generation))
}

fn resume(cx: &mut Cx<'_>, resume: Resume) -> Reply {
    seeded! { let resume = crate::bugs::scheduler::accept_stale(cx, resume); }
    let run = resume.run.head.id;
    let head = find_run(cx, run, resume.generation)?;
    if let Some(obstacle) = Obstacle::of_resume(&head, resume.rerun.is_some()) {
        return Err(RunError::State(run, head.state, obstacle));
    }
    if let Some(plan) = &resume.plan {
        check_plan(cx, plan)?;
    }
    // It was read from the store before: another resume may have been faster.
    if cx.ledger.runs_mut().admit(resume.run).is_err() {
        return Err(RunError::Generation(run, head.generation));
    }
    let changes = changes(cx, run, resume.plan.as_ref(), resume.rerun.as_ref());
    let (comparison, rerun) = match changes {
        Ok(changes) => changes,
        Err(error) => {
            cx.ledger.runs_mut().drop_ended(run);
            return Err(error);
        }
    };
    let generation = head.generation.next();
    // The deadline of a changed plan counts from where that of the plan before has.
    let due = head.origin.and_then(|origin| origin.due);
    let from = due.map_or(head.submitted, |due| due.nominal);
    let plan = resume.plan.map(|plan| launch::with_deadline(plan, from));
    // A run stays in its trace, whatever it runs.
    let trace = find_dag(cx, run)?.plan.trace;
    let plan = plan.map(|plan| launch::with_trace(plan, trace));
    cx.commit(Fact::RunResumed {
        run,
        generation,
        at: cx.now.wall,
        plan,
        carried: comparison.carried,
        rerun,
    });
    Ok((run, generation))
}

/// What a resume carries over to a changed plan, and which items it runs again.
fn changes(
    cx: &Cx<'_>,
    run: RunId,
    plan: Option<&Arc<Plan>>,
    rerun: Option<&(String, bool)>,
) -> Result<(Comparison, Vec<ItemSpan>), RunError> {
    let live = cx.ledger.runs().run(run).ok_or(RunError::Unknown(run))?;
    let item_counts = |task| live.progress.item_count(task);
    let mut spans = match rerun {
        None => Vec::new(),
        Some((task, downstream)) => {
            let index = live.dag.index_of(task);
            let index = index.ok_or_else(|| RunError::NoTask(run, task.clone()))?;
            invalidate::requested_spans(&live.dag, index, *downstream, item_counts)
        }
    };
    seeded!(cx.config.bugs, ResumeKeepsNothing => if rerun.is_none() {
        spans = crate::bugs::scheduler::all_items(live);
    });
    let done = invalidate::without(live.done(), &spans);
    let Some(plan) = plan else {
        spans.extend(invalidate::stale_spans(&live.dag, &done));
        return Ok((Comparison::default(), spans));
    };
    let after = Dag::new(Arc::clone(plan));
    let mut comparison = compare::compare(&live.dag, &after, item_counts);
    seeded! {
        crate::bugs::scheduler::carry_by_index(cx.config.bugs, &after, &mut comparison.carried);
    }
    let stale = invalidate::stale_spans(&after, &compare::carry_over(done, &comparison.carried));
    comparison.carried = invalidate::carried_without(comparison.carried, &stale);
    Ok((comparison, spans))
}

fn check_plan(cx: &Cx<'_>, plan: &Plan) -> Result<(), RunError> {
    launch::check_plan(cx, plan).map_err(|error| match error {
        PlanError::Invalid(reason) => RunError::Plan(reason),
        PlanError::NeedsStore => RunError::NeedsStore,
    })
}

fn find_run(cx: &Cx<'_>, run: RunId, generation: Option<Generation>) -> Result<RunHead, RunError> {
    let head = cx.ledger.runs().head(run).ok_or(RunError::Unknown(run))?;
    match generation {
        Some(expected) if expected != head.generation => {
            Err(RunError::Generation(run, head.generation))
        }
        _ => Ok(head.clone()),
    }
}

fn find_open_run(cx: &Cx<'_>, run: RunId) -> Result<RunHead, RunError> {
    let head = find_run(cx, run, None)?;
    match head.state {
        UniversalState::Registering => Ok(head),
        state => Err(RunError::State(run, state, Obstacle::Complete)),
    }
}

fn find_dag<'a>(cx: &'a Cx<'_>, run: RunId) -> Result<&'a Dag, RunError> {
    let found = cx.ledger.runs().run(run);
    found.map(|run| &*run.dag).ok_or(RunError::Unknown(run))
}
