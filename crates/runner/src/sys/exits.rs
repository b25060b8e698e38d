//! The exits of our own children, kept until somebody asks: the coordinator's, and those of
//! the processes that an earlier coordinator has left us.

use std::collections::BTreeMap;

use baton_model::ids::BootId;
use baton_model::task::Identity;

use super::identity::{self, ExitStatus};
use super::reap;

/// So many are kept. Nobody asks for those of orphans.
const EXITS_MAX: usize = 10_000;

/// By number and start time: a number that was used again must not be taken for whoever had it
/// before.
#[derive(Debug, Default)]
pub struct Exits {
    seen: BTreeMap<(u32, u64), ExitStatus>,
}

impl Exits {
    /// Reaps every child that has ended. Its start time is read before.
    pub fn take(&mut self, boot: BootId) {
        while let Ok(Some((pid, status))) = reap::next_exited() {
            let who = identity::identify(boot, pid).ok().flatten();
            if reap::reap(pid).is_err() {
                return;
            }
            if self.seen.len() >= EXITS_MAX {
                self.seen.clear();
            }
            if let Some(who) = who {
                self.seen.insert((who.pid, who.start_ticks), status);
            }
        }
    }

    /// How a process ended, if it did as our child; it is told once.
    pub fn remove(&mut self, who: &Identity) -> Option<ExitStatus> {
        self.seen.remove(&(who.pid, who.start_ticks))
    }

    /// When the last child with this number started.
    #[must_use]
    pub fn start_of(&self, pid: u32) -> Option<u64> {
        let mut of = self.seen.range((pid, 0)..=(pid, u64::MAX));
        of.next_back().map(|((_, start_ticks), _)| *start_ticks)
    }
}
