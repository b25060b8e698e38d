//! Fleets: how many workers are requested of a cluster manager, and what became of each request.
//!
//! ```text
//!   waiting classes ─▶ size ──JobRequested──▶ store ──▶ FleetCall::Submit ─▶ backend
//!   seats of pilots ─▶ upkeep ──facts───────▶ store         │
//!   FleetAnswer ─────▶ answers ─facts───────▶ store ◀───────┘ Submitted, Unclear, Listed
//! ```
//!
//! **The calling contract.** `Controller::answer` for every answer. `Controller::upkeep`, `Controller::size` and
//! `Controller::calls` one after the other when `Controller::is_due`; the facts of each are applied before the
//! next is called, and calls leave when all facts are durable. Nothing here reads the ledger of another moment.
//!
//! **Rules.**
//! 1. A job is submitted at most once, after its intent is durable. If the answer is unclear or lost, lists tell what
//!    became of it; a further worker is a new job with a new name.
//! 2. Everything that was requested and is not proved over counts against `max`.
//! 3. That a job is missing in a list is no end. A job ends by a state of the manager that is over; or it left the
//!    lists, none of its pilots is here, and its time is over or the manager has taken an order to cancel it since. A
//!    state that is over counts only if no pilot was heard since the list was called: managers double jobs.
//! 4. An answer that is missing, empty or an error changes nothing but the reason that is shown.
//! 5. Nothing stops for good: after failures a fleet tries again, one job at a time, at most every 15 minutes.
//!
//! 6. No job is requested before its pilots find a token, where they need one.
//!
//! What only one leader knows (which calls are open, since when a job is missing) is in `Controller`; everything else
//! is in the ledger, so the next leader cancels what this one wanted to cancel.
//!
//! | file | holds |
//! |---|---|
//! | `limits` | every interval and bound |
//! | `check` | which definitions are refused |
//! | `watch` | what one leader knows of fleets and jobs |
//! | `answers` | answers of backends |
//! | `upkeep` | pilots that arrive, and jobs that are given up |
//! | `size` | how many jobs are wanted, requested and cancelled |
//! | `calls` | calls of backends, and when they are due |
//! | `tokens` | the tokens of pilots: when they are asked for and renewed |
//! | `trouble` | the slow trials of a failing fleet, and the nodes that it avoids |
//! | `view` | what people see |

mod answers;
mod calls;
mod check;
mod limits;
mod size;
mod tokens;
mod trouble;
mod upkeep;
mod view;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::fleet::{FleetJob, FleetName, JobSighting, JobState, Shape};
use baton_model::ids::{Epoch, JobId, StoreId, WorkerName};
use baton_model::message::HostSize;
use baton_model::placement::{FLEET_LABEL, Offer};
use baton_model::time::{Mono, Now};

use crate::bugs::Bugs;
use crate::ledger::Fleets;
use crate::protocol::scheduler::JobProof;

pub(crate) use check::check;
pub use check::{FleetError, Mistake, mistakes};
pub use view::{FleetView, JobView};
pub use watch::Controller;

/// What a decision about fleets may look at: one moment of the leader.
pub(crate) struct Scene<'a> {
    pub(crate) now: Now,
    pub(crate) fleets: &'a Fleets,
    /// The pilots that have a seat, by job.
    pub(crate) pilots: &'a BTreeMap<JobId, Vec<Pilot>>,
    /// The store and its generation: jobs of no other are touched.
    pub(crate) identity: (StoreId, Epoch),
    pub(crate) bugs: Bugs,
}

/// A worker of a job that has a seat.
pub(crate) struct Pilot {
    pub(crate) number: u32,
    pub(crate) name: WorkerName,
    /// When it was heard last.
    pub(crate) heard: Mono,
    /// It holds leases.
    pub(crate) is_busy: bool,
    /// It has just come, and will probably get work in a moment.
    pub(crate) is_new: bool,
    pub(crate) offer: Arc<Offer>,
    /// What it may use of its node.
    pub(crate) host: HostSize,
}

/// A decision about fleets.
#[derive(Debug)]
pub(crate) enum Output {
    Record(Fact),
    /// The manager vouches that the job is over: nothing that its pilots held runs any more.
    Proved(FleetJob, JobProof),
}

impl Scene<'_> {
    /// The pilots of a job that have a seat.
    pub(crate) fn pilots_of(&self, job: JobId) -> &[Pilot] {
        self.pilots.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Whether a pilot of a job was heard after a list was called.
    fn is_heard_since(&self, job: JobId, called: Option<Mono>) -> bool {
        let mut pilots = self.pilots_of(job).iter();
        called.is_some_and(|called| pilots.any(|pilot| pilot.heard > called))
    }

    /// The beginning of the names of all jobs of this store.
    fn prefix(&self) -> String {
        let (store, generation) = self.identity;
        if generation == Epoch(0) {
            format!("baton-{:x}-", store.0)
        } else {
            format!("baton-{:x}.{:x}-", store.0, generation.0)
        }
    }

    /// The name of a job in the lists of a cluster manager.
    fn name(&self, fleet: &FleetName, job: JobId) -> String {
        format!("{}{fleet}-{job}", self.prefix())
    }
}

/// What a worker of a fleet offers, with the label that every pilot has.
pub(crate) fn labelled(fleet: &FleetName, shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    shape
        .labels
        .insert(FLEET_LABEL.to_owned(), fleet.as_str().to_owned());
    shape
}

/// Words for the end of a job after which its processes may run on, since its node did not answer.
const NODE_FAILURES: [&str; 5] = ["NODE_FAIL", "NF", "BOOT_FAIL", "BF", "DOWN"];

/// How far the manager's word about a job that is over goes. Where processes can outlive their job, it is no proof: what
/// a dead worker has started may run on.
fn proof(sighting: &JobSighting, bugs: Bugs) -> Option<JobProof> {
    if !sighting.contained && !seeded!(bugs, UncontainedTrusted) {
        return None;
    }
    match sighting.state {
        JobState::Ended | JobState::Preempted => Some(JobProof::Reaped),
        JobState::Failed if NODE_FAILURES.contains(&sighting.word.as_str()) => None,
        JobState::Failed => Some(JobProof::Failed),
        JobState::Queued | JobState::Running | JobState::Unsure => None,
    }
}
