//! One attempt at a task, from start to end: the driver of `baton_core::plan`.
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
//! **One recovery path.** A restarted runner and a runner whose coordinator has died do the same:
//! replay the decisions, receive or read the observations, take over what still runs, and let the
//! plan repeat what may not have been done. So every start exercises the recovery path.
//!
//! **What is synced.** A decision is synced before anything follows from it. That a process has
//! started or is ready is only appended: that survives the death of the runner, and after a power
//! failure the process is gone anyway.
//!
//! | file | holds |
//! |---|---|
//! | `open` | starting a task, and reopening one |
//! | `attach` | connecting to or starting the coordinator, and taking over its runs |
//! | `drive` | the event loop, and the commit of decisions |
//! | `orders` | executing the plan's orders |
//! | `launch` | building the launch of a process |
//! | `launch_limit` | the time limits of a coordinator |
//! | `abandon` | killing a task whose log cannot be used |
//! | `file_end` | filing a task whose worker has killed it |
//! | `control` | the control socket, for kill requests |
//! | `error` | errors |

mod abandon;
mod attach;
mod control;
mod drive;
mod error;
mod file_end;
mod launch;
mod launch_limit;
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
use launch_limit::LaunchLimit;

pub use control::{ControlReply, ControlRequest, send_control_request};
pub use error::TaskError;
pub use launch::is_shown;
pub use launch_limit::LAUNCH_TIMEOUT;
pub use open::NewTask;

use control::Control;

/// Options of a runner.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary that implements the hidden commands.
    pub binary: PathBuf,
    /// Put the processes into a cgroup of their own, where possible.
    pub cgroup: bool,
    /// A second SIGINT or SIGTERM kills at once. Otherwise it repeats the request to stop, as a
    /// worker does that cannot know whether the first one has arrived.
    pub second_signal_kills: bool,
    /// The signal for the processes of the task when its worker warns the runner.
    pub warning: Option<i32>,
    /// How long the coordinator may take to start a process, or to answer.
    pub launch_timeout: Millis,
}

/// An observer of a task. It cannot change the task.
pub trait Watcher {
    /// The plan has changed, and the change is in the log.
    fn event(&mut self, event: &PlanEvent, plan: &Plan);
    /// A message for the user.
    fn note(&mut self, text: &str);
    /// Called at least as often as [`Self::refresh_every`] specifies.
    fn refresh(&mut self, plan: &Plan, now: Now);
    /// The task is over, and no process of it is left that could write anything. Called once, also
    /// for a task that had ended before.
    fn finished(&mut self, plan: &Plan);
    /// The refresh interval.
    fn refresh_every(&self) -> Option<Millis>;
}

/// A watcher that does nothing.
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

/// One task, driven by its one runner.
pub struct Task {
    root: Root,
    id: TaskId,
    header: Header,
    spec: Arc<TaskSpec>,
    plan: Plan,
    boot: BootId,
    runner_start: RunnerStart,
    /// [`Options::second_signal_kills`].
    second_signal_kills: bool,
    /// [`Options::warning`].
    warning: Option<i32>,
    /// The host has rebooted since the runner before.
    boot_changed: bool,
    /// An earlier runner may have left processes.
    successor: bool,
    log: Log,
    outbox: Outbox<Order>,
    /// Decided, and not yet committed.
    batches: Vec<Batch<PlanEvent>>,
    /// Committed, and not yet executed.
    orders: VecDeque<Order>,
    /// The id of the kill that blocks later orders.
    killing: Option<u64>,
    /// The time at which everything was reported killed while ends of runs were still missing.
    killed_at: Option<Mono>,
    launch_limit: LaunchLimit,
    /// Runs that the coordinator may forget, once all decisions so far are committed.
    to_forget: Vec<RunKey>,
    /// Children that this process had before it became a runner: not the task's.
    foreign_children: Vec<Identity>,
    link: Option<Link>,
    coordinator: CoordinatorSpec,
    launch_builder: launch::LaunchBuilder,
    spawner: Spawner,
    checks: Checks,
    control: Control,
    samples: Option<(Ring, Sampler)>,
    sample_at: Mono,
    /// Inputs received before the loop began.
    early_inputs: Vec<Input>,
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

    /// Requests the end of the task before the loop begins.
    pub fn kill(&mut self, now: bool) {
        self.early_inputs.push(kill_input(now));
    }
}

fn kill_input(now: bool) -> Input {
    if now {
        Input::KillNow
    } else {
        Input::Kill { grace: None }
    }
}
