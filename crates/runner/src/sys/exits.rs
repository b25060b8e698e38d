//! Exit statuses of our own children, kept until they are asked for: of the coordinator, and of the
//! processes inherited from an earlier coordinator.

use std::collections::BTreeMap;

use baton_model::ids::BootId;
use baton_model::task::Identity;

use super::identity::{self, ExitStatus};
use super::reap;

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
            if self.seen.len() >= EXITS_MAX {
                self.seen.clear();
            }
            if let Some(identity) = identity {
                self.seen
                    .insert((identity.pid, identity.start_ticks), status);
            }
        }
    }

    /// Removes and returns the exit status of a process that ended as our child.
    pub fn remove(&mut self, identity: &Identity) -> Option<ExitStatus> {
        self.seen.remove(&(identity.pid, identity.start_ticks))
    }

    /// The start time of the last child with this pid.
    #[must_use]
    pub fn start_of(&self, pid: u32) -> Option<u64> {
        let mut of = self.seen.range((pid, 0)..=(pid, u64::MAX));
        of.next_back().map(|((_, start_ticks), _)| *start_ticks)
    }
}
