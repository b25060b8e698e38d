//! Notifications: which committed facts deserve a notice, and who gets it.
//!
//! A [`Notifier`] takes every fact in the order of the store, and the stored context that
//! [`Notifier::need`] asks for. It knows which arrays and runs are open, who has failed how often in
//! a row, and how many notices each channel got in the current minute. All of that is rows of text,
//! which the driver stores in one transaction with the new notices and the position that it has
//! reached. So the next leader continues exactly there: a notice is made once, whenever leaders change.
//!
//! ```text
//!   page of facts ──▶ need ──▶ context ──▶ handle ──▶ take ──▶ rows + notices + position
//!                                                              (one transaction)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `state` | open arrays and runs, failures in a row, and their rows |
//! | `routing` | who gets a notice |
//! | `executions` | instances, arrays and runs |
//! | `alarms` | what is late, slow, short or stuck |
//! | `resources` | workers, fleets and the store |
//! | `rate` | the limit of each channel, and its digests |
//!
//! The calling contract: for each fact `need`, then `handle`; after a page `passed`; then `take`, whose
//! result is stored completely or not at all. After a failure to store it the machine is dropped, and
//! restored from what is stored.

mod alarms;
mod executions;
mod rate;
mod resources;
mod routing;
mod state;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::conditions::Subject;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, InstanceId, RunId, TaskNo};
use baton_model::library::{Cause, TaskName};
use baton_model::notify::{Notice, NoticeKind, NotifyRule};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;

pub use routing::Rules;

use state::{About, State};

/// Open arrays: each is a row, and a fact looks for its own among them.
pub const GROUPS_MAX: usize = 10_000;
/// Ended arrays that are known, because something of them may be retried.
pub const GROUPS_ENDED_MAX: usize = 1_000;
/// Works that are failing: of more the one that failed first is forgotten.
pub const SERIES_MAX: usize = 10_000;
/// Failures that a notice names.
pub const EXAMPLES_MAX: usize = 5;
/// Characters of standard error in a notice.
pub const STDERR_CHARS_MAX: usize = 2_000;
/// Characters of a reason.
pub const REASON_CHARS_MAX: usize = 500;

/// A fact as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    pub seq: u64,
    pub at: Wall,
    /// The leader that has recorded it: with the number it is unique, also among copies of a store.
    pub epoch: Epoch,
    pub fact: &'a Fact,
}

/// What the machine must know of the store to handle a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    Instance(InstanceId),
    Run(RunId),
    Entry(TaskNo),
}

/// The answer to a [`Need`]; nothing, too, if it was pruned.
#[derive(Clone, Debug)]
pub enum Context {
    Nothing,
    Instance(Arc<InstanceSpec>),
    Run(RunContext),
    Entry {
        name: TaskName,
        rule: Option<NotifyRule>,
    },
}

/// What is known of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunContext {
    pub name: String,
    pub owner: String,
    /// Its library entry.
    pub origin: Option<TaskNo>,
    pub rule: Option<NotifyRule>,
    /// Its items, if they are counted.
    pub items: Option<u64>,
}

/// A notice, and who gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    pub notice: Notice,
    pub recipients: BTreeMap<String, Recipient>,
}

/// What happens to a notice for one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// It is delivered.
    Deliver,
    /// It is part of a later digest.
    Digest,
    /// There is no such channel.
    Unknown,
}

/// The rows and notices of some facts, for one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changed rows; none for those that are gone.
    pub rows: BTreeMap<String, Option<String>>,
    pub notices: Vec<Raised>,
}

impl Changes {
    /// True if nothing has changed: then a position need not be stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.notices.is_empty()
    }
}

/// Decides which facts deserve a notice.
#[derive(Clone, Debug)]
pub struct Notifier {
    rules: Rules,
    state: State,
    raised: Vec<Raised>,
    /// The last fact that was handled, or known to need no handling.
    seq: u64,
    /// The leader that has recorded the last one.
    epoch: Epoch,
}

impl Notifier {
    /// Continues from stored rows. Rows of another version of Baton are ignored.
    #[must_use]
    pub fn restore(rules: Rules, rows: &BTreeMap<String, String>, seq: u64) -> Self {
        Self {
            rules,
            state: State::restore(rows),
            raised: Vec::new(),
            seq,
            epoch: Epoch(0),
        }
    }

    /// What must be read before [`Notifier::handle`].
    #[must_use]
    pub fn need(&self, fact: &Fact) -> Need {
        match fact {
            Fact::AttemptEnded { lease, verdict, .. } => {
                let id = lease.attempt.instance;
                let of_array = self.state.group_of(id).is_some();
                match verdict {
                    Verdict::GaveUp if !of_array => Need::Instance(id),
                    // A success matters after a failure only.
                    Verdict::Done if !of_array && self.state.has_series() => Need::Instance(id),
                    _ => Need::Nothing,
                }
            }
            Fact::RunEnded { run, .. } => Need::Run(*run),
            Fact::AlarmRaised(alarm) => match alarm.subject {
                Subject::Run(run) => Need::Run(run),
                Subject::Instances { first, .. } => Need::Instance(first),
            },
            Fact::Launched {
                entry,
                cause: Cause::Due { .. },
                verdict,
                ..
            } if executions::is_missed(*verdict).is_some() => Need::Entry(*entry),
            _ => Need::Nothing,
        }
    }

    /// The open arrays that a fact changes in a way that only the store can tell. Before it is handled,
    /// the driver counts their live instances and calls [`Notifier::anchor`] for each.
    #[must_use]
    pub fn uncertain(&self, fact: &Fact) -> Vec<(InstanceId, InstanceId)> {
        match fact {
            Fact::InstancesHalted { first, last, .. } => self.state.open_within(*first, *last),
            _ => Vec::new(),
        }
    }

    /// All open arrays, for [`Notifier::anchor`] after facts were pruned that were not handled.
    #[must_use]
    pub fn open_arrays(&self) -> Vec<(InstanceId, InstanceId)> {
        self.state.open_within(InstanceId(0), InstanceId(u64::MAX))
    }

    /// Sets how many instances of an open array had not ended when the fact `counted_to` was the last.
    pub fn anchor(&mut self, first: InstanceId, live: u64, counted_to: u64) {
        self.state.anchor(first, live, counted_to);
    }

    /// Handles the next fact.
    pub fn handle(&mut self, seen: Observation<'_>, context: &Context) {
        self.epoch = seen.epoch;
        match seen.fact {
            Fact::InstancesSubmitted { first, last, spec } => {
                self.submitted(seen.seq, *first, *last, spec);
            }
            Fact::AttemptEnded {
                lease,
                end,
                verdict,
                stderr_tail,
                ..
            } => self.attempt_ended(
                seen,
                context,
                lease.attempt.instance,
                *verdict,
                &executions::Failure {
                    reason: end.to_string(),
                    stderr: stderr_tail.as_deref(),
                },
            ),
            Fact::InstanceRetried { instance } => self.state.retried(*instance, seen.seq),
            Fact::RunResumed { run, .. } => {
                self.state.forget_run(*run);
            }
            Fact::RunEnded { run, state, .. } => self.run_ended(seen, context, *run, *state),
            Fact::Launched {
                entry,
                cause: Cause::Due { first, last, count },
                verdict,
                ..
            } => self.due(seen, context, *entry, (*first, *last, *count), *verdict),
            Fact::AlarmRaised(alarm) => self.alarm(seen, context, alarm),
            fact => self.resource(seen, fact),
        }
        self.passed(seen.seq, seen.at);
    }

    /// Notes that there is no further fact up to this one.
    pub fn passed(&mut self, seq: u64, at: Wall) {
        self.seq = self.seq.max(seq);
        for first in self.state.settled(self.seq) {
            self.close(first, at);
        }
    }

    /// When [`Notifier::tick`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        rate::next_due(&self.state)
    }

    /// Sends the digests that are due.
    pub fn tick(&mut self, now: Wall) {
        self.flush_due(now);
    }

    /// The changes since the last call.
    pub fn take(&mut self) -> Changes {
        Changes {
            rows: self.state.take_rows(),
            notices: std::mem::take(&mut self.raised),
        }
    }

    /// Raises a notice for whom it concerns.
    fn raise(&mut self, notice: Notice, about: &About, failures: u32) {
        let wanted = self.rules.recipients(notice.kind, about, failures);
        self.raise_for(notice, wanted);
    }

    fn raise_for(&mut self, mut notice: Notice, wanted: BTreeSet<String>) {
        if wanted.is_empty() {
            return;
        }
        notice.title = text::cut(&notice.title, REASON_CHARS_MAX);
        notice.reason = notice.reason.map(|it| text::cut(&it, REASON_CHARS_MAX));
        let mut recipients = BTreeMap::new();
        for channel in wanted {
            let recipient = self.admit(&channel, &notice);
            recipients.insert(channel, recipient);
        }
        self.raised.push(Raised { notice, recipients });
    }
}

/// The key of a notice about a fact.
fn key(kind: NoticeKind, subject: &str, seq: u64, epoch: Epoch) -> String {
    format!("{kind}-{subject}-{epoch}-{seq}")
}
