//! Killing a task whose log cannot be used.
//!
//! Without the log nothing can be decided, and so no final process runs. The entry of the task is
//! enough to find its coordinator, or to start one that finds its processes.

use std::io;
use std::path::PathBuf;

use baton_model::state::AttemptState;
use baton_model::time::Millis;
use rustix::event::{PollFd, PollFlags, poll};

use super::{Options, Task, TaskError};
use crate::coordinator::{CoordinatorSpec, Discovery, Link};
use crate::root::{Entry, Root};
use crate::sys::reap;
use crate::sys::spawn::Spawner;
use crate::wire::{Reply, Request};

impl Task {
    /// Kills all processes of a task, and files it as ended. Its outcome is unknown.
    ///
    /// # Errors
    /// If a runner drives it, or a process of it cannot be killed.
    pub fn abandon(
        root: &Root,
        entry: &Entry,
        options: &Options,
    ) -> Result<AttemptState, TaskError> {
        let header = root.header(entry)?;
        super::open::require_owner(&header)?;
        let _lock = root.lock(&entry.id)?;
        reap::become_subreaper().map_err(TaskError::io("become the subreaper"))?;
        let coordinator = CoordinatorSpec {
            binary: options.binary.clone(),
            checkpoint: root.checkpoint(&entry.id),
            sandbox: PathBuf::from(&header.sandbox),
            mark: header.mark,
            cgroup: header.cgroup.map(PathBuf::from),
            guarded: false,
        };
        let left = kill(&coordinator).map_err(TaskError::io("kill the processes of the task"))?;
        if left > 0 {
            return Err(TaskError::Invalid(format!(
                "{left} processes of the task cannot be killed"
            )));
        }
        root.finish(&entry.id)?;
        Ok(AttemptState::Lost)
    }
}

fn kill(coordinator: &CoordinatorSpec) -> io::Result<u32> {
    let mut link = match coordinator.discover()? {
        Discovery::Running(link, _) => link,
        Discovery::Absent(permit) => {
            permit
                .start(coordinator, &mut Spawner::new()?.as_fn(), true)?
                .0
        }
    };
    link.send(&Request::KillEverything {
        id: 1,
        grace: Millis(0),
    })?;
    let left = answer(&mut link)?;
    link.send(&Request::Exit)?;
    Ok(left)
}

fn answer(link: &mut Link) -> io::Result<u32> {
    loop {
        poll(&mut [PollFd::new(link, PollFlags::IN)], None)?;
        let (replies, alive) = link.receive()?;
        let left = replies.iter().find_map(|reply| match reply {
            Reply::EverythingKilled { left, .. } => Some(*left),
            _ => None,
        });
        if let Some(left) = left {
            return Ok(left);
        }
        if !alive {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
}
