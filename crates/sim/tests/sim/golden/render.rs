//! Rendering of messages and times: short enough to read, complete enough to show a change.

use baton_core::scheduler::Reply;
use baton_model::ids::{LeaseId, RequestId};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{
    Heartbeat, HeartbeatReply, LaunchRefusal, LaunchVerdict, LogAnswer, LogQuery, LogStart,
    LogStream, ProcessAnswer, Refusal, Status, ToScheduler, ToWorker,
};
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::worker_set::KnownSet;

/// Formats a span in seconds, with as many decimals as needed.
pub(crate) fn seconds(span: Millis) -> String {
    let (whole, rest) = (span.0 / 1_000, span.0 % 1_000);
    if rest == 0 {
        return format!("{whole}s");
    }
    let decimals = format!("{rest:03}");
    format!("{whole}.{}s", decimals.trim_end_matches('0'))
}

fn stamp(Stamp(at): Stamp) -> String {
    seconds(at.since(Mono(0)))
}

pub(crate) fn to_scheduler(message: &ToScheduler) -> String {
    match message {
        ToScheduler::ProcessHeartbeat(heartbeat) => self::heartbeat(heartbeat),
        ToScheduler::UpdateStatus {
            association,
            statuses,
        } => {
            let all = list(statuses, |(lease, status)| {
                format!("{lease} {}", self::status(status))
            });
            format!("updateStatus {all} under {association}")
        }
        ToScheduler::RunningTasks { association, held } => {
            let all = list(held, |held| held.lease.to_string());
            format!("runningTasks {all} under {association}")
        }
        ToScheduler::RunTaskReply {
            association,
            verdicts,
        } => {
            let all = list(verdicts, |(lease, verdict)| {
                format!("{lease} {}", self::verdict(*verdict))
            });
            format!("runTaskReply {all} under {association}")
        }
        ToScheduler::NotifyReply {
            association,
            seq,
            held,
        } => format!(
            "notifyReply seq={seq} held={} under {association}",
            leases(held)
        ),
        ToScheduler::HealthReport {
            association,
            check,
            ok,
        } => {
            let found = if *ok { "good" } else { "bad" };
            format!("healthReport {check} {found} under {association}")
        }
        ToScheduler::HealthFault {
            association,
            check,
            reason,
        } => format!("healthFault {check} ({reason}) under {association}"),
        ToScheduler::Goodbye { association, cause } => {
            format!("goodbye ({cause}) under {association}")
        }
        ToScheduler::GetSecrets { association, lease } => {
            format!("getSecrets {lease} under {association}")
        }
        ToScheduler::HeldDevices { association, held } => {
            let all = list(held, |(lease, _)| lease.to_string());
            format!("heldDevices {all} under {association}")
        }
        ToScheduler::Progress {
            association,
            attempts,
        } => {
            let all = list(attempts, |(lease, progress)| {
                format!("{lease} at {}", progress.text())
            });
            format!("progress {all} under {association}")
        }
        ToScheduler::Logs {
            association,
            request,
            answer,
        } => format!("logs {request} {} under {association}", log_answer(answer)),
        ToScheduler::Processes {
            association,
            request,
            answer,
        } => {
            let answer = process_answer(answer);
            format!("processes {request} {answer} under {association}")
        }
    }
}

pub(crate) fn to_worker(message: &ToWorker) -> String {
    match message {
        ToWorker::HeartbeatReply(reply) => heartbeat_reply(reply),
        ToWorker::HeartbeatRefused {
            epoch,
            incarnation,
            stamp,
            refusal,
        } => format!(
            "heartbeatRefused {} stamp={} to {incarnation} by {epoch}",
            self::refusal(*refusal),
            self::stamp(*stamp)
        ),
        ToWorker::GetRunningTasks { association } => format!("getRunningTasks under {association}"),
        ToWorker::RunTask {
            association,
            seq,
            stamp,
            launches,
        } => {
            let all = list(launches, |launch| launch.lease.to_string());
            let stamp = self::stamp(*stamp);
            format!("runTask {all} seq={seq} stamp={stamp} under {association}")
        }
        ToWorker::NotifyIfTasksNotRunning {
            association,
            seq,
            leases: asked,
        } => format!(
            "notifyIfTasksNotRunning {} seq={seq} under {association}",
            leases(asked)
        ),
        ToWorker::RequestSuicide { association } => format!("requestSuicide under {association}"),
        ToWorker::KillTask {
            association,
            lease,
            grace,
        } => {
            let now = if *grace == Millis(0) { " now" } else { "" };
            format!("killTask {lease}{now} under {association}")
        }
        ToWorker::CheckHealth { association, check } => {
            format!("checkHealth {check} under {association}")
        }
        ToWorker::GoodbyeAck { association } => format!("goodbyeAck under {association}"),
        ToWorker::StatusAck {
            association,
            leases: told,
        } => format!("statusAck {} under {association}", leases(told)),
        ToWorker::GetLogs {
            association,
            request,
            query,
        } => format!("getLogs {request} {} under {association}", log_query(query)),
        ToWorker::GetProcesses {
            association,
            request,
            query,
        } => format!("getProcesses {request} {} under {association}", query.lease),
    }
}

pub(crate) fn reply(request: RequestId, reply: &Reply) -> String {
    match reply {
        Reply::Submitted(Ok((first, last))) if first == last => {
            format!("submitted {request}: {first}")
        }
        Reply::Submitted(Ok((first, last))) => format!("submitted {request}: {first}..{last}"),
        Reply::Submitted(Err(reason)) => format!("refused {request}: {reason}"),
        Reply::Cancelled(counts) => format!(
            "cancelled {request}: {} halted, {} stopping",
            counts.halted, counts.stopping
        ),
        Reply::Logs(answer) => format!("log for {request}: {}", log_answer(answer)),
        Reply::Processes(answer) => {
            format!("processes for {request}: {}", process_answer(answer))
        }
        other => format!("{request}: {other:?}"),
    }
}

fn log_answer(answer: &LogAnswer) -> String {
    match answer {
        LogAnswer::Chunk(chunk) => format!("{:?}", String::from_utf8_lossy(&chunk.bytes)),
        LogAnswer::NotFound => "not found".to_owned(),
        LogAnswer::Unavailable(reason) => format!("unavailable: {reason}"),
    }
}

fn process_answer(answer: &ProcessAnswer) -> String {
    match answer {
        ProcessAnswer::Processes(found) => {
            let processes = found.processes.iter();
            let processes = processes.map(|it| format!("{} {}", it.name, it.state));
            let processes: Vec<String> = processes.collect();
            format!("{} [{}]", found.state, processes.join(", "))
        }
        ProcessAnswer::NotFound => "not found".to_owned(),
        ProcessAnswer::Unavailable(reason) => format!("unavailable: {reason}"),
    }
}

fn heartbeat(heartbeat: &Heartbeat) -> String {
    let association = match heartbeat.association {
        Some(association) => association.to_string(),
        None => "-".to_owned(),
    };
    let mut text = format!(
        "processHeartbeat stamp={} state={} assoc={association}",
        stamp(heartbeat.stamp),
        heartbeat.state
    );
    let seen = heartbeat.association.map_or(0, |it| it.epoch.0);
    if heartbeat.epoch_seen.0 != seen {
        text += &format!(" seen={}", heartbeat.epoch_seen);
    }
    if heartbeat.version != PROTOCOL_VERSION {
        text += " version=other";
    }
    if let Some(left) = heartbeat.tenure.left {
        text += &format!(" left={}", seconds(left));
    }
    if heartbeat.tenure.leaving {
        text += " leaving";
    }
    text + &worker_set(heartbeat.worker_set)
}

fn heartbeat_reply(reply: &HeartbeatReply) -> String {
    format!(
        "heartbeatReply stamp={} state={} assoc={}{}",
        stamp(reply.stamp),
        reply.state,
        reply.association,
        worker_set(reply.worker_set)
    )
}

/// Omits the hash: the count distinguishes the sets of a script.
fn worker_set(known: Option<KnownSet>) -> String {
    known.map_or_else(String::new, |known| {
        let settled = if known.settled { "" } else { "?" };
        let id = known.id;
        format!(
            " set={}/{}/{}{settled}",
            id.epoch, id.version, id.hash.count
        )
    })
}

fn status(status: &Status) -> String {
    match status {
        Status::Ended(outcome) => format!("ended ({outcome})"),
        Status::WasNotRunning => "was not running".to_owned(),
        Status::HostFault(reason) => format!("not started, fault of the host: {reason}"),
    }
}

fn verdict(verdict: LaunchVerdict) -> String {
    match verdict {
        LaunchVerdict::Accepted => "accepted".to_owned(),
        LaunchVerdict::Refused(reason) => format!("refused ({})", launch_refusal(reason)),
    }
}

const fn launch_refusal(reason: LaunchRefusal) -> &'static str {
    match reason {
        LaunchRefusal::NotHealthy => "not healthy",
        LaunchRefusal::StaleSequence => "stale sequence",
        LaunchRefusal::StaleStamp => "stale stamp",
        LaunchRefusal::InstanceRuns => "instance runs",
        LaunchRefusal::AlreadyOver => "already over",
        LaunchRefusal::Full => "full",
        LaunchRefusal::GuardFired => "guard fired",
        LaunchRefusal::Leaving => "leaving",
        LaunchRefusal::TooLong => "too long",
    }
}

const fn refusal(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Superseded => "superseded",
        Refusal::SeatTaken => "seat taken",
        Refusal::Condemned => "condemned",
        Refusal::OtherVersion => "other version",
        Refusal::Copied => "copied",
    }
}

fn log_query(query: &LogQuery) -> String {
    let stream = match query.stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    let from = match query.start {
        LogStart::Offset(offset) => offset.to_string(),
        LogStart::Cursor(cursor) => cursor.to_string(),
    };
    format!("{} {stream} from {from}", query.lease)
}

fn leases(leases: &[LeaseId]) -> String {
    list(leases, ToString::to_string)
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(text).collect();
    format!("[{}]", items.join(", "))
}
