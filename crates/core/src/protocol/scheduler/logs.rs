//! `getLogs`: passed through to the worker that has the log, and back. Touches no
//! other state of the protocol.

use std::collections::BTreeMap;

use baton_model::ids::{Association, RequestId, WorkerName};
use baton_model::limits::{LOG_CHUNK_BYTES_MAX, LOG_REQUESTS_MAX};
use baton_model::message::{LogAnswer, LogQuery, ToWorker};

use super::context::Cx;
use super::{Protocol, Timer, address};

/// Requests that wait for their worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LogRequests(BTreeMap<RequestId, WorkerName>);

impl Protocol {
    pub(crate) fn read_logs(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestId,
        worker: &WorkerName,
        mut query: LogQuery,
    ) {
        let Some(seat) = self.seats.get(worker) else {
            return answer(
                cx,
                request,
                unavailable(&format!("worker {worker} is not connected")),
            );
        };
        if self.logs.0.len() >= LOG_REQUESTS_MAX {
            return answer(
                cx,
                request,
                unavailable("too many log requests are open; try again"),
            );
        }
        query.bytes_max = query.bytes_max.min(LOG_CHUNK_BYTES_MAX);
        let message = ToWorker::GetLogs {
            association: seat.association(self.term),
            request,
            query,
        };
        cx.send(address(worker, seat), message);
        self.logs.0.insert(request, worker.clone());
        self.timers.arm(
            Timer::Logs(request),
            cx.now.mono + cx.config.timeouts.reply_wait,
        );
    }

    pub(super) fn logs_answered(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        request: RequestId,
        found: LogAnswer,
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        if self.logs.0.get(&request) != Some(&name) {
            cx.notice("logs-late");
            return;
        }
        self.logs.0.remove(&request);
        self.timers.disarm(&Timer::Logs(request));
        answer(cx, request, found);
    }

    pub(super) fn logs_overdue(&mut self, cx: &mut Cx<'_>, request: RequestId) {
        if let Some(name) = self.logs.0.remove(&request) {
            let why = format!("worker {name} did not answer in time; try again");
            answer(cx, request, unavailable(&why));
        }
    }
}

fn answer(cx: &mut Cx<'_>, request: RequestId, answer: LogAnswer) {
    cx.leader.logs_read(request, answer);
}

fn unavailable(why: &str) -> LogAnswer {
    LogAnswer::Unavailable(why.to_owned())
}
