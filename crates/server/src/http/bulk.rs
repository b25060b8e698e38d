//! Cancelling, killing and retrying ranges of instances.
//!
//! A range is cancelled by one command. For the others there is one command per instance; they are
//! sent at once, so that they share their commits.

use std::future::Future;

use baton_core::scheduler::{Command, Reply};
use baton_model::api::{CancelReply, KillCounts, RetryCounts};
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use baton_store::Views;
use baton_store::view::Record;

use super::app::App;
use super::extract::Ids;
use super::problem::{Answer, Fault};
use crate::access::Caller;
use crate::limits::BULK_INSTANCES_MAX;

/// Cancels ranges.
pub(super) async fn cancel(
    app: &App,
    caller: &Caller,
    ranges: &[Ids],
    mode: KillMode,
) -> Answer<CancelReply> {
    let commands = ranges.iter().map(|(first, last)| Command::Cancel {
        first: *first,
        last: *last,
        mode,
    });
    let mut counts = CancelReply {
        halted: 0,
        stopping: 0,
    };
    for answer in sent(app, caller, commands.collect()) {
        let Reply::Cancelled(cancelled) = answer.await? else {
            return Err(Fault::wrong_reply());
        };
        counts.halted += cancelled.halted;
        counts.stopping += cancelled.stopping;
    }
    Ok(counts)
}

/// Kills the attempts that run in ranges.
pub(super) async fn kill(
    app: &App,
    caller: &Caller,
    ranges: &[Ids],
    mode: KillMode,
) -> Answer<KillCounts> {
    let states = &[UniversalState::Launched, UniversalState::Running];
    let (records, known) = found(app, ranges, states).await?;
    let commands = records.iter().map(|record| Command::KillAttempt {
        instance: record.instance.id,
        attempt: None,
        mode,
    });
    let mut killed = 0;
    for answer in sent(app, caller, commands.collect()) {
        match answer.await? {
            Reply::AttemptKilled(Ok(_)) => killed += 1,
            // It has ended since it was read, or is being cancelled.
            Reply::AttemptKilled(Err(_)) => {}
            _ => return Err(Fault::wrong_reply()),
        }
    }
    Ok(KillCounts {
        killed,
        skipped: known.saturating_sub(killed),
    })
}

/// Retries the instances of ranges that are in this state. The caller holds the lock of the history.
pub(super) async fn retry(
    app: &App,
    caller: &Caller,
    ranges: &[Ids],
    state: UniversalState,
) -> Answer<RetryCounts> {
    let states: &[UniversalState] = match state {
        UniversalState::Halted => &[UniversalState::Halted],
        _ => &[UniversalState::Failed],
    };
    let (records, known) = found(app, ranges, states).await?;
    let commands = records
        .into_iter()
        .map(|record| Command::Retry(Box::new(record.instance)));
    let mut retried = 0;
    for answer in sent(app, caller, commands.collect()) {
        match answer.await? {
            Reply::Retried(Ok(())) => retried += 1,
            // It belongs to a run.
            Reply::Retried(Err(_)) => {}
            _ => return Err(Fault::wrong_reply()),
        }
    }
    Ok(RetryCounts {
        retried,
        skipped: known.saturating_sub(retried),
    })
}

/// The state of the instances to retry: FAILED, unless a request names another.
pub(super) fn retried_state(word: Option<&str>) -> Answer<UniversalState> {
    match word.map(str::to_ascii_uppercase).as_deref() {
        None | Some("FAILED") => Ok(UniversalState::Failed),
        Some("HALTED") => Ok(UniversalState::Halted),
        Some(_) => Err(Fault::bad_request(
            "only FAILED or HALTED instances can be retried; state must be one of them",
        )),
    }
}

/// The instances of ranges that are in these states, and the number of all that exist.
async fn found(
    app: &App,
    ranges: &[Ids],
    states: &'static [UniversalState],
) -> Answer<(Vec<Record>, u64)> {
    let all = ranges
        .iter()
        .map(|(first, last)| (last.0 - first.0).saturating_add(1));
    let all = all.fold(0_u64, u64::saturating_add);
    if all > BULK_INSTANCES_MAX {
        return Err(Fault::bad_request(format!(
            "a request retries or kills at most {BULK_INSTANCES_MAX} instances, not {all}; send \
             several"
        )));
    }
    let ranges = ranges.to_vec();
    let (records, known) = app
        .read(move |store: &dyn Views| {
            let (mut records, mut known) = (Vec::new(), 0);
            for (first, last) in ranges {
                records.append(&mut store.within(first, last, states, usize::MAX)?);
                known += store.tally(first, last)?.values().sum::<u64>();
            }
            Ok((records, known))
        })
        .await?;
    if known == 0 {
        return Err(Fault::not_found("there is no instance in these ranges"));
    }
    Ok((records, known))
}

/// Sends all commands before the first answer is awaited.
fn sent(
    app: &App,
    caller: &Caller,
    commands: Vec<Command>,
) -> Vec<impl Future<Output = Answer<Reply>> + use<>> {
    let client = caller.principal();
    let commands = commands.into_iter();
    commands
        .map(|command| app.begin(client.clone(), command))
        .collect()
}
