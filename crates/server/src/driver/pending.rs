//! Pending replies of the leader to clients.

use std::collections::HashMap;

use baton_core::scheduler::{
    CancelCounts, DefineReply, Effect, LibraryError, RetryError, RunError, SubmitError,
    TriggerError, TriggerReply,
};
use baton_model::ids::{Generation, InstanceId, RequestId, Revision, RunId};
use baton_model::message::LogAnswer;

use super::event::{LiveItems, Reply, StoreFailed};

/// Where to send the reply to a request.
pub(super) enum PendingReply {
    Submit {
        first: InstanceId,
        last: InstanceId,
        reply: Reply<Result<(InstanceId, InstanceId), SubmitError>>,
    },
    Cancel(Reply<CancelCounts>),
    Retry(Reply<Result<(), RetryError>>),
    Drain(Reply<()>),
    /// Answered when everything before it is durable.
    Forget(Reply<bool>),
    Define(Reply<Result<DefineReply, LibraryError>>),
    Remove(Reply<Result<Revision, LibraryError>>),
    Trigger(Reply<Result<TriggerReply, TriggerError>>),
    Run(Reply<Result<(RunId, Generation), RunError>>),
    /// Answered when everything before it is durable.
    Live(LiveItems, Reply<LiveItems>),
    Logs(Reply<LogAnswer>),
}

/// All pending replies, by request.
#[derive(Default)]
pub(super) struct Pending(HashMap<RequestId, PendingReply>);

impl Pending {
    pub(super) fn add(&mut self, request: RequestId, awaited: PendingReply) {
        self.0.insert(request, awaited);
    }

    /// Delivers a reply. The client may be gone, which is no error: its request has taken effect
    /// all the same.
    pub(super) fn answer(&mut self, effect: Effect) {
        let request = match &effect {
            Effect::Submitted(request)
            | Effect::SubmitRefused(request, _)
            | Effect::Cancelled(request, _)
            | Effect::Retried(request, _)
            | Effect::Drained(request)
            | Effect::Synced(request)
            | Effect::Defined(request, _)
            | Effect::Removed(request, _)
            | Effect::Triggered(request, _)
            | Effect::Run(request, _)
            | Effect::Logs(request, _) => *request,
            Effect::Send(..) | Effect::EpochOvertaken(_) => return,
        };
        match (self.0.remove(&request), effect) {
            (Some(PendingReply::Submit { first, last, reply }), Effect::Submitted(_)) => {
                let _ = reply.send(Ok(Ok((first, last))));
            }
            (Some(PendingReply::Submit { reply, .. }), Effect::SubmitRefused(_, error)) => {
                let _ = reply.send(Ok(Err(error)));
            }
            (Some(PendingReply::Cancel(reply)), Effect::Cancelled(_, cancelled)) => {
                let _ = reply.send(Ok(cancelled));
            }
            (Some(PendingReply::Retry(reply)), Effect::Retried(_, result)) => {
                let _ = reply.send(Ok(result));
            }
            (Some(PendingReply::Drain(reply)), Effect::Drained(_)) => {
                let _ = reply.send(Ok(()));
            }
            (Some(PendingReply::Forget(reply)), Effect::Synced(_)) => {
                let _ = reply.send(Ok(true));
            }
            (Some(PendingReply::Live(live, reply)), Effect::Synced(_)) => {
                let _ = reply.send(Ok(live));
            }
            (Some(PendingReply::Define(reply)), Effect::Defined(_, result)) => {
                let _ = reply.send(Ok(result));
            }
            (Some(PendingReply::Remove(reply)), Effect::Removed(_, result)) => {
                let _ = reply.send(Ok(result));
            }
            (Some(PendingReply::Trigger(reply)), Effect::Triggered(_, result)) => {
                let _ = reply.send(Ok(result));
            }
            (Some(PendingReply::Run(reply)), Effect::Run(_, result)) => {
                let _ = reply.send(Ok(result));
            }
            (Some(PendingReply::Logs(reply)), Effect::Logs(_, answer)) => {
                let _ = reply.send(Ok(answer));
            }
            (awaited, effect) => {
                debug_assert!(awaited.is_none(), "{effect:?} answers another request");
            }
        }
    }

    /// Fails all pending requests.
    pub(super) fn fail(&mut self, why: &StoreFailed) {
        for (_, awaited) in self.0.drain() {
            let why = why.clone();
            match awaited {
                PendingReply::Submit { reply, .. } => drop(reply.send(Err(why))),
                PendingReply::Cancel(reply) => drop(reply.send(Err(why))),
                PendingReply::Retry(reply) => drop(reply.send(Err(why))),
                PendingReply::Drain(reply) => drop(reply.send(Err(why))),
                PendingReply::Forget(reply) => drop(reply.send(Err(why))),
                PendingReply::Define(reply) => drop(reply.send(Err(why))),
                PendingReply::Remove(reply) => drop(reply.send(Err(why))),
                PendingReply::Trigger(reply) => drop(reply.send(Err(why))),
                PendingReply::Run(reply) => drop(reply.send(Err(why))),
                PendingReply::Live(_, reply) => drop(reply.send(Err(why))),
                PendingReply::Logs(reply) => drop(reply.send(Err(why))),
            }
        }
    }
}
