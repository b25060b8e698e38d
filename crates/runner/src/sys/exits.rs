//! Exit statuses of our own children, kept until they are asked for: of the coordinator, and of the
//! processes inherited from an earlier coordinator.

use std::collections::BTreeMap;

use baton_core::takeover::{Sighting, Witness};
use baton_model::ids::BootId;
use baton_model::outcome::Outcome;
use baton_model::task::Identity;

use super::identity::{self, ExitStatus};
use super::{proc, reap};

/// The maximum number kept. Those of orphans are never asked for.
const EXITS_MAX: usize = 10_000;

/// Exit statuses by pid and start time, since a pid may be reused.
#[derive(Debug, Default)]
pub struct Exits {
    seen: BTreeMap<(u32, u64), ExitStatus>,
}

impl Exits {
    /// Reaps every child that has ended. Its start time is read before.
    pub fn take(&mut self, boot: BootId) {
        while let Ok(Some((pid, status))) = reap::next_exited() {
            let identity = identity::identify(boot, pid).ok().flatten();
            if reap::reap(pid).is_err() {
                return;
            }
            if let Some(identity) = identity {
                self.insert(identity.pid, identity.start_ticks, status);
            }
        }
    }

    /// Adds the exit status of a child of ours, or of our reaper.
    pub(crate) fn insert(&mut self, pid: u32, start_ticks: u64, status: ExitStatus) {
        if self.seen.len() >= EXITS_MAX {
            self.seen.clear();
        }
        self.seen.insert((pid, start_ticks), status);
    }

    /// Removes and returns the exit status of a process that ended as our child.
    pub fn remove(&mut self, identity: &Identity) -> Option<ExitStatus> {
        self.seen.remove(&(identity.pid, identity.start_ticks))
    }

    /// Looks for a process that no coordinator watches. `take` adds the exit statuses that are new.
    pub fn sight(
        &mut self,
        boot: BootId,
        identity: Option<&Identity>,
        take: impl FnMut(&mut Self),
    ) -> Sighting<Outcome> {
        let mut children = Children { exits: self, take };
        Sighting::of(identity, boot, &mut children)
    }

    /// The start time of the last child with this pid.
    #[must_use]
    pub fn start_of(&self, pid: u32) -> Option<u64> {
        let mut of = self.seen.range((pid, 0)..=(pid, u64::MAX));
        of.next_back().map(|((_, start_ticks), _)| *start_ticks)
    }
}

/// The kernel, and the exit statuses of our children.
struct Children<'a, F> {
    exits: &'a mut Exits,
    /// Adds those that are new.
    take: F,
}

impl<F: FnMut(&mut Exits)> Witness for Children<'_, F> {
    fn is_present(&self, identity: &Identity) -> bool {
        is_present(identity)
    }

    fn exit_of(&mut self, identity: &Identity) -> Option<ExitStatus> {
        (self.take)(self.exits);
        let key = (identity.pid, identity.start_ticks);
        self.exits.seen.get(&key).copied()
    }
}

/// True if the process exists, or if that cannot be found out: its coordinator will.
fn is_present(identity: &Identity) -> bool {
    match proc::stat(identity.pid) {
        Ok(None) => false,
        // A zombie that never called exec is nothing to watch.
        Ok(Some(stat)) => {
            stat.start_ticks == identity.start_ticks && (stat.has_executed || !stat.is_over())
        }
        Err(_) => true,
    }
}
