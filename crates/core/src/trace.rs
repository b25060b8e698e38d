//! Traces: the ids of spans, and which traces are recorded.
//!
//! ```text
//!   (the submitter's span)
//!     └─ run, one span for each generation          └─ instance, one span for each round
//!          └─ instance of an item                        ├─ wait for attempt 1
//!               ├─ wait …                                ├─ attempt 1   ◀── TRACEPARENT of its processes
//!               └─ attempt …                             ├─ wait for attempt 2 …
//! ```
//!
//! Every id follows from the identity of the store and the ids of the work. So the leader that launches an
//! attempt, the exporter that sends its span, and their successors name the same span without storing
//! anything; a span that is sent twice is the same span.

use baton_model::ids::{AttemptId, AttemptNo, Generation, InstanceId, LeaseId, RunId, StoreId};
use baton_model::spec::InstanceSpec;
use baton_model::trace::{SpanId, TraceContext, TraceId};
use baton_model::worker_set::mix;

/// Part of the traces that begin here and are recorded, decided by their ids. Traces that a submitter has
/// begun are recorded if the submitter records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Traces in a million, at most [`Self::WHOLE`].
    per_million: u32,
}

impl Sampling {
    const WHOLE: u32 = 1_000_000;
    /// Random bits of a trace id that decide, as other tracers choose them.
    const BITS: u32 = 56;

    /// Every trace is recorded.
    pub const ALL: Self = Self {
        per_million: Self::WHOLE,
    };

    /// So many of a million traces.
    #[must_use]
    pub const fn per_million(count: u32) -> Self {
        let per_million = if count > Self::WHOLE {
            Self::WHOLE
        } else {
            count
        };
        Self { per_million }
    }

    /// Whether this trace is recorded.
    #[must_use]
    pub const fn records(self, trace: TraceId) -> bool {
        let random = trace.0 & ((1 << Self::BITS) - 1);
        let refused = (Self::WHOLE - self.per_million) as u128;
        random * Self::WHOLE as u128 >= refused << Self::BITS
    }
}

/// The trace of a run or an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trace {
    pub id: TraceId,
    /// The span of which that of the run or the instance is a child.
    pub parent: Option<SpanId>,
    pub sampled: bool,
    store: StoreId,
}

/// Kinds of what ids are derived for.
#[derive(Clone, Copy)]
enum Kind {
    InstanceTrace = 1,
    RunTrace = 2,
    Instance = 3,
    Run = 4,
    RunWait = 5,
    Wait = 6,
    Attempt = 7,
}

impl Trace {
    /// The trace of an instance: that of its submitter, else that of its run, else its own.
    #[must_use]
    pub fn of(
        store: StoreId,
        instance: InstanceId,
        spec: &InstanceSpec,
        sampling: Sampling,
    ) -> Self {
        let Some(part) = spec.part else {
            let own = || trace_id(store, Kind::InstanceTrace, instance.0);
            return Self::new(store, spec.trace, sampling, own);
        };
        let of_run = Self::of_run(store, part.run, spec.trace, sampling);
        Self {
            parent: Some(of_run.run_span(part.run, part.generation)),
            ..of_run
        }
    }

    /// The trace of a run: that of its submitter, else its own.
    #[must_use]
    pub fn of_run(
        store: StoreId,
        run: RunId,
        submitter: Option<TraceContext>,
        sampling: Sampling,
    ) -> Self {
        let own = || trace_id(store, Kind::RunTrace, run.0);
        Self::new(store, submitter, sampling, own)
    }

    fn new(
        store: StoreId,
        submitter: Option<TraceContext>,
        sampling: Sampling,
        own: impl FnOnce() -> TraceId,
    ) -> Self {
        match submitter {
            Some(context) => Self {
                id: context.trace,
                parent: Some(context.span),
                sampled: context.sampled,
                store,
            },
            None => {
                let id = own();
                Self {
                    id,
                    parent: None,
                    sampled: sampling.records(id),
                    store,
                }
            }
        }
    }

    /// The span of an attempt, as its processes get it.
    #[must_use]
    pub fn attempt(&self, lease: LeaseId) -> TraceContext {
        TraceContext {
            trace: self.id,
            span: self.attempt_span(lease),
            sampled: self.sampled,
        }
    }

    /// The span of an attempt. The epoch tells two attempts apart that have one number without a store.
    #[must_use]
    pub fn attempt_span(&self, lease: LeaseId) -> SpanId {
        let AttemptId { instance, number } = lease.attempt;
        let words = [instance.0, number.0.into(), lease.epoch.0];
        self.span(Kind::Attempt, words)
    }

    /// The span of the wait for an attempt.
    #[must_use]
    pub fn wait_span(&self, instance: InstanceId, attempt: AttemptNo) -> SpanId {
        self.span(Kind::Wait, [instance.0, attempt.0.into(), 0])
    }

    /// The span of an instance, from its submission or from its retry with this number to its end.
    #[must_use]
    pub fn instance_span(&self, instance: InstanceId, round: u32) -> SpanId {
        self.span(Kind::Instance, [instance.0, round.into(), 0])
    }

    /// The span of a generation of a run.
    #[must_use]
    pub fn run_span(&self, run: RunId, generation: Generation) -> SpanId {
        self.span(Kind::Run, [run.0, generation.0.into(), 0])
    }

    /// The span of a run's wait for its turn.
    #[must_use]
    pub fn run_wait_span(&self, run: RunId) -> SpanId {
        self.span(Kind::RunWait, [run.0, 0, 0])
    }

    fn span(&self, kind: Kind, [first, second, third]: [u64; 3]) -> SpanId {
        // 0 is no id.
        SpanId(digest([kind as u64, self.store.0, first, second, third]).max(1))
    }
}

fn trace_id(store: StoreId, kind: Kind, id: u64) -> TraceId {
    let half = |lane: u64| digest([lane, kind as u64, store.0, id]);
    let id = u128::from(half(1)) << 64 | u128::from(half(2));
    TraceId(id.max(1))
}

/// A number that two different lists of one length hardly ever share, and never if only their last word
/// differs.
fn digest<const N: usize>(words: [u64; N]) -> u64 {
    words.into_iter().fold(0, |sum, word| mix(sum ^ word))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use baton_model::ids::Epoch;
    use baton_model::workflow::Part;

    use super::*;

    const STORE: StoreId = StoreId(7);

    fn lease(instance: u64, number: u32, epoch: u64) -> LeaseId {
        let attempt = AttemptId {
            instance: InstanceId(instance),
            number: AttemptNo(number),
        };
        LeaseId {
            attempt,
            epoch: Epoch(epoch),
        }
    }

    fn context(text: &str) -> Option<TraceContext> {
        Some(text.parse().expect("valid"))
    }

    #[test]
    fn ids_follow_from_the_store_and_differ_otherwise() {
        let spec = InstanceSpec::default();
        let of = |store, id| Trace::of(StoreId(store), InstanceId(id), &spec, Sampling::ALL);
        assert_eq!(of(7, 1), of(7, 1));
        let traces: BTreeSet<TraceId> = (0..1_000).map(|id| of(id % 10, id / 10).id).collect();
        assert_eq!(traces.len(), 1_000);
        let trace = of(7, 1);
        let mut spans = BTreeSet::new();
        for id in 0..100 {
            let instance = InstanceId(id);
            spans.insert(trace.instance_span(instance, 0));
            spans.insert(trace.instance_span(instance, 1));
            spans.insert(trace.wait_span(instance, AttemptNo(1)));
            spans.insert(trace.attempt_span(lease(id, 1, 1)));
            spans.insert(trace.attempt_span(lease(id, 2, 1)));
            spans.insert(trace.attempt_span(lease(id, 1, 2)));
            spans.insert(trace.run_span(RunId(id), Generation(1)));
            spans.insert(trace.run_wait_span(RunId(id)));
        }
        assert_eq!(spans.len(), 800);
    }

    #[test]
    fn an_item_is_a_child_of_the_generation_that_runs_it() {
        let part = Part {
            run: RunId(3),
            generation: Generation(2),
            task: 0,
            item: 5,
        };
        let mut spec = InstanceSpec {
            part: Some(part),
            ..InstanceSpec::default()
        };
        let run = Trace::of_run(STORE, RunId(3), None, Sampling::ALL);
        let item = Trace::of(STORE, InstanceId(9), &spec, Sampling::ALL);
        assert_eq!((item.id, run.parent), (run.id, None));
        assert_eq!(item.parent, Some(run.run_span(RunId(3), Generation(2))));
        // Also in the trace of its submitter.
        spec.trace = context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let item = Trace::of(STORE, InstanceId(9), &spec, Sampling::ALL);
        assert_eq!(Some(item.id), spec.trace.map(|it| it.trace));
        assert_eq!(item.parent, Some(run.run_span(RunId(3), Generation(2))));
        assert!(!item.sampled);
    }

    #[test]
    fn the_submitter_decides_whether_its_trace_is_recorded() {
        let none = Sampling::per_million(0);
        for (text, sampled) in [
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                true,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                false,
            ),
        ] {
            let spec = InstanceSpec {
                trace: context(text),
                ..InstanceSpec::default()
            };
            let trace = Trace::of(STORE, InstanceId(1), &spec, none);
            assert_eq!(trace.sampled, sampled);
            assert_eq!(trace.parent, Some(SpanId(0x00f0_67aa_0ba9_02b7)));
            assert_eq!(trace.attempt(lease(1, 1, 1)).sampled, sampled);
        }
    }

    #[test]
    fn a_ratio_records_so_many_traces() {
        let spec = InstanceSpec::default();
        let recorded = |per_million| {
            let sampling = Sampling::per_million(per_million);
            let ids = (0..10_000).map(InstanceId);
            ids.filter(|id| Trace::of(STORE, *id, &spec, sampling).sampled)
                .count()
        };
        assert_eq!((recorded(0), recorded(1_000_000)), (0, 10_000));
        let quarter = recorded(250_000);
        assert!((2_300..2_700).contains(&quarter), "{quarter}");
        assert!(!Sampling::per_million(0).records(TraceId(u128::MAX)));
    }
}
