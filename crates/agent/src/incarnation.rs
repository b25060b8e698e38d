//! Beginning and ending incarnations.
//!
//! An incarnation survives a restart of the agent, of the coordinator, or of both, as long as the
//! boot is the same and the last deadline of the dead-man timer has not passed. Otherwise all
//! processes with the worker's mark are killed first, and only when they are dead is the counter
//! (`life`) raised: the existence of an incarnation proves that no process of an earlier one runs.
//! Unacknowledged ends are carried over.

use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::supervision::takeover::KnownAttempt;
use baton_core::supervision::{Identity, Supervisor};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, ExecutorId, HostId, Incarnation};
use baton_runner::sys::{clock, identity, users};

use crate::drive::Agent;
use crate::error::Error;
use crate::state::{self, Handover, StateDir, WorkerState};
use crate::{AgentExit, Config};

/// The machine, in its current boot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) boot: BootId,
}

impl Host {
    pub(crate) fn current() -> Result<Self, Error> {
        let boot = identity::boot_id().map_err(Error::io("read the boot id"))?;
        let id = state::host_id();
        Ok(Self { id, boot })
    }
}

/// The identity of the current incarnation.
pub(crate) fn identity_of(config: &Config, dir: &StateDir, host: Host) -> Identity {
    Identity {
        me: Holder {
            worker: config.name.clone(),
            incarnation: Incarnation {
                lineage: dir.lineage,
                number: dir.worker_state.incarnation,
            },
            host: host.id,
            boot: host.boot,
        },
        executor: Some(executor_of(dir)),
        slots: config.slots,
        offer: Arc::clone(&config.offer),
        version: Arc::clone(&config.version),
        host: config.host,
        lifetime: config.lifetime,
        bugs: Bugs::default(),
    }
}

/// This agent, as operators read it.
pub(crate) fn executor_of(dir: &StateDir) -> ExecutorId {
    ExecutorId::new(&users::hostname(), std::process::id(), dir.lineage)
}

impl Agent {
    pub(crate) fn identity(&self) -> Identity {
        identity_of(&self.config, &self.dir, self.host)
    }

    /// Begins the next incarnation. All processes of the previous one are dead.
    pub(crate) fn begin_incarnation(&mut self, ended: Vec<KnownAttempt>) -> Result<(), Error> {
        let handover = Handover {
            guard: None,
            attempts: ended,
        };
        self.dir.set_handover(&handover)?;
        let worker_state = WorkerState {
            incarnation: self.dir.worker_state.incarnation.next(),
            boot: self.host.boot,
            epoch: self.dir.worker_state.epoch,
            dying: false,
        };
        self.dir.set_worker_state(worker_state)?;
        self.coordinator.set_guard(None);
        self.attach();
        let now = clock::now().mono;
        self.supervisor = Supervisor::begin(&self.identity(), handover.attempts, now);
        self.supervisor.worker_mut().obeyed(worker_state.epoch);
        self.end_filer.add_all(|_| false);
        let incarnation = self.supervisor.worker().me().incarnation;
        let executor = executor_of(&self.dir);
        tracing::info!("starting incarnation {incarnation} as {executor}");
        Ok(())
    }

    /// Ends the incarnation: no process is left.
    pub(crate) fn finish_incarnation(&mut self) -> Result<Option<AgentExit>, Error> {
        let attempts = self.supervisor.attempts().iter();
        let over = attempts.filter(|attempt| attempt.is_over());
        let ended: Vec<KnownAttempt> = over.map(KnownAttempt::from).collect();
        // Must be saved before the coordinator exits, which has them on record.
        self.dir.set_handover(&Handover {
            guard: None,
            attempts: ended.clone(),
        })?;
        self.coordinator.dismiss();
        // Their processes are dead, and what was read of their output is in the reports.
        self.launcher.secrets.retain(|_| false);
        if self.supervisor.worker().is_leaving() {
            tracing::info!("the incarnation has ended; all processes are dead");
            self.remove_group();
            return Ok(Some(AgentExit::Ended));
        }
        if self.supervisor.worker().is_copy() {
            self.coordinator.set_guard(None);
            let _permit = self.coordinator.retire()?;
            self.dir.renew_lineage()?;
            self.remove_group();
            return Ok(Some(AgentExit::Copied));
        }
        self.coordinator.restart()?;
        self.begin_incarnation(ended)?;
        let quiet_until = self.backoff.next_start(clock::now().mono);
        self.scheduler.pause_until(quiet_until);
        Ok(None)
    }
}
