//! The last resort: killing the work of a worker without its coordinator.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use baton_model::time::Millis;
use baton_model::timeouts::LeaseTerm;

use super::mark::parse_mark;
use crate::stderr::log_line;
use crate::sys::kill::Sweep;
use crate::sys::proc::{self, Stat};
use crate::sys::{cgroup, clock};

/// The time of one attempt.
const ATTEMPT_MAX: Millis = Millis::from_secs(5);
/// The pause after one that left something alive.
const RETRY: Duration = Duration::from_secs(1);

/// The processes of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Leftovers<'a> {
    /// Every process that carries this mark, with its descendants.
    pub(crate) mark: &'a str,
    /// Every process in this control group.
    pub(crate) cgroup: Option<&'a Path>,
    /// Every descendant of these.
    pub(crate) roots: &'a [u32],
    /// Except these, though not their descendants.
    pub(crate) spare: &'a dyn Fn(&Stat) -> bool,
}

impl Leftovers<'_> {
    /// The terms of those that are alive.
    pub(crate) fn terms(&self) -> io::Result<BTreeSet<LeaseTerm>> {
        let is_marked = |text: &str| parse_mark(self.mark, text).is_some();
        let found = self.sweep(&is_marked).find()?;
        Ok(found.iter().map(|stat| self.term(stat.pid)).collect())
    }

    /// The term of a process. One that has removed its mark is kept like most.
    pub(crate) fn term(&self, pid: u32) -> LeaseTerm {
        let term = Cell::new(LeaseTerm::Lease);
        let is_ours = |text: &str| {
            let found = parse_mark(self.mark, text);
            found.is_some_and(|(_, found)| {
                term.set(found);
                true
            })
        };
        if proc::has_mark(pid, &is_ours) {
            term.get()
        } else {
            LeaseTerm::Lease
        }
    }

    fn sweep<'a>(&'a self, is_marked: &'a dyn Fn(&str) -> bool) -> Sweep<'a> {
        Sweep {
            roots: self.roots,
            spare: self.spare,
            mark: Some(is_marked),
        }
    }

    /// Kills them, and returns how many are left; at least one if that is unknown.
    pub(crate) fn kill(&self) -> usize {
        if let Some(group) = self.cgroup.and_then(cgroup::open)
            && let Err(error) = group.kill()
        {
            log_line!("baton: cannot kill a control group: {error}");
        }
        let is_marked = |text: &str| parse_mark(self.mark, text).is_some();
        match self.sweep(&is_marked).kill(clock::now().mono + ATTEMPT_MAX) {
            Ok(0) => 0,
            Ok(left) => {
                log_line!("baton: {left} processes cannot be killed; retrying");
                left
            }
            Err(error) => {
                log_line!("baton: cannot find the processes to kill: {error}; retrying");
                1
            }
        }
    }
}

/// Kills every process that carries this mark or is in the control group, and returns when nothing
/// is left.
pub fn kill_all(mark: &str, cgroup: Option<&Path>) {
    let leftovers = Leftovers {
        mark,
        cgroup,
        roots: &[],
        spare: &|_| false,
    };
    while leftovers.kill() > 0 {
        std::thread::sleep(RETRY);
    }
}
