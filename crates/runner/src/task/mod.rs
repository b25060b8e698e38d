//! One attempt at a task, from beginning to end: the driver of `baton_core::plan`.
//!
//! ```text
//!   coordinator, signals, control socket, time
//!          │ Input
//!          ▼
//!        Plan ──Step──▶ Outbox ──events──▶ log: append, sync ──receipt──┐
//!                                                                       │
//!   coordinator, checks ◀────────────── orders ◀────────────────────────┘
//! ```
//!
//! **One way back.** A runner that begins anew and a runner whose coordinator has died do
//! the same: replay what was decided, hear or read what was seen, take over what still
//! runs, and let the plan repeat what may not have been done. So the way that is needed
//! once in a blue moon is the one that every start takes.
//!
//! **What needs the disk.** Decisions that something follows from are synced before it
//! follows. That a process is there or is ready is only appended: that survives the death
//! of the runner, and after a power failure the process is gone anyway.
//!
//! | file | holds |
//! |---|---|
//! | `open` | beginning a task, and finding one again |
//! | `attach` | the coordinator: found or begun, and everything taken over |
//! | `drive` | the loop, and the commit of what was decided |
//! | `orders` | carrying out what the plan orders |
//! | `launch` | from a process in a task to everything that its launch needs |
//! | `abandon` | the end of a task whose log cannot be used |
//! | `control` | the socket by which others ask for the end |
//! | `error` | what can go wrong |

mod abandon;
mod attach;
mod control;
mod drive;
mod error;
mod launch;
mod open;
mod orders;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::plan::{Input, Order, Plan};
use baton_core::step::{Batch, Outbox};
use baton_model::ids::BootId;
use baton_model::task::{Identity, PlanEvent, TaskSpec};
use baton_model::time::{Millis, Mono, Now};

use crate::checks::Checks;
use crate::coordinator::{CoordinatorSpec, Link};
use crate::log::Log;
use crate::record::{Header, RunnerStart};
use crate::root::{Root, RunnerLock, TaskId};
use crate::samples::{Ring, Sampler};
use crate::sys::exits::Exits;
use crate::sys::spawn::Spawner;
use crate::wire::RunKey;

pub use control::{ControlReply, ControlRequest, send_control_request};
pub use error::TaskError;
pub use launch::is_shown;
pub use open::NewTask;

use control::Control;

/// What a runner needs beside the task.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary that knows the hidden commands.
    pub binary: PathBuf,
    /// Put the processes into a cgroup of their own, where that is possible.
    pub cgroup: bool,
}

/// Who looks on. Nothing that a watcher does changes the task.
pub trait Watcher {
    /// The plan has changed, and the change is kept.
    fn event(&mut self, event: &PlanEvent, plan: &Plan);
    /// Something that a person should know.
    fn note(&mut self, text: &str);
    /// Time has passed. Called at least as often as [`Self::refresh_every`] says.
    fn refresh(&mut self, plan: &Plan, now: Now);
    /// The task is over, and nothing of it is left to write anything. Said once, also of a
    /// task that had ended before.
    fn finished(&mut self, plan: &Plan);
    /// How often it wants to be called.
    fn refresh_every(&self) -> Option<Millis>;
}

/// A watcher that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopWatcher;

impl Watcher for NoopWatcher {
    fn event(&mut self, _: &PlanEvent, _: &Plan) {}
    fn note(&mut self, _: &str) {}
    fn refresh(&mut self, _: &Plan, _: Now) {}
    fn finished(&mut self, _: &Plan) {}
    fn refresh_every(&self) -> Option<Millis> {
        None
    }
}

/// One task, in the hands of its one runner.
pub struct Task {
    root: Root,
    id: TaskId,
    header: Header,
    spec: Arc<TaskSpec>,
    plan: Plan,
    boot: BootId,
    life: RunnerStart,
    /// The host has booted since the life before.
    boot_changed: bool,
    /// Something ran in a life before, so something may be left of it.
    successor: bool,
    log: Log,
    outbox: Outbox<Order>,
    /// Decided, and not yet kept.
    batches: Vec<Batch<PlanEvent>>,
    /// Kept, and not yet carried out.
    orders: VecDeque<Order>,
    /// The killing that holds up the orders after it.
    killing: Option<u64>,
    /// When everything was said to be killed, while runs were still to be told of.
    killed_at: Option<Mono>,
    /// Runs that the coordinator may forget, once everything decided so far is kept.
    forgets: Vec<RunKey>,
    /// Children that this process had before it was a runner: not the task's.
    strangers: Vec<Identity>,
    link: Option<Link>,
    start: CoordinatorSpec,
    launches: launch::Launches,
    spawner: Spawner,
    checks: Checks,
    control: Control,
    samples: Option<(Ring, Sampler)>,
    sample_at: Mono,
    /// What a person has asked for before the loop began.
    asked: Vec<Input>,
    next_id: u64,
    exits: Exits,
    finished: bool,
    _lock: RunnerLock,
}

impl Task {
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Asks for the end before the loop begins.
    pub fn kill(&mut self, now: bool) {
        self.asked.push(kill_input(now));
    }
}

fn kill_input(now: bool) -> Input {
    if now {
        Input::KillNow
    } else {
        Input::Kill { grace: None }
    }
}
