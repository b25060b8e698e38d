//! Lives: begun, gone on with, ended.
//!
//! A life goes on after a restart of the agent, of the coordinator, or of both, as long as
//! the boot is the same and the last deadline of the dead-man timer has not passed. Otherwise
//! everything that carries the worker's mark is killed first, and only when it is dead is the
//! counter raised: the existence of a life proves that nothing of the ones before it runs.
//! Ends that nobody has acknowledged are carried over.

use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::io::{GuardOrder, Input, Record};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, HostId, Incarnation};
use baton_model::outcome::KillCause;
use baton_model::time::{Millis, Mono};
use baton_runner::coordinator::{Discovery, Link};
use baton_runner::sys::clock;
use baton_runner::wire::{Reply, Request};
use rustix::event::{PollFd, PollFlags, poll};

use crate::drive::Agent;
use crate::error::Error;
use crate::runs::{Inherited, Phase};
use crate::state::{Estate, Lives, StateDir};
use crate::{AgentExit, Config};

/// What could not be killed is tried again after this.
const AGAIN: Millis = Millis::from_secs(1);
/// A coordinator that was told to leave is met again at most so often.
const FAREWELLS_MAX: u32 = 10;
/// Each time it is given so long.
const FAREWELL: Millis = Millis::from_secs(1);

/// The first rest between two short lives, and the longest.
const REST_MIN: Millis = Millis(500);
const REST_MAX: Millis = Millis::from_secs(30);

/// An order to kill everything.
#[derive(Debug, Default)]
pub(crate) struct Killing {
    id: u64,
    grace: Millis,
    done: bool,
    again_at: Option<Mono>,
}

impl Killing {
    pub(crate) fn begin(&mut self, grace: Millis) -> u64 {
        self.id += 1;
        self.grace = grace;
        self.done = false;
        self.again_at = None;
        self.id
    }

    pub(crate) fn answered(&mut self, id: u64, left: u32, now: Mono) {
        if id != self.id {
            return;
        }
        self.done = left == 0;
        if left > 0 {
            tracing::error!("{left} processes cannot be killed; trying again");
            self.again_at = Some(now + AGAIN);
        }
    }

    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.again_at
    }

    pub(crate) fn again(&mut self, now: Mono) -> Option<(u64, Millis)> {
        self.again_at.take_if(|at| *at <= now)?;
        Some((self.begin(Millis(0)), Millis(0)))
    }
}

/// How fast one life follows another. A worker that is refused at once, over and over, must
/// not spend all its time on dying.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    began: Mono,
    rest: Millis,
}

impl Pace {
    /// A life begins; until then it should keep quiet.
    fn next(&mut self, now: Mono) -> Mono {
        let short = now.since(self.began) < REST_MAX;
        self.began = now;
        self.rest = if short {
            Millis(self.rest.0 * 2).clamp(REST_MIN, REST_MAX)
        } else {
            Millis(0)
        };
        now + self.rest
    }
}

/// The machine of the life that the state directory names.
pub(crate) fn machine(
    config: &Config,
    dir: &StateDir,
    host: HostId,
    boot: BootId,
    records: Vec<Record>,
    now: Mono,
) -> Worker {
    let me = Holder {
        worker: config.name.clone(),
        incarnation: Incarnation {
            lineage: dir.lineage,
            life: dir.lives.life,
        },
        host,
        boot,
    };
    let offer = Arc::new(config.offer.clone());
    Worker::begin(me, config.slots, offer, Bugs::default(), records, now)
}

impl Agent {
    /// The machine for what the table says.
    fn begin_machine(&mut self) {
        let records = self.runs.iter().map(|run| Record {
            lease: run.lease,
            spec: Arc::clone(&run.spec),
            ended: match &run.phase {
                Phase::Over(report) => Some(report.clone()),
                Phase::Asked | Phase::Waiting | Phase::Running => None,
            },
        });
        let records = records.collect();
        let now = clock::now().mono;
        self.worker = machine(&self.config, &self.dir, self.host, self.boot, records, now);
        self.life_over = false;
    }

    /// Goes on with the life that was lived last.
    pub(crate) fn go_on(&mut self, over: bool) {
        self.begin_machine();
        let epoch = self.dir.lives.epoch;
        match self.guard {
            Some(guard) => self.worker.resume(GuardOrder {
                epoch: guard.epoch.max(epoch),
                ..guard.into()
            }),
            None => self.worker.obeyed(epoch),
        }
        if over {
            self.inputs.push_back(Input::GuardFired);
        }
        tracing::info!("going on as {}", self.worker.me().incarnation);
    }

    /// Begins the next life. Everything of the one before is dead.
    pub(crate) fn next_life(&mut self, ended: Vec<Inherited>) -> Result<(), Error> {
        let estate = Estate {
            guard: None,
            runs: ended,
        };
        self.dir.set_estate(&estate)?;
        let lives = Lives {
            life: self.dir.lives.life.next(),
            boot: self.boot,
            epoch: self.dir.lives.epoch,
            dying: false,
        };
        self.dir.set_lives(lives)?;
        self.guard = None;
        self.dying = None;
        self.killing = Killing::default();
        self.waiting.clear();
        self.checks.clear();
        self.inputs.clear();
        self.runs.drain();
        for inherited in estate.runs {
            let mut run = inherited.into_run();
            run.inherited = true;
            self.runs.insert(run);
        }
        self.introduce();
        self.begin_machine();
        self.worker.obeyed(lives.epoch);
        tracing::info!("beginning life {}", self.worker.me().incarnation);
        Ok(())
    }

    /// Ends the life, if it is over and nothing of it is left.
    pub(crate) fn settle_life(&mut self) -> Result<Option<AgentExit>, Error> {
        if !self.life_over || !self.killing.done {
            return Ok(None);
        }
        let runs = self.runs.drain();
        let over = runs.iter().filter(|run| run.is_over());
        let ended: Vec<Inherited> = over.map(|run| run.to_inherited()).collect();
        let runs = ended.clone();
        // Before the coordinator goes, who has them on record.
        self.dir.set_estate(&Estate { guard: None, runs })?;
        let mut requests = std::mem::take(&mut self.requests);
        requests.push(Request::Exit);
        let mut link = self.link.take();
        if let Some(link) = &mut link {
            // One that is gone already needs no farewell.
            let _ = link.send_all(&requests);
        }
        if self.leaving {
            tracing::info!("the life is over, and everything is dead");
            return Ok(Some(AgentExit::Over));
        }
        if let Some(link) = link {
            see_off(link);
        }
        self.exits.take(self.boot);
        self.begin_coordinator_anew()?;
        self.next_life(ended)?;
        let quiet_until = self.pace.next(clock::now().mono);
        self.connection.rest(quiet_until);
        Ok(None)
    }

    /// A coordinator whose timer has fired launches nothing any more: another takes its place.
    fn begin_coordinator_anew(&mut self) -> Result<(), Error> {
        for _ in 0..FAREWELLS_MAX {
            let found = self.start.discover();
            match found.map_err(Error::io("reach the coordinator"))? {
                Discovery::Running(mut link, _) => {
                    // It leaves, or has gone: the next look tells.
                    let _ = link.send(&Request::Exit);
                    see_off(link);
                }
                Discovery::Absent(permit) => {
                    let begun = permit.start(&self.start, &mut self.spawner, false);
                    let (link, _) = begun.map_err(Error::io("start the coordinator"))?;
                    self.link = Some(link);
                    return Ok(());
                }
            }
        }
        let error = std::io::Error::other("it does not leave");
        Err(Error::io("replace the coordinator")(error))
    }

    /// Kills everything that carries the worker's mark, and waits until it is dead.
    pub(crate) fn kill_what_is_left(&mut self) -> Result<(), Error> {
        self.dying = Some(KillCause::Suicide);
        let what = "kill what an earlier life has left";
        loop {
            let id = self.killing.begin(Millis(0));
            let left = self.kill_once(id).map_err(Error::io(what))?;
            if left == 0 {
                return Ok(());
            }
            tracing::error!("{left} processes of an earlier life cannot be killed; trying again");
            std::thread::sleep(std::time::Duration::from_millis(AGAIN.0));
        }
    }

    fn kill_once(&mut self, id: u64) -> std::io::Result<u32> {
        let Some(link) = &mut self.link else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        let spared = self.strangers.clone();
        let grace = Millis(0);
        link.send_all(&[
            Request::Attach { spared },
            Request::KillEverything { id, grace },
        ])?;
        loop {
            poll(&mut [PollFd::new(&*link, PollFlags::IN)], None)?;
            let (replies, alive) = link.receive()?;
            for reply in replies {
                if let Reply::EverythingKilled { left, .. } = reply {
                    return Ok(left);
                }
            }
            if !alive {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
        }
    }
}

/// Waits until a coordinator that was told to leave has gone, but not for ever. It hears one
/// connection at a time: whoever calls again meanwhile takes the word from the farewell.
fn see_off(mut link: Link) {
    let until = clock::now().mono + FAREWELL;
    loop {
        let left = until.since(clock::now().mono);
        if left == Millis(0) {
            return;
        }
        let timeout = clock::timeout(left);
        // An error or an interruption is only a wait that was shorter.
        let _ = poll(&mut [PollFd::new(&link, PollFlags::IN)], Some(&timeout));
        if !matches!(link.receive(), Ok((_, true))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lives_follow_each_other_ever_more_slowly() {
        let mut pace = Pace::default();
        let mut now = Mono(1_000_000);
        assert_eq!(pace.next(now), now, "the one before was long");
        let mut rests = Vec::new();
        for _ in 0..9 {
            let until = pace.next(now);
            rests.push(until.since(now));
            now = until;
        }
        assert_eq!(rests[..3], [Millis(500), Millis(1_000), Millis(2_000)]);
        assert!(rests.iter().all(|rest| *rest <= REST_MAX));
        now = now + REST_MAX + REST_MAX;
        assert_eq!(pace.next(now), now);
    }

    #[test]
    fn what_cannot_be_killed_is_killed_again() {
        let mut killing = Killing::default();
        let id = killing.begin(Millis(5));
        killing.answered(id + 1, 0, Mono(0));
        assert!(!killing.done, "an answer to another order");
        killing.answered(id, 1, Mono(0));
        assert!(!killing.done);
        assert_eq!(killing.again(Mono(1)), None);
        let (again, _) = killing.again(Mono(AGAIN.0)).expect("due");
        killing.answered(again, 0, Mono(AGAIN.0));
        assert!(killing.done);
    }
}
