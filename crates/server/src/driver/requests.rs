//! Requests of clients to the leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::Range;
use baton_core::protocol::scheduler::seat::Seat;
use baton_core::scheduler::{Input, SubmitError};
use baton_model::api::{Links, Worker};
use baton_model::ids::{InstanceId, Lineage, RequestId, WorkerName};
use baton_model::spec::{Array, InstanceSpec};
use baton_model::state::UniversalState;
use baton_model::time::Mono;

use super::event::{LeaderRequest, LiveItems, LiveQuery, Reply, StoreFailed};
use super::pending::PendingReply;
use super::{Driver, Leading, State};
use crate::clock;
use crate::limits::LIVE_ITEMS_SCANNED_MAX;

impl Driver {
    pub(super) fn request(&mut self, request: LeaderRequest) {
        match &self.state {
            State::Failed(failed) => {
                let why = failed.reason();
                self.reject(request, why);
            }
            State::Leading(_) => self.dispatch(request),
        }
    }

    fn dispatch(&mut self, command: LeaderRequest) {
        let request = self.last_request.next();
        self.last_request = request;
        match command {
            LeaderRequest::Submit { spec, array, reply } => {
                self.submit(request, *spec, array, reply)
            }
            LeaderRequest::Cancel { first, last, reply } => {
                self.pending.add(request, PendingReply::Cancel(reply));
                self.input(Input::Cancel {
                    request,
                    first,
                    last,
                });
            }
            LeaderRequest::Retry { instance, reply } => {
                self.pending.add(request, PendingReply::Retry(reply));
                self.input(Input::Retry { request, instance });
            }
            LeaderRequest::Drain {
                worker,
                drained,
                reply,
            } => {
                self.pending.add(request, PendingReply::Drain(reply));
                self.input(Input::Drain {
                    request,
                    worker,
                    drained,
                });
            }
            LeaderRequest::Forget { worker, reply } => self.forget(request, worker, reply),
            LeaderRequest::Define { command, reply } => {
                self.pending.add(request, PendingReply::Define(reply));
                self.input(Input::Define { request, command });
            }
            LeaderRequest::Remove { command, reply } => {
                self.pending.add(request, PendingReply::Remove(reply));
                self.input(Input::Remove { request, command });
            }
            LeaderRequest::Trigger { command, reply } => {
                self.pending.add(request, PendingReply::Trigger(reply));
                self.input(Input::Trigger { request, command });
            }
            LeaderRequest::Run { command, reply } => {
                self.pending.add(request, PendingReply::Run(reply));
                self.input(Input::Run { request, command });
            }
            LeaderRequest::Logs {
                worker,
                query,
                reply,
            } => {
                self.pending.add(request, PendingReply::Logs(reply));
                self.input(Input::ReadLogs {
                    request,
                    worker,
                    query,
                });
            }
            LeaderRequest::RunLive { query, reply } => self.live(request, &query, reply),
            LeaderRequest::Explain { .. }
            | LeaderRequest::Workers { .. }
            | LeaderRequest::Watch { .. }
            | LeaderRequest::RunView { .. }
            | LeaderRequest::RunValues { .. } => self.query(command),
        }
    }

    /// Answers requests that change nothing. The client may be gone.
    fn query(&mut self, request: LeaderRequest) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        match request {
            LeaderRequest::Explain { id, reply } => {
                let _ = reply.send(Ok(leading.core.explain(id, clock::now())));
            }
            LeaderRequest::Workers { name, reply } => {
                let _ = reply.send(Ok(leading.workers(name.as_ref())));
            }
            LeaderRequest::RunView {
                run,
                from,
                limit,
                reply,
            } => {
                let view = leading.core.run_view(run, from, limit, clock::now());
                let _ = reply.send(Ok(view));
            }
            LeaderRequest::RunValues { run, places, reply } => {
                let values = leading.core.ledger().runs().run(run).map(|run| {
                    let of = |(task, item)| run.progress.value(&run.dag, task, item);
                    places.into_iter().map(of).collect()
                });
                let _ = reply.send(Ok(values));
            }
            LeaderRequest::Watch { first, last, reply } => {
                let ledger = leading.core.ledger();
                self.watch.add(Some(ledger), (first, last), reply);
            }
            _ => {}
        }
    }

    fn live(&mut self, request: RequestId, query: &LiveQuery, reply: Reply<LiveItems>) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let live = leading.live(query);
        self.pending.add(request, PendingReply::Live(live, reply));
        self.input(Input::Sync { request });
    }

    fn submit(
        &mut self,
        request: RequestId,
        mut spec: InstanceSpec,
        array: Option<(u64, u64)>,
        reply: Reply<Result<(InstanceId, InstanceId), SubmitError>>,
    ) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        let first = leading.core.next_id();
        let (count, from) = array.unwrap_or((1, 0));
        let last = InstanceId(first.0 + (count.max(1) - 1));
        spec.array = array.map(|_| Array { first, from });
        let awaited = PendingReply::Submit { first, last, reply };
        self.pending.add(request, awaited);
        let spec = Arc::new(spec);
        let ranges = vec![Range { first, last, spec }];
        self.input(Input::Submit { request, ranges });
    }

    fn forget(&mut self, request: RequestId, worker: WorkerName, reply: Reply<bool>) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let Some(lineage) = leading.lineage(&worker) else {
            let _ = reply.send(Ok(false));
            return;
        };
        self.input(Input::Forget(lineage));
        self.pending.add(request, PendingReply::Forget(reply));
        self.input(Input::Sync { request });
    }

    /// Rejects a request while there is no leader; only watches wait for the next one.
    fn reject(&mut self, request: LeaderRequest, why: StoreFailed) {
        match request {
            LeaderRequest::Submit { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Cancel { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Retry { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Drain { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Forget { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Define { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Remove { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Trigger { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Run { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::RunView { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::RunLive { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::RunValues { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Logs { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Explain { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Workers { reply, .. } => drop(reply.send(Err(why))),
            LeaderRequest::Watch { first, last, reply } => {
                self.watch.add(None, (first, last), reply)
            }
        }
    }
}

impl Leading {
    /// Items of a run in flight. Scans a bounded number of them: a run has up to 200,000, and all
    /// other clients wait meanwhile.
    fn live(&self, query: &LiveQuery) -> LiveItems {
        let before = query.task.and_then(|task| task.checked_sub(1));
        let after = query.after.max(before.map(|task| (task, u32::MAX)));
        let live = self.core.run_live(query.run, after);
        let live = live.take_while(|(task, ..)| query.task.is_none_or(|wanted| wanted == *task));
        let state = |id| {
            let instance = self.core.ledger().instance(id);
            instance.map_or(UniversalState::Queued, |instance| instance.state)
        };
        let (mut found, mut last) = (LiveItems::default(), None);
        for (scanned, (task, item, id)) in live.enumerate() {
            if scanned >= LIVE_ITEMS_SCANNED_MAX || found.items.len() >= query.limit {
                found.next = last;
                break;
            }
            last = Some((task, item));
            if query.state.is_none_or(|wanted| wanted == state(id)) {
                found.items.push((task, item, id));
            }
        }
        found
    }

    /// The lineage of a worker, also of one that only has open leases left.
    fn lineage(&self, worker: &WorkerName) -> Option<Lineage> {
        let seated = self.core.seats().get(worker).map(|seat| &seat.holder);
        let mut leases = self.core.ledger().open_leases().map(|lease| &lease.holder);
        let holder = seated.or_else(|| leases.find(|holder| holder.worker == *worker))?;
        Some(holder.incarnation.lineage)
    }

    fn workers(&self, name: Option<&WorkerName>) -> Vec<Worker> {
        let now = clock::now().mono;
        let drained = self.core.ledger().drained();
        let seats = self.core.seats().iter();
        let wanted = seats.filter(|(seat, _)| name.is_none_or(|name| name == *seat));
        wanted
            .map(|(name, seat)| worker(name, seat, drained.contains(name), now))
            .collect()
    }
}

/// A worker as a type of the API; the HTTP layer adds the links.
fn worker(name: &WorkerName, seat: &Seat, drained: bool, now: Mono) -> Worker {
    let offer = &seat.offer;
    let labels: BTreeMap<String, String> = offer.labels.clone();
    Worker {
        name: name.to_string(),
        state: seat.state,
        drained,
        lineage: seat.holder.incarnation.lineage.to_string(),
        life: seat.holder.incarnation.number.0,
        attempts: seat.load(),
        slots: seat.slots,
        capacity: offer.capacity.clone(),
        labels,
        heard_seconds: now.since(seat.heard()).0 as f64 / 1_000.0,
        links: Links::new(),
    }
}
