//! What one leader knows of fleets and jobs beside the facts: open calls, times, and doubts.
//!
//! The next leader begins without it. All times are of the monotonic clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_model::fleet::{FleetName, JobSighting};
use baton_model::ids::JobId;
use baton_model::time::{Millis, Mono, Wall};

use super::limits::{LOOK_EVERY, TAKEOVER_WAIT};
use super::tokens::TokenWatch;
use crate::wait::Hold;

/// The controller of all fleets, for one term.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) began: Mono,
    /// Until then workers may come back that an earlier leader had.
    pub(super) returns_until: Mono,
    pub(super) next_look: Mono,
    pub(super) fleets: BTreeMap<FleetName, FleetWatch>,
    pub(super) jobs: BTreeMap<JobId, JobWatch>,
    /// Calls for tokens so far.
    pub(super) token_calls: u64,
}

/// One fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetWatch {
    /// When the open list was called.
    pub(super) list_called: Option<Mono>,
    /// When the last list that was answered was called.
    pub(super) listed: Option<Mono>,
    /// When the last list was called, answered or not.
    pub(super) last_list: Option<Mono>,
    pub(super) list_failures: u32,
    pub(super) list_error: Option<String>,
    /// Lists go on until then, although no job is open.
    pub(super) watch_until: Mono,
    /// The open order to cancel: when it was called, and the jobs.
    pub(super) cancel_called: Option<(Mono, Vec<JobId>)>,
    pub(super) cancel_error: Option<String>,
    /// Jobs in the lists that no request owns, by native id: the name, and when it was last cancelled.
    pub(super) surplus: BTreeMap<String, Surplus>,
    /// Jobs of another generation of the store in the last list.
    pub(super) foreign: usize,
    /// When a request was last cancelled because nothing waited for it.
    pub(super) shrunk: Option<Mono>,
    /// Starts of the last hour.
    pub(super) starts: VecDeque<Mono>,
    /// The measured time from request to arrival.
    pub(super) start_cost: Option<Millis>,
    /// The last failure that was seen: how many, and when.
    pub(super) failed: Option<(u32, Mono)>,
    pub(super) wanted: Request,
    pub(super) token: TokenWatch,
}

/// What the pilots of a fleet have to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Credential {
    /// A token, which was not provided yet.
    #[default]
    Missing,
    NotNeeded,
    /// A token that is valid until then.
    Until(Wall),
}

/// A job in the lists that no request owns.
#[derive(Clone, Debug)]
pub(super) struct Surplus {
    pub(super) name: String,
    pub(super) cancelled: Option<Mono>,
}

/// The result of the last look at the demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Workers that would help, beyond those that are here or on their way.
    pub(super) workers: u32,
    /// Jobs that may be requested of them now.
    pub(super) jobs: u32,
    /// Why it is no more.
    pub(super) hold: Option<Hold>,
}

/// One job that has not ended.
#[derive(Clone, Debug)]
pub(super) struct JobWatch {
    /// When it was requested, or taken over.
    pub(super) since: Mono,
    /// It was requested by an earlier leader.
    pub(super) inherited: bool,
    pub(super) submission: Submission,
    /// Why it is not known whether it exists.
    pub(super) doubt: Option<String>,
    /// Since when lists have missed it, and how many.
    pub(super) missing: Option<(Mono, u32)>,
    /// A state that is over, and when it was shown, of a job whose pilots were heard meanwhile.
    pub(super) claim: Option<(JobSighting, Mono)>,
    pub(super) running: Option<Mono>,
    pub(super) unneeded: Option<Mono>,
    /// Since when none of its pilots has had work.
    pub(super) idle: Option<Mono>,
    pub(super) cancel_called: Option<Mono>,
    /// When the manager took the last order to cancel it.
    pub(super) cancel_taken: Option<Mono>,
    /// Pilots that have come in this term.
    pub(super) came: BTreeSet<u32>,
    pub(super) first_came: Option<Mono>,
    /// When one of its pilots last had a seat.
    pub(super) last_here: Option<Mono>,
}

/// The only submission of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submission {
    /// To be called.
    Due,
    Open,
    /// Answered at this time, or lost with an earlier leader.
    Settled(Mono),
}

impl Controller {
    /// The controller of a term that begins. If nothing was ever submitted, no worker can come back with work.
    #[must_use]
    pub fn new(now: Mono, is_first: bool) -> Self {
        Self {
            began: now,
            returns_until: if is_first { now } else { now + TAKEOVER_WAIT },
            next_look: now,
            fleets: BTreeMap::new(),
            jobs: BTreeMap::new(),
            token_calls: 0,
        }
    }

    /// True if it is time for a look.
    pub(crate) fn is_due(&self, now: Mono) -> bool {
        now >= self.next_look
    }

    /// When the next look is due, while there is something to look at.
    pub(crate) const fn next_look(&self) -> Mono {
        self.next_look
    }

    /// The next look is due at once.
    pub(crate) const fn look_soon(&mut self) {
        self.next_look = Mono(0);
    }

    pub(super) fn looked(&mut self, now: Mono) {
        self.next_look = now + LOOK_EVERY;
    }

    pub(super) fn fleet(&mut self, name: &FleetName) -> &mut FleetWatch {
        self.fleets.entry(name.clone()).or_default()
    }
}

impl JobWatch {
    pub(super) const fn requested(now: Mono) -> Self {
        Self::new(now, Submission::Due, false)
    }

    pub(super) const fn inherited(began: Mono) -> Self {
        Self::new(began, Submission::Settled(began), true)
    }

    const fn new(since: Mono, submission: Submission, inherited: bool) -> Self {
        Self {
            since,
            inherited,
            submission,
            doubt: None,
            missing: None,
            claim: None,
            running: None,
            unneeded: None,
            idle: None,
            cancel_called: None,
            cancel_taken: None,
            came: BTreeSet::new(),
            first_came: None,
            last_here: None,
        }
    }

    /// Whether a list that was called then must show the job, if it exists.
    pub(super) fn is_settled_before(&self, called: Mono) -> bool {
        matches!(self.submission, Submission::Settled(at) if at < called)
    }
}
