//! Estimate of a run's remaining time.
//!
//! For each unfinished task, its remaining items (running ones count half) take `mean_seconds` each.
//! With C items of the run running now, and assuming that C stays constant:
//!
//! - all remaining work takes at least its sum / C;
//! - a task takes its own work / min(C, its remaining items), and starts when its upstream tasks
//!   have ended; with a dependency by item it ends at least one item later than they do. So every
//!   chain of tasks is a lower bound, too.
//!
//! The estimate is the larger of the two. If an unfinished task has no DONE item or unknown items,
//! or if tasks are missing from the response, the result is a lower bound: *at least* that long.
//! There is no estimate if nothing runs, nothing is known, or the run is being halted. Tasks that
//! run only after a failure are assumed not to run unless they have started. The estimate ignores
//! retries, and limits that change later.

use baton_model::api::{Run, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::task_state;

/// The remaining time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Remaining {
    seconds: f64,
    /// A lower bound: the duration of some remaining tasks is unknown.
    at_least: bool,
}

/// Estimates the remaining time, if possible.
pub(super) fn remaining(run: &Run, tasks: &[RunTask]) -> Option<Remaining> {
    let stopping = run.state.is_terminal() || run.halting.is_some();
    let at_hand = task_state::add(tasks.iter().map(|task| task.items.running));
    let slots = run.items.map_or(at_hand, |items| items.running);
    if stopping || slots == 0 {
        return None;
    }
    let mut at_least = run.tasks.is_some_and(|all| all != tasks.len() as u64);
    let dag = Dag::new(tasks);
    let unlikely = unlikely(&dag);
    let slots = slots as f64;
    let mut end = vec![0.0_f64; tasks.len()];
    let mut work = 0.0;
    for index in &dag.order {
        let task = &tasks[*index];
        let ends = |by_item: bool| {
            let edges = dag.edges[*index].iter();
            let alike = edges.filter(move |(_, edge)| edge.by_item == by_item);
            alike.map(|(from, _)| end[*from]).fold(0.0, f64::max)
        };
        let (begins, last) = (ends(false), ends(true));
        let items = &task.items;
        let unbegun = task_state::unbegun(items) as f64;
        let running = items.running as f64;
        if unlikely[*index] || (unbegun + running == 0.0 && !task.unmapped) {
            end[*index] = begins;
            continue;
        }
        let Some(mean) = task.mean_seconds.filter(|_| !task.unmapped) else {
            at_least = true;
            end[*index] = begins.max(last);
            continue;
        };
        let own = mean * (unbegun + running / 2.0);
        work += own;
        let trailing = if last > 0.0 { last + mean } else { 0.0 };
        end[*index] = (begins + own / slots.min(unbegun + running)).max(trailing);
    }
    let seconds = end.into_iter().fold(work / slots, f64::max);
    let said = seconds.is_finite() && work > 0.0;
    said.then_some(Remaining { seconds, at_least })
}

/// By task: it runs only after a failure and has not started; or it depends on such a task.
fn unlikely(dag: &Dag<'_>) -> Vec<bool> {
    let mut unlikely = vec![false; dag.tasks.len()];
    for index in &dag.order {
        let task = &dag.tasks[*index];
        let items = &task.items;
        let begun = task_state::total(items) > items.waiting;
        let mut edges = dag.edges[*index].iter();
        unlikely[*index] = !begun
            && edges.any(|(from, edge)| match edge.condition {
                Condition::Failure => true,
                Condition::Success => unlikely[*from],
                Condition::End => false,
            });
    }
    unlikely
}

/// Formats the estimate in coarse units: `about 3 min left`. `None` for a lower bound under 45
/// seconds, which carries no information.
pub(super) fn describe(remaining: Remaining) -> Option<String> {
    let minutes = remaining.seconds / 60.0;
    let how = if remaining.at_least {
        "at least"
    } else {
        "about"
    };
    Some(match minutes {
        ..0.75 if remaining.at_least => return None,
        ..0.75 => "less than a minute left".to_owned(),
        ..90.0 => format!("{how} {:.0} min left", minutes.max(1.0)),
        ..2880.0 => format!("{how} {:.0} h left", minutes / 60.0),
        _ => format!("{how} {:.0} days left", minutes / 1440.0),
    })
}

#[cfg(test)]
mod tests {
    use baton_model::workflow::HaltMode;

    use super::super::tests::build::{Case, after, counts, task};
    use super::*;

    fn mean(mut task: RunTask, seconds: f64) -> RunTask {
        task.mean_seconds = Some(seconds);
        task
    }

    fn of(tasks: Vec<RunTask>) -> Option<Remaining> {
        let case = Case::new("eta", tasks);
        remaining(&case.run, &case.tasks)
    }

    fn about(seconds: f64) -> Option<Remaining> {
        Some(Remaining {
            seconds,
            at_least: false,
        })
    }

    fn at_least(seconds: f64) -> Option<Remaining> {
        Some(Remaining {
            seconds,
            at_least: true,
        })
    }

    fn wide() -> RunTask {
        // 90 waiting and 10 running count 95, of 10 s each, 10 at a time.
        mean(task("wide", counts("90w 10r 5d"), &[]), 10.0)
    }

    #[test]
    fn work_is_shared_by_what_runs_at_once_and_a_chain_adds_up() {
        assert_eq!(of(vec![wide()]), about(95.0));
        let last = mean(task("last", counts("1w"), &["wide"]), 60.0);
        assert_eq!(of(vec![wide(), last]), about(155.0));
    }

    #[test]
    fn item_by_item_ends_one_item_later() {
        let mut next = mean(task("next", counts("100w 5d"), &["wide"]), 1.0);
        next.after[0].by_item = true;
        assert_eq!(of(vec![wide(), next]), about(105.0));
    }

    #[test]
    fn with_unknown_tasks_the_estimate_is_a_lower_bound() {
        let unknown = task("unknown", counts("1w"), &["wide"]);
        let last = mean(task("last", counts("1w"), &["unknown"]), 60.0);
        assert_eq!(of(vec![wide(), unknown, last]), at_least(155.0));
        let mut unmapped = mean(task("unmapped", counts(""), &["wide"]), 1.0);
        unmapped.unmapped = true;
        assert_eq!(of(vec![wide(), unmapped]), at_least(95.0));
        let mut case = Case::new("eta", vec![wide()]);
        case.run.tasks = Some(2);
        assert_eq!(remaining(&case.run, &case.tasks), at_least(95.0));
    }

    #[test]
    fn nothing_is_said_that_is_not_known() {
        let idle = mean(task("idle", counts("5w 1d"), &[]), 1.0);
        assert_eq!(of(vec![idle]), None, "nothing runs");
        let mut first = task("first", counts("3w 2r"), &[]);
        first.mean_seconds = None;
        assert_eq!(of(vec![first]), None, "nothing is DONE");
        let mut case = Case::new("eta", vec![wide()]);
        case.run.halting = Some(HaltMode::Drain);
        assert_eq!(
            remaining(&case.run, &case.tasks),
            None,
            "it is being stopped"
        );
    }

    #[test]
    fn what_runs_after_a_failure_only_is_taken_not_to_run() {
        let mut rescue = task("rescue", counts("1w"), &["wide"]);
        rescue.after = vec![after("wide", Condition::Failure, false)];
        let report = task("report", counts("1w"), &["rescue"]);
        assert_eq!(of(vec![wide(), rescue, report]), about(95.0));
    }

    #[test]
    fn words_are_no_more_exact_than_they_can_be_meant() {
        for (remaining, text) in [
            (about(0.0), Some("less than a minute left")),
            (about(50.0), Some("about 1 min left")),
            (about(185.0), Some("about 3 min left")),
            (about(7_300.0), Some("about 2 h left")),
            (about(260_000.0), Some("about 3 days left")),
            (at_least(185.0), Some("at least 3 min left")),
            (at_least(20.0), None),
        ] {
            assert_eq!(remaining.and_then(describe).as_deref(), text);
        }
    }
}
