//! Leaders that come and go, a store that keeps what lands, and two clocks.
//!
//! A leader's batches wait in a queue. What is durable is always a prefix of them: they land
//! one after the other, a failure ends the leader, a crash loses what has not landed, and of a
//! leader that was overtaken nothing lands any more.

use std::collections::VecDeque;

use baton_core::bugs::Bugs;
use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::{Batch, Outbox};
use baton_model::fact::Fact;
use baton_model::ids::Epoch;
use baton_model::library::Definition;
use baton_model::time::{Millis, Mono, Now, Wall};

use super::check::{Entry, Look, Story};
use super::draw::{Pace, YEAR};
use crate::checkers::Violation;
use crate::rng::Rng;
use crate::time::{MILLI, Time};
use crate::trace::{Detail, Trace};

/// How many things happen in a run.
const EVENTS: u64 = 220;

/// Looks in a row that one wake-up may need, with room to spare.
const LOOKS_MAX: usize = 1_000;

/// Ended instances that the store keeps for whoever wants them tried again.
const ENDED_KEPT: usize = 300;

/// Something on its way to the store.
#[derive(Debug)]
enum Pending {
    Batch(Batch<Fact>, Now),
    /// The leader has looked at the clock when it showed this.
    Look(Wall),
}

#[derive(Debug)]
struct Leader {
    core: Scheduler,
    outbox: Outbox<Effect>,
    queue: VecDeque<Pending>,
}

/// One run.
#[derive(Debug)]
pub(super) struct World {
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    pace: Pace,
    bugs: Bugs,
    mono: u64,
    wall: u64,
    begun: u64,
    epoch: Epoch,
    kept: Ledger,
    entries: Vec<Entry>,
    looks: Vec<Look>,
    batches: u64,
    leader: Option<Leader>,
    /// One that does not know yet that another leads.
    deposed: Option<Leader>,
    /// Batches stay in the queue for now.
    slow: bool,
    /// Workers that have come by.
    pub(super) visits: u64,
    contradiction: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, bugs: Bugs, detail: Detail) -> Self {
        let mut rng = Rng::new(seed);
        let pace = Pace::draw(&mut rng);
        let mono = rng.below(YEAR);
        Self {
            trace: Trace::new(detail),
            wall: Pace::start(&mut rng),
            pace,
            bugs,
            mono,
            begun: mono,
            rng,
            epoch: Epoch(0),
            kept: Ledger::default(),
            entries: Vec::new(),
            looks: Vec::new(),
            batches: 0,
            leader: None,
            deposed: None,
            slow: false,
            visits: 0,
            contradiction: None,
        }
    }

    pub(super) fn run(&mut self) {
        self.elect();
        for _ in 0..self.rng.within(1, 4) {
            self.define();
        }
        for _ in 0..EVENTS {
            self.event();
        }
        self.slow = false;
        self.elect();
        self.pass(self.pace.unit);
        self.look();
        self.land_all();
    }

    pub(super) fn story(&self) -> Story<'_> {
        Story {
            entries: &self.entries,
            looks: &self.looks,
        }
    }

    /// What the ledger has noticed, if it has.
    pub(super) fn contradiction(&self) -> Option<Violation> {
        let what = self.contradiction.clone()?;
        let checker = "contradiction";
        Some(Violation { checker, what })
    }

    pub(super) const fn elapsed(&self) -> Time {
        Time((self.mono - self.begun) * MILLI)
    }

    pub(super) const fn now(&self) -> Now {
        Now {
            mono: Mono(self.mono),
            wall: Wall(self.wall),
        }
    }

    /// What is durable, with some of what has ended.
    pub(super) const fn kept(&self) -> &Ledger {
        &self.kept
    }

    /// What the leader has decided.
    pub(super) fn decided(&self) -> Option<&Ledger> {
        self.leader.as_ref().map(|leader| leader.core.ledger())
    }

    /// Some task that suits the pace.
    pub(super) fn definition(&mut self) -> Definition {
        self.pace.definition(&mut self.rng)
    }

    /// Both clocks go on.
    pub(super) const fn pass(&mut self, span: u64) {
        self.mono += span;
        self.wall += span;
    }

    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        let (at, shown) = (self.elapsed(), self.wall);
        self.trace
            .note(at, &shown, || format!("[{shown}] {}", what()));
    }

    fn event(&mut self) {
        if self.leader.is_none() {
            let absence = self.pace.absence(&mut self.rng);
            self.pass(absence);
            self.elect();
        }
        match self.rng.below(100) {
            0..=39 => self.wait(),
            40..=49 => {
                let span = self.pace.moment(&mut self.rng);
                self.pass(span);
                self.look();
            }
            50..=55 => self.crash(),
            56..=59 => self.overtake(),
            60..=63 => self.jump(),
            64..=69 => self.define(),
            70..=71 => self.remove(),
            72..=75 => self.fire(),
            76..=79 => self.cancel(),
            80..=82 => self.retry(),
            83..=89 => self.visit(),
            90..=93 => self.slow = !self.slow,
            94 => self.fail(),
            _ => self.absent(),
        }
        self.late_word();
        if !self.slow {
            self.land_all();
        }
    }

    /// Until something is due, and a moment longer, as drivers do.
    fn wait(&mut self) {
        let next = self.leader.as_ref().and_then(|it| it.core.next_tick());
        let longest = 400 * self.pace.unit;
        let span = next.map_or(longest, |next| next.since(Wall(self.wall)).0);
        let lag = self.rng.below(900);
        self.pass(span.min(longest) + lag);
        self.look();
    }

    /// Nobody is scheduled on the leader's machine for a while; it still leads afterwards.
    fn absent(&mut self) {
        let span = self.pace.absence(&mut self.rng);
        self.tell(|| format!("stopped for {}", Millis(span)));
        self.pass(span);
        self.look();
    }

    /// The leader looks at the clock until it has nothing more to do.
    fn look(&mut self) {
        for _ in 0..LOOKS_MAX {
            self.give(Input::Tick);
            let wall = Wall(self.wall);
            let Some(leader) = &mut self.leader else {
                return;
            };
            if leader.core.next_tick().is_none_or(|next| next > wall) {
                leader.queue.push_back(Pending::Look(wall));
                return;
            }
        }
        let what = format!("something is still due after {LOOKS_MAX} looks");
        self.contradiction.get_or_insert(what);
    }

    /// Hands an input to the leader, if there is one.
    pub(super) fn give(&mut self, input: Input) {
        let now = self.now();
        let Some(leader) = &mut self.leader else {
            return;
        };
        let step = leader.core.handle(now, input);
        leader.core.assert_invariants();
        if let Some(batch) = leader.outbox.accept(step) {
            leader.queue.push_back(Pending::Batch(batch, now));
        }
    }

    /// What the leader may say by now.
    pub(super) fn said(&mut self) -> Vec<Effect> {
        let leader = self.leader.as_mut();
        leader.map_or_else(Vec::new, |leader| leader.outbox.drain().collect())
    }

    pub(super) fn land_all(&mut self) {
        self.land(usize::MAX);
    }

    /// So many of what waits become durable.
    fn land(&mut self, count: usize) {
        let Some(mut leader) = self.leader.take() else {
            return;
        };
        let waiting = leader.queue.len().min(count);
        for item in leader.queue.drain(..waiting) {
            match item {
                Pending::Batch(batch, now) => {
                    self.keep(&batch, now);
                    leader.outbox.release(batch.durable());
                }
                Pending::Look(wall) => self.looks.push(Look {
                    after: self.entries.len(),
                    wall,
                }),
            }
        }
        self.leader = Some(leader);
        if self.kept.instances().count() > ENDED_KEPT {
            self.kept.drop_all_ended();
        }
    }

    /// Keeps every fact, also one that does not fit: judging is for the checker.
    fn keep(&mut self, batch: &Batch<Fact>, now: Now) {
        self.batches += 1;
        for fact in batch.facts() {
            self.trace
                .note(self.elapsed(), fact, || format!("kept: {fact}"));
            if let Err(error) = self.kept.apply(fact) {
                let what = format!("{fact}: {error}");
                self.contradiction.get_or_insert(what);
            }
            self.entries.push(Entry {
                epoch: batch.epoch(),
                batch: self.batches,
                now,
                fact: fact.clone(),
            });
        }
    }

    fn elect(&mut self) {
        self.land_some();
        self.epoch = self.epoch.next();
        let config = Config {
            bugs: self.bugs,
            ..Config::default()
        };
        let (epoch, now) = (self.epoch, self.now());
        self.leader = Some(Leader {
            core: Scheduler::new(config, epoch, self.kept.clone(), now),
            outbox: Outbox::new(epoch),
            queue: VecDeque::new(),
        });
        self.tell(|| format!("{epoch} leads"));
        if self.rng.chance(700) {
            self.look();
        }
    }

    /// A prefix of what waits lands; what follows it never will.
    fn land_some(&mut self) {
        let waiting = self.leader.as_ref().map_or(0, |it| it.queue.len());
        let landed = self.rng.below(waiting as u64 + 1) as usize;
        self.land(landed);
    }

    /// The leader dies, perhaps in the middle of something.
    fn crash(&mut self) {
        if self.rng.chance(500) {
            self.give(Input::Tick);
        }
        self.land_some();
        self.leader = None;
        self.tell(|| "the leader dies".to_owned());
    }

    /// A commit fails, after those before it have landed: the leader is ahead of its store.
    fn fail(&mut self) {
        self.land_some();
        self.leader = None;
        self.tell(|| "a commit fails".to_owned());
        self.elect();
    }

    /// Another leads, and the old one has not noticed.
    fn overtake(&mut self) {
        self.land_some();
        self.deposed = self.leader.take();
        self.elect();
    }

    /// A leader that was overtaken decides something more; the store refuses it.
    fn late_word(&mut self) {
        let now = self.now();
        if !self.rng.chance(300) {
            return;
        }
        if let Some(mut deposed) = self.deposed.take() {
            let step = deposed.core.handle(now, Input::Tick);
            let batch = deposed.outbox.accept(step);
            let refused = batch.is_none_or(|batch| batch.epoch() != self.epoch);
            assert!(refused, "two leaders have one epoch");
        }
    }

    /// Somebody sets the wall clock.
    fn jump(&mut self) {
        let by = self.pace.jump(&mut self.rng);
        let before = self.wall;
        self.wall = if self.rng.chance(500) {
            before + by
        } else {
            before.saturating_sub(by)
        };
        self.tell(|| format!("the clock was set; it showed {before}"));
        // Whoever notices first.
        if self.rng.chance(800) {
            self.look();
        }
    }
}
