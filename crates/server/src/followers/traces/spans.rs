//! The spans of an instance or a run, from its history.

use baton_core::ledger::RunHead;
use baton_core::trace::{Sampling, Trace};
use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::{AttemptNo, Generation, InstanceId, LeaseId, RunId, StoreId};
use baton_model::outcome::{AttemptEnd, AttemptStats, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::trace::{SpanId, TraceContext, TraceId};
use baton_store::view::{RecordedFact, Seq};

use crate::limits::TRACE_TEXT_CHARS_MAX;

/// A finished piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    pub(super) start: Wall,
    pub(super) end: Wall,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// The reason of a failure.
    pub(super) error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(String),
    Number(i64),
}

/// The store, and the sampling: ids and the choice of spans follow from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    pub(super) store: StoreId,
    pub(super) sampling: Sampling,
}

/// An attempt that has not ended.
struct OpenAttempt<'a> {
    lease: LeaseId,
    holder: &'a Holder,
    at: Wall,
}

/// The spans of one round of an instance, while its history is read.
struct Round<'a> {
    id: InstanceId,
    spec: &'a InstanceSpec,
    trace: Trace,
    /// The number of retries by clients before it.
    number: u32,
    start: Wall,
    waiting_since: Option<Wall>,
    next_attempt: AttemptNo,
    begun: Option<OpenAttempt<'a>>,
    spans: Vec<Span>,
}

/// The spans of the round of an instance that ends with the fact `until`, the instance's last; none if the
/// trace is not recorded, or its history does not begin with its submission.
pub(super) fn of_instance(
    basis: Basis,
    id: InstanceId,
    timeline: &[RecordedFact],
    until: Seq,
) -> Vec<Span> {
    let Some((spec, start)) = timeline.iter().find_map(submission) else {
        return Vec::new();
    };
    let trace = Trace::of(basis.store, id, spec, basis.sampling);
    if !trace.sampled {
        return Vec::new();
    }
    let mut round = Round {
        id,
        spec,
        trace,
        number: 0,
        start,
        waiting_since: Some(start),
        next_attempt: AttemptNo(1),
        begun: None,
        spans: Vec::new(),
    };
    for entry in timeline.iter().take_while(|entry| entry.seq <= until) {
        let ended = round.handle(entry);
        if let Some((state, error)) = ended.filter(|_| entry.seq == until) {
            round.end(entry.at, state, error);
            return round.spans;
        }
    }
    Vec::new()
}

fn submission(entry: &RecordedFact) -> Option<(&InstanceSpec, Wall)> {
    match &entry.fact {
        Fact::InstancesSubmitted { spec, .. } | Fact::AttemptAdopted { spec, .. } => {
            Some((spec, entry.at))
        }
        _ => None,
    }
}

impl<'a> Round<'a> {
    /// Handles the next fact; the state and the reason if the instance has ended.
    fn handle(&mut self, entry: &'a RecordedFact) -> Option<(UniversalState, Option<String>)> {
        let at = entry.at;
        match &entry.fact {
            Fact::LeaseGranted { lease, holder, .. } => {
                self.next_attempt = lease.attempt.number;
                self.wait_ended(at);
                self.begun = Some(OpenAttempt {
                    lease: *lease,
                    holder,
                    at,
                });
            }
            Fact::AttemptAdopted { lease, holder, .. } => {
                self.waiting_since = None;
                self.begun = Some(OpenAttempt {
                    lease: *lease,
                    holder,
                    at,
                });
            }
            Fact::AttemptEnded {
                end,
                verdict,
                stats,
                ..
            } => {
                self.attempt_ended(at, *end, *stats);
                let reason = || Some(end.to_string());
                return match verdict {
                    Verdict::Requeued => {
                        self.waiting_since = Some(at);
                        None
                    }
                    Verdict::Done => Some((UniversalState::Done, None)),
                    Verdict::GaveUp => Some((UniversalState::Failed, reason())),
                    Verdict::Stopped => Some((UniversalState::Halted, None)),
                };
            }
            Fact::InstancesHalted { .. } => {
                self.wait_ended(at);
                return Some((UniversalState::Halted, None));
            }
            Fact::InstanceRetried { .. } => {
                self.spans.clear();
                self.number += 1;
                self.start = at;
                self.waiting_since = Some(at);
            }
            _ => {}
        }
        None
    }

    /// Adds the span of a wait; its attempt may never come.
    fn wait_ended(&mut self, at: Wall) {
        let Some(start) = self.waiting_since.take() else {
            return;
        };
        let number = self.next_attempt;
        let mut span = self.child("wait", self.trace.wait_span(self.id, number), start, at);
        span.attributes.push(("baton.attempt", count(number.0)));
        self.spans.push(span);
    }

    fn attempt_ended(&mut self, at: Wall, end: AttemptEnd, stats: Option<AttemptStats>) {
        let Some(OpenAttempt {
            lease,
            holder,
            at: start,
        }) = self.begun.take()
        else {
            return;
        };
        let number = lease.attempt.number;
        self.next_attempt = AttemptNo(number.0.saturating_add(1));
        let mut span = self.child("attempt", self.trace.attempt_span(lease), start, at);
        let it = &mut span.attributes;
        it.push(("baton.attempt", count(number.0)));
        it.push(("baton.worker", text(&holder.worker.to_string())));
        if let AttemptEnd::Real(Outcome::Exited(code)) = end {
            it.push(("baton.exit_code", Attribute::Number(code.into())));
        }
        if let Some(stats) = stats {
            it.push(("baton.cpu_ms", number_of(stats.cpu.0)));
            it.push(("baton.memory_peak_bytes", number_of(stats.memory_peak)));
        }
        let is_success = matches!(end, AttemptEnd::Real(outcome) if outcome.is_success());
        span.error = (!is_success).then(|| cut(&end.to_string()));
        self.spans.push(span);
    }

    fn child(&self, name: &str, id: SpanId, start: Wall, end: Wall) -> Span {
        Span {
            trace: self.trace.id,
            id,
            parent: Some(self.trace.instance_span(self.id, self.number)),
            name: name.to_owned(),
            start,
            end: end.max(start),
            attributes: vec![
                ("baton.owner", text(&self.spec.owner)),
                ("baton.name", text(&self.spec.name)),
                ("baton.instance", text(&self.id.to_string())),
            ],
            error: None,
        }
    }

    /// Adds the span of the instance itself.
    fn end(&mut self, at: Wall, state: UniversalState, error: Option<String>) {
        let id = self.trace.instance_span(self.id, self.number);
        let name = cut(&format!("{}/{}", self.spec.owner, self.spec.name));
        let mut span = self.child(&name, id, self.start, at);
        span.parent = self.trace.parent;
        span.error = error.map(|error| cut(&error));
        let it = &mut span.attributes;
        it.push(("baton.state", text(state.word())));
        if let Some(array) = self.spec.array {
            it.push(("baton.array_index", number_of(array.index(self.id))));
        }
        if let Some(part) = self.spec.part {
            it.push(("baton.run", text(&part.run.to_string())));
            it.push(("baton.item", count(part.item)));
        }
        if self.number > 0 {
            it.push(("baton.retry", count(self.number)));
        }
        self.spans.push(span);
    }
}

/// The spans of a generation of a run that has ended: its own, and its wait for its turn.
pub(super) fn of_run(
    basis: Basis,
    head: &RunHead,
    submitter: Option<TraceContext>,
    (generation, state): (Generation, UniversalState),
    at: Wall,
) -> Vec<Span> {
    let run: RunId = head.id;
    let trace = Trace::of_run(basis.store, run, submitter, basis.sampling);
    if !trace.sampled {
        return Vec::new();
    }
    let is_first = generation == Generation(1);
    let start = if is_first { head.submitted } else { head.begun };
    let id = trace.run_span(run, generation);
    let attributes = vec![
        ("baton.owner", text(&head.owner)),
        ("baton.name", text(&head.name)),
        ("baton.run", text(&run.to_string())),
    ];
    let mut own = Span {
        trace: trace.id,
        id,
        parent: trace.parent,
        name: cut(&format!("{}/{}", head.owner, head.name)),
        // A later generation may have begun before this end was exported.
        start: start.min(at),
        end: at,
        attributes: attributes.clone(),
        error: (state == UniversalState::Failed).then(|| format!("the run is {}", state.word())),
    };
    own.attributes.push(("baton.state", text(state.word())));
    own.attributes
        .push(("baton.generation", count(generation.0)));
    // `begun` is that of the last generation.
    let has_waited = is_first && head.generation == generation && head.begun > head.submitted;
    let wait = has_waited.then(|| Span {
        trace: trace.id,
        id: trace.run_wait_span(run),
        parent: Some(id),
        name: "wait".to_owned(),
        start: head.submitted,
        end: head.begun.min(at).max(head.submitted),
        attributes,
        error: None,
    });
    wait.into_iter().chain([own]).collect()
}

fn text(text: &str) -> Attribute {
    Attribute::Text(cut(text))
}

fn count(number: u32) -> Attribute {
    Attribute::Number(number.into())
}

fn number_of(number: u64) -> Attribute {
    Attribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

fn cut(text: &str) -> String {
    text.chars().take(TRACE_TEXT_CHARS_MAX).collect()
}
