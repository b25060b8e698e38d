//! The controller of runs: commands, starting ready items, and ending runs.
//!
//! A run is processed in the same step that changed it. So the end of an instance and the start of
//! its downstream instances are one commit: a hop costs no poll.
//!
//! | file | holds |
//! |---|---|
//! | `commands` | commands of clients |
//! | `deadlines` | timeouts |

mod commands;
mod deadlines;

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::library::{Execution, RunOrigin};
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltCause, HaltMode, Part};

use super::bullpen::Bullpen;
use super::instances;
use super::{gate, launch};
use crate::ledger::{Ledger, RunHead};
use crate::protocol::scheduler::Protocol;
use crate::scheduler::context::{Cx, Success};
use crate::workflow::bind;

pub(super) use commands::execute;
pub use commands::{Obstacle, Resume, RunCommand, RunError};
pub(crate) use deadlines::Deadlines;

/// Processes a run that changed: stops and starts instances, and ends the run if nothing is left.
pub(super) fn reconcile(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    deadlines: &mut Deadlines,
    id: RunId,
) {
    let Some(run) = cx.ledger.runs().run(id) else {
        return;
    };
    let (head, timeout) = (run.head.clone(), run.dag.plan.timeout);
    if head.state == UniversalState::Registering {
        return;
    }
    if head.state.is_terminal() {
        forget(cx, deadlines, id);
        return;
    }
    let resumed = head.generation > Generation(1);
    let waits = waits_for_turn(cx.ledger, cx.bullpen, &head)
        && !(resumed && seeded!(cx.config.bugs, TurnIgnored));
    if waits {
        // Its timeout begins with its turn.
        deadlines.clear(id);
    } else if head.state == UniversalState::Queued {
        let begun = cx.now.wall;
        deadlines.set(
            &RunHead {
                begun,
                ..head.clone()
            },
            timeout,
            cx.now,
        );
    }
    stop(cx, protocol, id);
    if head.halting.is_none() && !waits {
        release(cx, id);
    }
    advance(cx, id);
    if let Some((generation, state)) = end(cx, id) {
        cx.commit(Fact::RunEnded {
            run: id,
            generation,
            state,
        });
        let done = state == UniversalState::Done || seeded!(cx.config.bugs, FailedRunFollowed);
        let origin = head.origin.filter(|_| done);
        cx.done.extend(origin.map(|origin| Success {
            execution: Execution::Run(id),
            entry: origin.task,
            due: origin.due,
        }));
        forget(cx, deadlines, id);
    }
    // The facts committed here have marked it dirty again.
    cx.ledger.runs_mut().mark_clean(id);
}

fn forget(cx: &mut Cx<'_>, deadlines: &mut Deadlines, id: RunId) {
    deadlines.clear(id);
    cx.ledger.runs_mut().drop_ended(id);
}

/// Submits instances of ready items, as many as the limits allow.
fn release(cx: &mut Cx<'_>, id: RunId) {
    loop {
        let Some(run) = cx.ledger.runs().run(id) else {
            return;
        };
        let next = run.progress.next_ready(&run.dag);
        seeded! {
            let next = next.or_else(|| crate::bugs::scheduler::ungated_item(cx.config.bugs, run));
        }
        let Some((task, item)) = next else {
            return;
        };
        let part = Part {
            run: id,
            generation: run.head.generation,
            task,
            item,
        };
        let mut spec = bind::spec(&run.dag, &run.progress, part);
        for (name, value) in run.head.origin.iter().flat_map(launch::environment) {
            spec.env.entry(name.to_owned()).or_insert(value);
        }
        let instance = instances::unused_id(cx);
        instances::accept(cx, instance, instance, &Arc::new(spec));
    }
}

/// Records that the run is LAUNCHED or RUNNING.
fn advance(cx: &mut Cx<'_>, id: RunId) {
    let Some(run) = cx.ledger.runs().run(id) else {
        return;
    };
    let (state, still, begun) = (run.head.state, run.progress.is_idle(), run.has_begun);
    let to = match state {
        UniversalState::Queued if !still => UniversalState::Launched,
        UniversalState::Launched if begun => UniversalState::Running,
        _ => return,
    };
    let begun = run.head.begun;
    let waited = to == UniversalState::Launched && begun != cx.now.wall;
    let at = waited.then_some(cx.now.wall);
    cx.commit(Fact::RunAdvanced { run: id, to, at });
}

/// Whether a run must not start yet, because other runs of its library workflow are in flight.
pub(super) fn waits_for_turn(ledger: &Ledger, bullpen: &Bullpen, head: &RunHead) -> bool {
    let waits = |origin: RunOrigin| {
        let execution = Execution::Run(head.id);
        !gate::may_start(ledger, bullpen, origin.task, execution)
    };
    head.state == UniversalState::Queued && head.halting.is_none() && head.origin.is_some_and(waits)
}

/// The final state of the run, if it ends now.
fn end(cx: &Cx<'_>, id: RunId) -> Option<(Generation, UniversalState)> {
    let run = cx.ledger.runs().run(id)?;
    let early = seeded!(cx.config.bugs, RunEndsEarly) && !run.progress.is_successful();
    let state = match run.head.halting {
        None if early => UniversalState::Failed,
        _ if run.progress.is_over() => {
            if run.progress.is_successful() {
                UniversalState::Done
            } else if matches!(
                run.head.halting,
                Some((_, HaltCause::Requested | HaltCause::Replaced))
            ) {
                UniversalState::Halted
            } else {
                UniversalState::Failed
            }
        }
        Some((_, cause)) if run.progress.is_idle() => match cause {
            HaltCause::Requested | HaltCause::Replaced => UniversalState::Halted,
            HaltCause::TimedOut => UniversalState::Failed,
        },
        _ => return None,
    };
    Some((run.head.generation, state))
}

/// Carries out the pending stops of a run, range by range.
fn stop(cx: &mut Cx<'_>, protocol: &mut Protocol, id: RunId) {
    let stops = cx.ledger.runs_mut().take_stops(id);
    let Some(run) = cx.ledger.runs().run(id) else {
        return;
    };
    let mut ids: Vec<_> = match stops.sweep {
        None => Vec::new(),
        Some(HaltMode::Kill | HaltMode::KillNow) => {
            run.progress.live().map(|(_, _, it)| it).collect()
        }
        Some(HaltMode::Drain) => {
            // If no halt was requested, an item has failed, and failure handlers continue.
            let failed = run.head.halting.is_none();
            let live = run.progress.live();
            let live = live.filter(|(task, ..)| !(failed && run.dag.is_handler(*task)));
            let waiting = live.filter(|(_, _, it)| !is_leased(cx.ledger, *it));
            waiting.map(|(_, _, it)| it).collect()
        }
    };
    let retried = stops
        .retried
        .iter()
        .filter(|it| !is_leased(cx.ledger, **it));
    if !seeded!(cx.config.bugs, HaltForgets) {
        ids.extend(retried);
    }
    ids.sort_unstable();
    ids.dedup();
    let mut ranges: Vec<(InstanceId, InstanceId)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if last.next() == id => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    let mode = stops.sweep.and_then(HaltMode::kill_mode);
    for (first, last) in ranges {
        instances::cancel(cx, protocol, first, last, mode.unwrap_or_default());
    }
}

fn is_leased(ledger: &Ledger, id: InstanceId) -> bool {
    let instance = ledger.instance(id);
    instance.is_some_and(|instance| instance.lease.is_some())
}
