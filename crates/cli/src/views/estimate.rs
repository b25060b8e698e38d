//! How long a run will still take.
//!
//! For each task that is not over, its items left (those that run count half) take
//! `mean_seconds` each. With C items of the run running now, and C kept up:
//!
//! - all of that work takes at least its sum / C;
//! - a task takes its own work / min(C, its items left), and begins when what it comes after
//!   is over; item by item it ends at least one item later than that. So every chain of
//!   tasks is a bound, too.
//!
//! The estimate is the larger of the two. There is none where it would be a guess: nothing
//! runs; a task that must still run has no item that is DONE, or its items are not known;
//! some of the tasks are not at hand; the run is being stopped. Tasks that only run after a
//! failure are taken not to run, as long as nothing of them has begun. What it cannot know:
//! attempts that fail and are made again, and limits that will free or bind later.

use baton_model::api::{Run, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::standing;

/// Seconds left, if that can be said.
pub(super) fn seconds_left(run: &Run, tasks: &[RunTask]) -> Option<f64> {
    let stopping = run.state.is_terminal() || run.halting.is_some();
    if stopping || run.tasks.is_some_and(|all| all != tasks.len() as u64) {
        return None;
    }
    let slots = standing::add(tasks.iter().map(|task| task.items.running));
    if slots == 0 {
        return None;
    }
    let dag = Dag::new(tasks);
    let unlikely = unlikely(&dag);
    let slots = slots as f64;
    let mut end = vec![0.0_f64; tasks.len()];
    let mut work = 0.0;
    for place in &dag.order {
        let task = &tasks[*place];
        let ends = |by_item: bool| {
            let edges = dag.edges[*place].iter();
            let alike = edges.filter(move |(_, edge)| edge.by_item == by_item);
            alike.map(|(from, _)| end[*from]).fold(0.0, f64::max)
        };
        let (begins, last) = (ends(false), ends(true));
        let items = &task.items;
        let unbegun = standing::unbegun(items) as f64;
        let running = items.running as f64;
        if unlikely[*place] || (unbegun + running == 0.0 && !task.unmapped) {
            end[*place] = begins;
            continue;
        }
        let mean = task.mean_seconds.filter(|_| !task.unmapped)?;
        let own = mean * (unbegun + running / 2.0);
        work += own;
        let trailing = if last > 0.0 { last + mean } else { 0.0 };
        end[*place] = (begins + own / slots.min(unbegun + running)).max(trailing);
    }
    let seconds = end.into_iter().fold(work / slots, f64::max);
    seconds.is_finite().then_some(seconds)
}

/// By task: it runs after a failure only, and has not begun; or comes after such a task.
fn unlikely(dag: &Dag<'_>) -> Vec<bool> {
    let mut unlikely = vec![false; dag.tasks.len()];
    for place in &dag.order {
        let task = &dag.tasks[*place];
        let items = &task.items;
        let begun = standing::total(items) > items.waiting;
        let mut edges = dag.edges[*place].iter();
        unlikely[*place] = !begun
            && edges.any(|(from, edge)| match edge.condition {
                Condition::Failure => true,
                Condition::Success => unlikely[*from],
                Condition::End => false,
            });
    }
    unlikely
}

/// `about 3 min left`: as exact as it can be meant.
pub(super) fn words(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    match minutes {
        ..0.75 => "less than a minute left".to_owned(),
        ..90.0 => format!("about {:.0} min left", minutes.max(1.0)),
        ..2880.0 => format!("about {:.0} h left", minutes / 60.0),
        _ => format!("about {:.0} days left", minutes / 1440.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::build::{Case, after, counts, task};
    use super::*;

    fn mean(mut task: RunTask, seconds: f64) -> RunTask {
        task.mean_seconds = Some(seconds);
        task
    }

    fn left(tasks: Vec<RunTask>) -> Option<f64> {
        let case = Case::new("eta", tasks);
        seconds_left(&case.run, &case.tasks)
    }

    fn wide() -> RunTask {
        // 90 waiting and 10 running count 95, of 10 s each, 10 at a time.
        mean(task("wide", counts("90w 10r 5d"), &[]), 10.0)
    }

    #[test]
    fn work_is_shared_by_what_runs_at_once_and_a_chain_adds_up() {
        assert_eq!(left(vec![wide()]), Some(95.0));
        let last = mean(task("last", counts("1w"), &["wide"]), 60.0);
        assert_eq!(left(vec![wide(), last]), Some(155.0));
    }

    #[test]
    fn item_by_item_ends_one_item_later() {
        let mut next = mean(task("next", counts("100w 5d"), &["wide"]), 1.0);
        next.after[0].by_item = true;
        assert_eq!(left(vec![wide(), next]), Some(105.0));
    }

    #[test]
    fn nothing_is_said_that_is_not_known() {
        let unknown = task("unknown", counts("1w"), &["wide"]);
        assert_eq!(left(vec![wide(), unknown.clone()]), None);
        assert_eq!(
            left(vec![mean(task("idle", counts("5w 1d"), &[]), 1.0)]),
            None
        );
        let mut unmapped = mean(task("unmapped", counts(""), &["wide"]), 1.0);
        unmapped.unmapped = true;
        assert_eq!(left(vec![wide(), unmapped]), None);
        let mut case = Case::new("eta", vec![wide()]);
        case.run.tasks = Some(2);
        assert_eq!(seconds_left(&case.run, &case.tasks), None);
    }

    #[test]
    fn what_runs_after_a_failure_only_is_taken_not_to_run() {
        let mut rescue = task("rescue", counts("1w"), &["wide"]);
        rescue.after = vec![after("wide", Condition::Failure, false)];
        let report = task("report", counts("1w"), &["rescue"]);
        assert_eq!(left(vec![wide(), rescue, report]), Some(95.0));
    }

    #[test]
    fn words_are_no_more_exact_than_they_can_be_meant() {
        for (seconds, text) in [
            (0.0, "less than a minute left"),
            (50.0, "about 1 min left"),
            (185.0, "about 3 min left"),
            (7_300.0, "about 2 h left"),
            (260_000.0, "about 3 days left"),
        ] {
            assert_eq!(words(seconds), text);
        }
    }
}
