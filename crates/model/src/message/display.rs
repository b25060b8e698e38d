//! Messages in one line, for transcripts and traces.

use std::fmt::{self, Display};

use super::{Heartbeat, HeartbeatReply, HeldAttempt, LaunchVerdict, Status, ToScheduler, ToWorker};

impl Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worker = &self.worker;
        write!(
            f,
            "processHeartbeat {} {} on {}/{} stamp={} {} association={} seen={}",
            worker.worker,
            worker.incarnation,
            worker.host,
            worker.boot,
            self.stamp,
            self.state,
            Maybe(self.association.as_ref()),
            self.epoch_seen,
        )?;
        write_set(f, self.worker_set)?;
        if let Some(left) = self.tenure.left {
            write!(f, " left={left}")?;
        }
        if self.tenure.leaving {
            f.write_str(" leaving")?;
        }
        Ok(())
    }
}

impl Display for HeartbeatReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            association,
            stamp,
            state,
            worker_set,
            held,
            ..
        } = self;
        write!(f, "heartbeatReply {association} stamp={stamp} {state}")?;
        write_set(f, *worker_set)?;
        if *held > 0 {
            write!(f, " held={held}")?;
        }
        Ok(())
    }
}

impl Display for HeldAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ended {
            None => self.lease.fmt(f),
            Some(outcome) => write!(f, "{} ended ({outcome})", self.lease),
        }
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(outcome) => write!(f, "ended ({outcome})"),
            Self::WasNotRunning => f.write_str("was not running"),
            Self::HostFault(reason) => write!(f, "not started, fault of the host: {reason}"),
        }
    }
}

impl Display for LaunchVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Refused(reason) => write!(f, "refused ({reason:?})"),
        }
    }
}

impl Display for ToScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProcessHeartbeat(heartbeat) => heartbeat.fmt(f),
            Self::UpdateStatus {
                association,
                statuses,
            } => {
                write!(f, "updateStatus {association}")?;
                write_pairs(f, statuses)
            }
            Self::RunningTasks { association, held } => {
                write!(f, "runningTasks {association}")?;
                write_list(f, held.iter())
            }
            Self::RunTaskReply {
                association,
                verdicts,
            } => {
                write!(f, "runTaskReply {association}")?;
                write_pairs(f, verdicts)
            }
            Self::NotifyReply {
                association,
                seq,
                held,
            } => {
                write!(f, "notifyReply {association} {seq} held")?;
                write_list(f, held.iter())
            }
            Self::HealthReport {
                association,
                check,
                ok,
            } => {
                write!(f, "healthReport {association} {check} ok={ok}")
            }
            Self::Logs {
                association,
                request,
                ..
            } => write!(f, "logs {association} {request}"),
            Self::Processes {
                association,
                request,
                ..
            } => write!(f, "processes {association} {request}"),
            Self::HealthFault {
                association,
                check,
                reason,
            } => write!(f, "healthFault {association} {check} {reason}"),
            Self::Goodbye { association, cause } => write!(f, "goodbye {association}: {cause}"),
            Self::GetSecrets { association, lease } => {
                write!(f, "getSecrets {association} {lease}")
            }
            Self::HeldDevices { association, held } => {
                write!(f, "heldDevices {association}")?;
                write_list(f, held.iter().map(|(lease, _)| lease))
            }
            Self::Progress {
                association,
                attempts,
            } => {
                write!(f, "progress {association}")?;
                write_list(f, attempts.iter().map(|(lease, _)| lease))
            }
        }
    }
}

impl Display for ToWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatReply(reply) => reply.fmt(f),
            Self::HeartbeatRefused {
                epoch,
                incarnation,
                stamp,
                refusal,
            } => {
                write!(
                    f,
                    "heartbeatRefused {epoch} {incarnation} stamp={stamp} {refusal:?}"
                )
            }
            Self::GetRunningTasks { association } => write!(f, "getRunningTasks {association}"),
            Self::RunTask {
                association,
                seq,
                stamp,
                launches,
            } => {
                write!(f, "runTask {association} {seq} stamp={stamp}")?;
                write_list(f, launches.iter().map(|launch| launch.lease))
            }
            Self::NotifyIfTasksNotRunning {
                association,
                seq,
                leases,
            } => {
                write!(f, "notifyIfTasksNotRunning {association} {seq}")?;
                write_list(f, leases.iter())
            }
            Self::RequestSuicide { association } => write!(f, "requestSuicide {association}"),
            Self::KillTask {
                association,
                lease,
                grace,
            } => {
                write!(f, "killTask {association} {lease} grace={grace}")
            }
            Self::CheckHealth { association, check } => {
                write!(f, "checkHealth {association} {check}")
            }
            Self::StatusAck {
                association,
                leases,
            } => {
                write!(f, "statusAck {association}")?;
                write_list(f, leases.iter())
            }
            Self::GetLogs {
                association,
                request,
                query,
            } => {
                write!(f, "getLogs {association} {request} {}", query.lease)
            }
            Self::GetProcesses {
                association,
                request,
                query,
            } => {
                write!(f, "getProcesses {association} {request} {}", query.lease)
            }
            Self::GoodbyeAck { association } => write!(f, "goodbyeAck {association}"),
        }
    }
}

/// A value, or a dash where there is none.
struct Maybe<'a, T>(Option<&'a T>);

impl<T: Display> Display for Maybe<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

fn write_set(f: &mut fmt::Formatter<'_>, set: Option<crate::worker_set::KnownSet>) -> fmt::Result {
    match set {
        None => Ok(()),
        Some(known) if known.settled => write!(f, " set={}", known.id),
        Some(known) => write!(f, " set={} (unsettled)", known.id),
    }
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = impl Display>,
) -> fmt::Result {
    f.write_str(" [")?;
    for (index, item) in items.enumerate() {
        let gap = if index == 0 { "" } else { ", " };
        write!(f, "{gap}{item}")?;
    }
    f.write_str("]")
}

fn write_pairs<A: Display, B: Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[(A, B)],
) -> fmt::Result {
    write_list(f, items.iter().map(|(a, b)| format!("{a} {b}")))
}
