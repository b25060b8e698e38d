//! Waiting for instances to end, with progress output.
//!
//! Progress goes to standard error: on a terminal one line that is redrawn, elsewhere a line for
//! each change. If the scheduler becomes unreachable the command keeps trying, because accepted
//! work is durable.

use std::future::Future;
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError, Span};
use baton_model::api::{Instance, RangeSummary};
use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::state::UniversalState;
use baton_model::time::Millis;

use super::readiness::ReadinessReport;
use crate::output::{CANCELLED, FAILED, Failure, Style, clean, note};
use crate::painter::{Progress, done_bar};
use crate::text::{Line, grouped};
use crate::time::span;

/// Timeout of one long-poll request; short enough to refresh the progress line.
const LONG_POLL: Duration = Duration::from_secs(1);
/// How long to wait before the reason is shown: most instances start sooner.
const REASON_WAIT: Duration = Duration::from_secs(3);
/// Interval between two attempts to reach the scheduler.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long the scheduler may be unreachable.
const UNREACHABLE_MAX: Duration = Duration::from_secs(600);

/// Waits until an instance has ended.
pub(crate) async fn wait_for_instance(
    client: &Client,
    id: InstanceId,
) -> Result<Instance, ClientError> {
    let began = Instant::now();
    let mut progress = Progress::new();
    let mut readiness = ReadinessReport::new();
    loop {
        let wait = || client.wait(id, LONG_POLL);
        let instance = retry_while_unreachable(|text| progress.note(text), wait).await?;
        if instance.state.is_terminal() {
            progress.clear();
            return Ok(instance);
        }
        show_state(&mut progress, &instance, began);
        readiness.update(client, |text| progress.note(text)).await;
    }
}

/// Waits until an instance has ended, without a word.
pub(crate) async fn wait_quietly(client: &Client, id: InstanceId) -> Result<Instance, ClientError> {
    loop {
        let wait = || client.wait(id, LONG_POLL);
        let instance = retry_while_unreachable(|_| (), wait).await?;
        if instance.state.is_terminal() {
            return Ok(instance);
        }
    }
}

/// Shows the state of an instance, and for how long it has been waited for.
pub(crate) fn show_state(progress: &mut Progress, instance: &Instance, began: Instant) {
    let mut line = Line::new();
    line.add(Style::Plain, describe_state(instance));
    if began.elapsed() >= REASON_WAIT
        && let Some(reason) = &instance.reason
    {
        line.add(Style::Plain, format!(": {}", clean(reason)));
    }
    if progress.terminal
        && let Some(reported) = &instance.progress
    {
        line.add(Style::Faint, format!(" · {}", clean(&reported.text())));
    }
    progress.update(line, &since(began));
}

/// Describes the state of an instance: `i12 RUNNING on w1, attempt 2`.
pub(crate) fn describe_state(instance: &Instance) -> String {
    let mut text = format!("{} {}", clean(&instance.id), instance.state);
    let held = matches!(
        instance.state,
        UniversalState::Launched | UniversalState::Running
    );
    if let Some(worker) = instance.worker.as_ref().filter(|_| held) {
        text.push_str(&format!(" on {}", clean(worker)));
    }
    match (held, instance.attempts, &instance.end_text) {
        (true, attempts @ 2.., _) => text.push_str(&format!(", attempt {attempts}")),
        (false, 1.., Some(end)) => {
            text.push_str(&format!(" again, the last attempt ended: {}", clean(end)));
        }
        _ => {}
    }
    text
}

/// Prints the last lines of standard error of an instance that has failed.
pub(crate) fn print_tail(instance: &Instance) {
    let lines = instance.stderr_tail.iter().flat_map(|tail| tail.lines());
    for line in lines.filter(|_| instance.state == UniversalState::Failed) {
        note(&format!("{} | {}", clean(&instance.id), clean(line)));
    }
}

/// Waits until all instances of a range have ended.
pub(crate) async fn wait_for_range(
    client: &Client,
    span: Span,
) -> Result<RangeSummary, ClientError> {
    let began = Instant::now();
    let mut progress = Progress::new();
    let mut readiness = ReadinessReport::new();
    loop {
        let wait = || client.wait_range(span, LONG_POLL);
        let summary = retry_while_unreachable(|text| progress.note(text), wait).await?;
        if is_over(&summary) {
            progress.clear();
            return Ok(summary);
        }
        let mut line = Line::new();
        if progress.terminal {
            line.extend(done_bar(over(&summary), span.count()));
        } else {
            line.add(Style::Plain, span.to_string());
        }
        line.add(Style::Plain, format!(" {}", counts(&summary)));
        if began.elapsed() >= REASON_WAIT && is_stuck(&summary) {
            // Instances start in order, so the last one waits if any does.
            if let Ok(explained) = client.explain(span.last).await {
                line.add(Style::Plain, format!(": {}", clean(&explained.text)));
            }
        }
        progress.update(line, &since(began));
        readiness.update(client, |text| progress.note(text)).await;
    }
}

fn since(began: Instant) -> String {
    // Whole seconds: the line is redrawn once per second.
    let elapsed = Millis::from_secs(began.elapsed().as_secs());
    format!(", {}", span(elapsed))
}

/// True if no instance of the range is live. All were accepted, so those missing from the counts
/// have ended and exceeded the retention: the last of a large array end long after the first.
fn is_over(summary: &RangeSummary) -> bool {
    summary.counts.keys().all(|state| state.is_terminal())
}

/// True if some wait and none runs.
fn is_stuck(summary: &RangeSummary) -> bool {
    let is_held = |state: &UniversalState| {
        matches!(state, UniversalState::Launched | UniversalState::Running)
    };
    !summary.counts.keys().any(is_held)
}

/// Waits, unless ^C comes first: then it says how to go on with the work, which continues.
pub(crate) async fn interruptible<T>(
    what: &str,
    waiting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let text = format!(
        "{what} continues; `baton wait {what}` waits for it again, `baton cancel {what}` cancels it"
    );
    unless_interrupted(text, waiting).await
}

/// Waits, unless ^C comes first: then it fails with this text.
pub(crate) async fn unless_interrupted<T>(
    text: String,
    waiting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        waited = waiting => waited,
        // The prompt is on the line of the progress.
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::Message(CANCELLED, text)),
    }
}

fn over(summary: &RangeSummary) -> u64 {
    let terminal = summary
        .counts
        .iter()
        .filter(|(state, _)| state.is_terminal());
    terminal.map(|(_, count)| count).sum()
}

/// Formats counts, ended states first: `1,200 DONE, 3 FAILED, 297 QUEUED`.
pub(crate) fn counts(summary: &RangeSummary) -> String {
    let mut states: Vec<_> = summary.counts.iter().collect();
    states.sort_by_key(|(state, _)| (!state.is_terminal(), **state));
    let words = states
        .into_iter()
        .map(|(state, count)| format!("{} {state}", grouped(*count)));
    words.collect::<Vec<_>>().join(", ")
}

/// Retries a request while the scheduler is unreachable, and reports that once.
pub(crate) async fn retry_while_unreachable<T, F>(
    mut report: impl FnMut(&str),
    mut request: impl FnMut() -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut unreachable_since: Option<Instant> = None;
    loop {
        let error = match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let since = *unreachable_since.get_or_insert_with(|| {
            if error.is_transient() {
                report(&format!("{}; retrying", clean(&error.to_string())));
            }
            Instant::now()
        });
        if !error.is_transient() || since.elapsed() > UNREACHABLE_MAX {
            return Err(error);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Exit status for the outcome of an instance.
pub(crate) fn exit_code(instance: &Instance) -> u8 {
    match (instance.state, instance.end) {
        (UniversalState::Done, _) => 0,
        (UniversalState::Halted, _) => CANCELLED,
        (_, Some(AttemptEnd::Real(Outcome::Exited(code)))) => u8::try_from(code)
            .ok()
            .filter(|code| *code > 0)
            .unwrap_or(FAILED),
        _ => FAILED,
    }
}

/// Exit status for the outcome of a range; failure takes precedence over cancellation.
pub(crate) fn range_exit_code(summary: &RangeSummary) -> u8 {
    let count = |state| summary.counts.get(&state).copied().unwrap_or_default();
    if count(UniversalState::Failed) + count(UniversalState::Aborted) > 0 {
        FAILED
    } else if count(UniversalState::Halted) > 0 {
        CANCELLED
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_model::outcome::KillCause;

    use super::*;
    use crate::views::rows::tests::fresh;

    fn ended(state: UniversalState, end: Outcome) -> Instance {
        Instance {
            state,
            end: Some(AttemptEnd::Real(end)),
            ..fresh("i1")
        }
    }

    fn summary(counts: &[(UniversalState, u64)]) -> RangeSummary {
        RangeSummary {
            first: "i1".to_owned(),
            last: "i9".to_owned(),
            counts: counts.iter().copied().collect(),
            parts: Vec::new(),
            links: BTreeMap::new(),
        }
    }

    #[test]
    fn who_waits_ends_with_the_status_of_the_work() {
        use UniversalState::{Done, Failed, Halted};
        for (instance, expected) in [
            (ended(Done, Outcome::Exited(0)), 0),
            (ended(Failed, Outcome::Exited(7)), 7),
            (ended(Failed, Outcome::Exited(255)), 255),
            (ended(Failed, Outcome::Exited(0)), 1),
            (ended(Failed, Outcome::Exited(-1)), 1),
            (ended(Failed, Outcome::Signaled(9)), 1),
            (ended(Failed, Outcome::Killed(KillCause::TimedOut)), 1),
            (ended(Halted, Outcome::Exited(7)), 130),
        ] {
            assert_eq!(exit_code(&instance), expected, "{instance:?}");
        }
        assert_eq!(range_exit_code(&summary(&[(Done, 9)])), 0);
        assert_eq!(range_exit_code(&summary(&[(Done, 8), (Halted, 1)])), 130);
        assert_eq!(range_exit_code(&summary(&[(Failed, 1), (Halted, 1)])), 1);
    }

    #[test]
    fn how_it_stands_is_told_in_a_line() {
        let running = Instance {
            state: UniversalState::Running,
            worker: Some("w1".to_owned()),
            attempts: 2,
            ..fresh("i1")
        };
        assert_eq!(describe_state(&running), "i1 RUNNING on w1, attempt 2");
        assert_eq!(describe_state(&fresh("i1")), "i1 QUEUED");
        let again = Instance {
            attempts: 1,
            end_text: Some("exit 7".to_owned()),
            worker: Some("w1".to_owned()),
            ..fresh("i1")
        };
        assert_eq!(
            describe_state(&again),
            "i1 QUEUED again, the last attempt ended: exit 7"
        );
        let range = summary(&[
            (UniversalState::Queued, 1_297),
            (UniversalState::Done, 1_200),
            (UniversalState::Failed, 3),
        ]);
        assert_eq!(counts(&range), "1,200 DONE, 3 FAILED, 1,297 QUEUED");
        assert_eq!(over(&range), 1_203);
        assert!(!is_over(&range));
        // Six of nine have exceeded the retention.
        assert!(is_over(&summary(&[(UniversalState::Done, 3)])));
    }
}
