//! The context of one input: configuration, time, the leader's state, and the step in the making.

use std::sync::Arc;

use baton_model::fact::{CopyEvidence, Fact, Holder};
use baton_model::fleet::FleetCall;
use baton_model::ids::{Epoch, LeaseId, RequestId, RunId, TaskNo, WorkerName};
use baton_model::library::Execution;
use baton_model::measurement::{MeasuredEnd, TaskPath};
use baton_model::message::{LogAnswer, ProcessAnswer, ToWorker, WorkerAddress};
use baton_model::outcome::{AttemptEnd, Report};
use baton_model::placement::Offer;
use baton_model::principal::Principal;
use baton_model::progress::Progress;
use baton_model::spec::{Due, InstanceSpec};
use baton_model::state::UniversalState;
use baton_model::time::{Mono, Now};

use super::alarms::Alarms;
use super::attempts;
use super::bullpen::Bullpen;
use super::command::Reply;
use super::dependencies::Dependencies;
use super::tallies::Tallies;
use crate::config::Config;
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::placement::Availability;
use crate::protocol::scheduler::context::{Cx as ProtocolCx, Leader, SecretGrant};
use crate::step::Step;

/// Effects of the scheduler, released once its facts are durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A message for a worker.
    Send(WorkerAddress, ToWorker),
    /// The secrets of an attempt, for its worker; their values are not known here.
    GrantSecrets(SecretGrant),
    /// The reply to a command.
    Reply(RequestId, Reply),
    /// A call of a fleet's backend; its answer comes back as
    /// [`Input::FleetAnswered`](super::Input::FleetAnswered).
    Fleet(FleetCall),
    /// A worker has obeyed a leader of this epoch, which this leader has not succeeded. A leader
    /// with a store renews its lease at once to learn the truth; if the store confirms that it
    /// still leads, the worker has obeyed the leader of another store or, by the evidence, of
    /// another copy of this one: then it takes an epoch above that one, and the next leader begins
    /// with [`Input::CopyOpened`](super::Input::CopyOpened) if there is evidence. A leader
    /// without a store starts again above it.
    EpochOvertaken(Epoch, Option<CopyEvidence>),
}

/// An instance or a run of a library entry that is DONE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Success {
    pub(crate) execution: Execution,
    pub(crate) entry: TaskNo,
    /// Its due time, if a schedule launched it.
    pub(crate) due: Option<Due>,
}

/// The context of one input.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) epoch: Epoch,
    pub(crate) config: &'a Config,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) bullpen: &'a mut Bullpen,
    pub(crate) dependencies: &'a mut Dependencies,
    pub(crate) alarms: &'a mut Alarms,
    pub(crate) tallies: &'a mut Tallies,
    pub(crate) step: &'a mut Step<Fact, Effect>,
    /// The client that has asked for what is being decided, if it is known.
    pub(crate) by: Option<Arc<Principal>>,
    pub(crate) counts: &'a mut Counts,
    /// Instances and runs of library entries that this input has made DONE.
    pub(crate) done: &'a mut Vec<Success>,
    /// Instances and runs that this input has replaced, still to be stopped.
    pub(crate) stops: &'a mut Vec<Execution>,
}

impl Cx<'_> {
    /// Records a fact and applies it to the ledger.
    ///
    /// # Panics
    /// If the ledger refuses the fact: every handler has checked before.
    pub(crate) fn commit(&mut self, fact: Fact) {
        let applied = self.ledger.apply(&fact);
        seeded! { let applied = crate::bugs::scheduler::tolerate(self.config.bugs, applied); }
        if let Err(error) = applied {
            panic!("the ledger refuses {fact}: {error}");
        }
        seeded! { crate::bugs::scheduler::count_retry(self.config.bugs, self.ledger, &fact); }
        self.dependencies.observe(self.ledger, &fact);
        let is_unfollowed =
            matches!(fact, Fact::InstancesHalted { .. }) && seeded!(self.config.bugs, AlarmKept);
        if !is_unfollowed {
            self.alarms.observe(self.ledger, &fact, self.now);
        }
        self.tallies.observe(self.ledger, &fact);
        if let Fact::RunEnded {
            run,
            state: UniversalState::Done,
            ..
        } = &fact
        {
            self.record_run(*run);
        }
        self.step.record_by(fact, self.by.as_ref());
    }

    /// Takes in how long a run has taken.
    fn record_run(&mut self, run: RunId) {
        if let Some(head) = self.ledger.runs().head(run) {
            let path = TaskPath::of_runs(&head.owner, &head.name);
            let elapsed = self.now.wall.since(head.begun);
            let times = self.ledger.run_times_mut();
            times.record(&path, elapsed, MeasuredEnd::Done);
        }
    }

    /// Decides what no client has asked for, although a command is being carried out.
    pub(crate) fn unrequested(&mut self, decide: impl FnOnce(&mut Self)) {
        let by = self.by.take();
        decide(self);
        self.by = by;
    }

    /// The same, for the protocol.
    pub(crate) fn protocol(&mut self) -> ProtocolCx<'_> {
        ProtocolCx {
            now: self.now,
            epoch: self.epoch,
            config: self.config,
            leader: self,
        }
    }
}

impl Leader for Cx<'_> {
    fn ledger(&self) -> &Ledger {
        self.ledger
    }

    fn counts(&mut self) -> &mut Counts {
        self.counts
    }

    fn commit(&mut self, fact: Fact) {
        Cx::commit(self, fact);
    }

    fn send(&mut self, to: WorkerAddress, message: ToWorker) {
        self.step.emit(Effect::Send(to, message));
    }

    fn grant_secrets(&mut self, grant: SecretGrant) {
        self.step.emit(Effect::GrantSecrets(grant));
    }

    #[cfg(feature = "seeded-bugs")]
    fn leak(&mut self, to: WorkerAddress, message: ToWorker) {
        self.step.leak(Effect::Send(to, message));
    }

    #[cfg(feature = "seeded-bugs")]
    fn free(&mut self, lease: LeaseId) {
        if let Some(open) = self.ledger.open_lease(lease) {
            let worker = open.holder.worker.clone();
            self.bullpen.released(&worker, lease.attempt.instance, None);
        }
    }

    fn fence(&mut self) {
        self.step.fence();
    }

    fn epoch_overtaken(&mut self, epoch: Epoch, evidence: Option<CopyEvidence>) {
        self.step.emit(Effect::EpochOvertaken(epoch, evidence));
    }

    fn logs_read(&mut self, request: RequestId, answer: LogAnswer) {
        self.step.emit(Effect::Reply(request, Reply::Logs(answer)));
    }

    fn processes_read(&mut self, request: RequestId, answer: ProcessAnswer) {
        let reply = Reply::Processes(answer);
        self.step.emit(Effect::Reply(request, reply));
    }

    fn close(
        &mut self,
        lease: LeaseId,
        end: AttemptEnd,
        report: Option<&Report>,
        progress: Option<Progress>,
    ) {
        attempts::close(self, lease, end, report, progress);
    }

    fn adopt(&mut self, lease: LeaseId, holder: Holder, spec: Arc<InstanceSpec>) {
        attempts::adopt(self, lease, holder, spec);
    }

    fn offer(
        &mut self,
        worker: &WorkerName,
        offer: &Offer,
        availability: Availability,
        ends_at: Option<Mono>,
    ) {
        self.bullpen.offer(worker, offer, availability, ends_at);
    }

    fn left(&mut self, worker: &WorkerName) {
        self.bullpen.left(worker);
    }
}
