//! The coordinator: found or begun, and everything taken over.
//!
//! What is known about a run comes from four places, and a fact from an earlier one makes
//! the later ones unnecessary: a coordinator that lives; the log of one that is dead; our
//! own children, which a dead coordinator's children become; and the kernel, which knows
//! whether a process with that number and that start time is still there. What none of
//! them can tell is lost.

use std::collections::BTreeSet;
use std::io;

use baton_core::plan::{Input, Plan};
use baton_core::step::Outbox;
use baton_model::ids::Epoch;
use baton_model::outcome::Outcome;
use baton_model::task::{Identity, LiveRun, Moment, ProcessNo};

use super::{Task, TaskError, Watcher};
use crate::checks::Checks;
use crate::coordinator::{Discovery, Greeting, Link, StartPermit};
use crate::record::Evidence;
use crate::sys::identity::ExitStatus;
use crate::sys::{clock, identity, random};
use crate::wire::{KnownRun, Request, RunEnd, RunKey};

/// So many coordinators in a row may die while we meet them. One that is killed then is no
/// reason to stop; one that never lives has a reason of its own.
const DEATHS_MAX: u32 = 10;

impl Task {
    /// Finds or begins the coordinator, takes over what is known, and lets the plan go on.
    pub(super) fn attach(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        self.forget_the_last_one()?;
        let mut deaths = 0;
        let link = loop {
            match self.meet(watcher) {
                // What it told us is kept, and the next one is told the rest.
                Err(TaskError::Io { error, .. }) if is_gone(&error) && deaths < DEATHS_MAX => {
                    deaths += 1;
                }
                met => break met?,
            }
        };
        self.link = Some(link);
        self.successor = true;
        if self.plan.is_recovering() {
            for input in std::mem::take(&mut self.asked) {
                self.feed(input);
            }
            let boot_changed = std::mem::take(&mut self.boot_changed);
            self.feed(Input::Resumed { boot_changed });
        } else {
            self.feed(Input::Tick);
            for input in std::mem::take(&mut self.asked) {
                self.feed(input);
            }
        }
        Ok(())
    }

    /// Finds or begins the coordinator, and takes over what is known. Done again after a
    /// failure on the way, it takes over what is left.
    fn meet(&mut self, watcher: &mut dyn Watcher) -> Result<Link, TaskError> {
        let found = self
            .start
            .discover()
            .map_err(TaskError::io("reach the coordinator"))?;
        let (mut link, known) = match found {
            Discovery::Running(link, greeting) => (link, greeting.runs),
            Discovery::Absent(permit) => self.replace_coordinator(permit, watcher)?,
        };
        let spared = self.strangers.clone();
        link.send(&Request::Attach { spared })
            .map_err(TaskError::io("speak to the coordinator"))?;
        self.exits.take(self.boot);
        self.take_over(&mut link, known)?;
        Ok(link)
    }

    /// Whatever was said to the coordinator before may not have been done. The plan says
    /// it again.
    pub(super) fn forget_the_last_one(&mut self) -> Result<(), TaskError> {
        if self.link.take().is_none() {
            return Ok(());
        }
        let (spec, snapshot) = (self.spec.clone(), self.plan.snapshot());
        self.plan = Plan::from_snapshot(spec, snapshot).map_err(TaskError::Plan)?;
        self.outbox = Outbox::new(Epoch(0));
        self.orders.clear();
        self.killing = None;
        self.killed_at = None;
        self.forgets.clear();
        self.checks = Checks::default();
        Ok(())
    }

    fn replace_coordinator(
        &mut self,
        permit: StartPermit,
        watcher: &mut dyn Watcher,
    ) -> Result<(Link, Vec<KnownRun>), TaskError> {
        let evidence = permit.evidence(&self.start, &self.exits)?;
        let successor = self.successor || evidence.is_some();
        // A task that has ended told it to leave; nothing was lost with it.
        if evidence.is_some() && self.plan.outcome().is_none() {
            watcher.note("the coordinator is gone; another one takes over");
        }
        let known = Evidence::from_iter(evidence.unwrap_or_default()).runs;
        // What was seen is kept before the log that says so is replaced. So is what nobody
        // has seen: it may have been launched all the same, and a later life of ours, which
        // finds the next coordinator alive, would have it launched again.
        self.take_reports(&known);
        self.lose_the_unseen();
        self.commit(watcher)?;
        let (link, Greeting { runs, .. }) = permit
            .start(&self.start, &mut self.spawner, successor)
            .map_err(TaskError::io("start the coordinator"))?;
        Ok((link, runs))
    }

    /// The coordinator is dead, and these runs were ordered from it and never heard of.
    fn lose_the_unseen(&mut self) {
        let live = self.plan.live();
        let unseen = live.filter(|(_, live)| live.started.is_none());
        let unseen: Vec<RunKey> = unseen
            .map(|(process, live)| RunKey {
                process,
                run: live.run,
            })
            .collect();
        for run in unseen {
            self.lost_unless_seen(run, None);
        }
    }

    /// Reports everything that this coordinator knows, and hands over what it does not: the
    /// runs of one that is dead.
    fn take_over(&mut self, link: &mut Link, known: Vec<KnownRun>) -> Result<(), TaskError> {
        self.take_reports(&known);
        let owned: BTreeSet<RunKey> = known.iter().map(|known| known.run).collect();
        let live: Vec<(ProcessNo, LiveRun)> =
            self.plan.live().map(|(no, live)| (no, *live)).collect();
        for (process, live) in live {
            let run = RunKey {
                process,
                run: live.run,
            };
            // One that was ordered and never heard of is ordered again by the plan.
            let Some((at, identity)) = live.started.zip(live.identity) else {
                continue;
            };
            // Of its own runs the coordinator tells us, also of one that is about to end.
            if !owned.contains(&run) {
                self.adopt(link, run, at, &identity)
                    .map_err(TaskError::io("speak to the coordinator"))?;
            }
        }
        // What is over is in our log with the next commit, and need not be kept after it.
        let over = known.into_iter().filter(|known| known.ended.is_some());
        self.forgets.extend(over.map(|known| known.run));
        Ok(())
    }

    /// A run that is there, and be it as a zombie, is watched by the coordinator. One that is
    /// gone is over, if anybody knows how.
    fn adopt(
        &mut self,
        link: &mut Link,
        run: RunKey,
        at: Moment,
        identity: &Identity,
    ) -> io::Result<()> {
        if identity.boot != self.boot {
            // What a boot has ended, the plan learns all at once.
            if !self.boot_changed {
                self.lost_unless_seen(run, None);
            }
            return Ok(());
        }
        if identity::identify(self.boot, identity.pid)? == Some(*identity) {
            let identity = *identity;
            return link.send(&Request::Adopt {
                run,
                at,
                identity,
                attempt: None,
            });
        }
        self.lost_unless_seen(run, Some(identity));
        Ok(())
    }

    /// Nobody watches a run any more: how it ended is known if it ended as our child.
    pub(super) fn lost_unless_seen(&mut self, run: RunKey, identity: Option<&Identity>) {
        // Only to know them: the coordinator that has adopted a run says when all of it is
        // over, and we are asked only where the kernel does not tell it how.
        self.exits.take(self.boot);
        match identity.and_then(|who| self.exits.remove(who)) {
            Some(status) => self.exited(run, clock::now().into(), outcome(status)),
            None => self.feed(Input::Lost {
                process: run.process,
                run: run.run,
            }),
        }
    }

    fn take_reports(&mut self, known: &[KnownRun]) {
        for known in known {
            let run = known.run;
            if let Some((at, identity)) = known.started {
                self.started(run, at, identity);
            }
            if let Some(ended) = &known.ended {
                self.ended(ended);
            }
        }
    }

    /// A run's process is there.
    pub(super) fn started(&mut self, run: RunKey, at: Moment, identity: Identity) {
        let live = self.plan.process(run.process).and_then(|p| p.live);
        if live.is_some_and(|live| live.run == run.run && live.started.is_some()) {
            return;
        }
        self.feed(Input::Started {
            process: run.process,
            run: run.run,
            at: at.into(),
            identity: Some(identity),
        });
    }

    /// A run is over.
    pub(super) fn ended(&mut self, ended: &RunEnd) {
        let live = self.plan.process(ended.run.process).and_then(|p| p.live);
        if let Some(live) = live.filter(|live| live.run == ended.run.run) {
            if let Some(who) = live.identity {
                self.exits.remove(&who);
            }
            self.exited(ended.run, ended.at, ended.outcome);
        } else {
            // Its end is in our log, or will be with the next commit.
            self.forgets.push(ended.run);
        }
    }

    fn exited(&mut self, run: RunKey, at: Moment, outcome: Outcome) {
        self.feed(Input::Exited {
            process: run.process,
            run: run.run,
            at: at.into(),
            outcome,
            random: random::number(),
        });
    }
}

/// True if whoever we spoke to has died.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

fn outcome(status: ExitStatus) -> Outcome {
    match status {
        ExitStatus::Code(code) => Outcome::Exited(code),
        ExitStatus::Signal(signal) => Outcome::Signaled(signal),
    }
}
