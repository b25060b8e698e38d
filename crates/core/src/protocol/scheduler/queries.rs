//! `getLogs` and `getProcesses`: passed through to the worker that has the attempt, and back.
//! They touch no other state of the protocol.

use std::collections::BTreeMap;

use baton_model::ids::{Association, RequestId, WorkerName};
use baton_model::limits::{LOG_CHUNK_BYTES_MAX, SAMPLES_PER_PROCESS_MAX, WORKER_QUERIES_MAX};
use baton_model::message::{
    LogAnswer, LogQuery, ProcessAnswer, ProcessQuery, ToWorker, WorkerAddress,
};

use super::context::Cx;
use super::{Protocol, Timer, address};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Logs,
    Processes,
}

/// Requests that wait for their worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WorkerQueries(BTreeMap<RequestId, (WorkerName, Subject)>);

impl Protocol {
    pub(crate) fn read_logs(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestId,
        worker: &WorkerName,
        mut query: LogQuery,
    ) {
        query.bytes_max = query.bytes_max.min(LOG_CHUNK_BYTES_MAX);
        let Some((to, association)) = self.open_query(cx, request, worker, Subject::Logs) else {
            return;
        };
        let message = ToWorker::GetLogs {
            association,
            request,
            query,
        };
        cx.send(to, message);
    }

    pub(crate) fn read_processes(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestId,
        worker: &WorkerName,
        mut query: ProcessQuery,
    ) {
        query.samples_max = query.samples_max.min(SAMPLES_PER_PROCESS_MAX);
        let subject = Subject::Processes;
        let Some((to, association)) = self.open_query(cx, request, worker, subject) else {
            return;
        };
        let message = ToWorker::GetProcesses {
            association,
            request,
            query,
        };
        cx.send(to, message);
    }

    /// Registers a request, or answers it at once if its worker cannot be asked.
    fn open_query(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestId,
        worker: &WorkerName,
        subject: Subject,
    ) -> Option<(WorkerAddress, Association)> {
        let Some(seat) = self.seats.get(worker) else {
            let reason = format!("worker {worker} is not connected");
            unavailable(cx, request, subject, reason);
            return None;
        };
        if self.queries.0.len() >= WORKER_QUERIES_MAX {
            let reason = "too many requests to workers are open; try again";
            unavailable(cx, request, subject, reason.to_owned());
            return None;
        }
        self.queries.0.insert(request, (worker.clone(), subject));
        self.timers.arm(
            Timer::Query(request),
            cx.now.mono + cx.config.timeouts.reply_wait,
        );
        Some((address(worker, seat), seat.association(self.term)))
    }

    pub(super) fn logs_answered(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        request: RequestId,
        answer: LogAnswer,
    ) {
        if self.close_query(cx, association, request, Subject::Logs) {
            cx.leader.logs_read(request, answer);
        }
    }

    pub(super) fn processes_answered(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        request: RequestId,
        answer: ProcessAnswer,
    ) {
        if self.close_query(cx, association, request, Subject::Processes) {
            cx.leader.processes_read(request, answer);
        }
    }

    /// True if the request was open, and its worker was asked this.
    fn close_query(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        request: RequestId,
        subject: Subject,
    ) -> bool {
        let Some(name) = self.hear(cx, association) else {
            return false;
        };
        if self.queries.0.get(&request) != Some(&(name, subject)) {
            cx.notice(match subject {
                Subject::Logs => "logs-late",
                Subject::Processes => "processes-late",
            });
            return false;
        }
        self.queries.0.remove(&request);
        self.timers.disarm(&Timer::Query(request));
        true
    }

    pub(super) fn query_overdue(&mut self, cx: &mut Cx<'_>, request: RequestId) {
        if let Some((name, subject)) = self.queries.0.remove(&request) {
            let reason = format!("worker {name} did not answer in time; try again");
            unavailable(cx, request, subject, reason);
        }
    }
}

fn unavailable(cx: &mut Cx<'_>, request: RequestId, subject: Subject, reason: String) {
    match subject {
        Subject::Logs => cx.leader.logs_read(request, LogAnswer::Unavailable(reason)),
        Subject::Processes => {
            cx.leader
                .processes_read(request, ProcessAnswer::Unavailable(reason));
        }
    }
}
