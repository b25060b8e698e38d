//! What clients want of the leader.

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

use super::mail::{Ask, LiveItems, LiveQuery, Reply, StoreFailed};
use super::pending::Awaited;
use super::{Driver, Leading, State};
use crate::clock;
use crate::limits::LIVE_LOOKED_MAX;

impl Driver {
    pub(super) fn ask(&mut self, ask: Ask) {
        match &self.state {
            State::Failed(failed) => {
                let why = failed.reason();
                self.refuse(ask, why);
            }
            State::Leading(_) => self.ask_leader(ask),
        }
    }

    fn ask_leader(&mut self, ask: Ask) {
        let request = self.last_request.next();
        self.last_request = request;
        match ask {
            Ask::Submit { spec, array, reply } => self.submit(request, *spec, array, reply),
            Ask::Cancel { first, last, reply } => {
                self.pending.add(request, Awaited::Cancel(reply));
                self.input(Input::Cancel {
                    request,
                    first,
                    last,
                });
            }
            Ask::Retry { instance, reply } => {
                self.pending.add(request, Awaited::Retry(reply));
                self.input(Input::Retry { request, instance });
            }
            Ask::Drain {
                worker,
                drained,
                reply,
            } => {
                self.pending.add(request, Awaited::Drain(reply));
                self.input(Input::Drain {
                    request,
                    worker,
                    drained,
                });
            }
            Ask::Forget { worker, reply } => self.forget(request, worker, reply),
            Ask::Define { command, reply } => {
                self.pending.add(request, Awaited::Define(reply));
                self.input(Input::Define { request, command });
            }
            Ask::Remove { command, reply } => {
                self.pending.add(request, Awaited::Remove(reply));
                self.input(Input::Remove { request, command });
            }
            Ask::Trigger { command, reply } => {
                self.pending.add(request, Awaited::Trigger(reply));
                self.input(Input::Trigger { request, command });
            }
            Ask::Run { command, reply } => {
                self.pending.add(request, Awaited::Run(reply));
                self.input(Input::Run { request, command });
            }
            Ask::Logs {
                worker,
                query,
                reply,
            } => {
                self.pending.add(request, Awaited::Logs(reply));
                self.input(Input::ReadLogs {
                    request,
                    worker,
                    query,
                });
            }
            Ask::RunLive { query, reply } => self.live(request, &query, reply),
            Ask::Explain { .. }
            | Ask::Workers { .. }
            | Ask::Watch { .. }
            | Ask::RunView { .. }
            | Ask::RunValues { .. } => self.look_up(ask),
        }
    }

    /// Questions that change nothing. Whoever has asked may be gone.
    fn look_up(&mut self, ask: Ask) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        match ask {
            Ask::Explain { id, reply } => {
                let _ = reply.send(Ok(leading.core.explain(id, clock::now())));
            }
            Ask::Workers { name, reply } => {
                let _ = reply.send(Ok(leading.workers(name.as_ref())));
            }
            Ask::RunView {
                run,
                from,
                limit,
                reply,
            } => {
                let view = leading.core.run_view(run, from, limit, clock::now());
                let _ = reply.send(Ok(view));
            }
            Ask::RunValues { run, places, reply } => {
                let values = leading.core.ledger().runs().run(run).map(|run| {
                    let of = |(task, item)| run.progress.value(&run.dag, task, item);
                    places.into_iter().map(of).collect()
                });
                let _ = reply.send(Ok(values));
            }
            Ask::Watch { first, last, reply } => {
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
        self.pending.add(request, Awaited::Live(live, reply));
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
        let awaited = Awaited::Submit { first, last, reply };
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
        self.pending.add(request, Awaited::Forget(reply));
        self.input(Input::Sync { request });
    }

    /// Without a leader nobody is answered but those who can wait for one.
    fn refuse(&mut self, ask: Ask, why: StoreFailed) {
        match ask {
            Ask::Submit { reply, .. } => drop(reply.send(Err(why))),
            Ask::Cancel { reply, .. } => drop(reply.send(Err(why))),
            Ask::Retry { reply, .. } => drop(reply.send(Err(why))),
            Ask::Drain { reply, .. } => drop(reply.send(Err(why))),
            Ask::Forget { reply, .. } => drop(reply.send(Err(why))),
            Ask::Define { reply, .. } => drop(reply.send(Err(why))),
            Ask::Remove { reply, .. } => drop(reply.send(Err(why))),
            Ask::Trigger { reply, .. } => drop(reply.send(Err(why))),
            Ask::Run { reply, .. } => drop(reply.send(Err(why))),
            Ask::RunView { reply, .. } => drop(reply.send(Err(why))),
            Ask::RunLive { reply, .. } => drop(reply.send(Err(why))),
            Ask::RunValues { reply, .. } => drop(reply.send(Err(why))),
            Ask::Logs { reply, .. } => drop(reply.send(Err(why))),
            Ask::Explain { reply, .. } => drop(reply.send(Err(why))),
            Ask::Workers { reply, .. } => drop(reply.send(Err(why))),
            Ask::Watch { first, last, reply } => self.watch.add(None, (first, last), reply),
        }
    }
}

impl Leading {
    /// What of a run is on its way. Looks at so many only: a run has up to 200,000 of them, and
    /// everybody else waits meanwhile.
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
        for (looked, (task, item, id)) in live.enumerate() {
            if looked >= LIVE_LOOKED_MAX || found.items.len() >= query.limit {
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

    /// The state directory of a worker, also of one that only has leases left.
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

/// A worker in the words of the API; whoever shows it adds the links.
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
