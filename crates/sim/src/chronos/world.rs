//! Changing leaders, a store, and two clocks.
//!
//! A leader's batches wait in a queue. The durable ones are always a prefix: batches commit one
//! after the other, a failed commit ends the leader, a crash loses uncommitted batches, and a
//! deposed leader commits nothing any more.

use std::collections::VecDeque;

use baton_core::bugs::Bugs;
use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::Epoch;
use baton_model::library::Definition;
use baton_model::time::{Millis, Mono, Now, Wall};

use super::check::{ClockCheck, Entry, History};
use super::draw::{TimeScale, YEAR};
use crate::checkers::Violation;
use crate::leader::Leader;
use crate::rng::Rng;
use crate::time::{MILLI, Time};
use crate::trace::{Detail, Trace};

/// Events of one run.
const EVENTS: u64 = 220;

/// Consecutive clock checks that one wake-up may need, with a margin.
const CLOCK_CHECKS_MAX: usize = 1_000;

/// Ended instances, and runs, that the store keeps for retries and resumes.
const ENDED_MAX: usize = 300;

/// An entry of the commit queue.
#[derive(Debug)]
enum Pending {
    Batch(Batch<Fact>, Now),
    /// The leader has checked the clock at this wall time.
    ClockCheck(Wall),
}

/// A leader, and what it waits for.
#[derive(Debug)]
struct Term {
    leader: Leader,
    queue: VecDeque<Pending>,
}

/// One run.
#[derive(Debug)]
pub(super) struct World {
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    scale: TimeScale,
    bugs: Bugs,
    mono: u64,
    wall: u64,
    started: u64,
    epoch: Epoch,
    durable: Ledger,
    entries: Vec<Entry>,
    clock_checks: Vec<ClockCheck>,
    batches: u64,
    term: Option<Term>,
    /// A deposed leader that has not noticed yet.
    deposed: Option<Term>,
    /// Whether batches stay in the queue.
    slow: bool,
    /// Workers so far.
    pub(super) workers: u64,
    contradiction: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, bugs: Bugs, detail: Detail) -> Self {
        let mut rng = Rng::new(seed);
        let scale = TimeScale::draw(&mut rng);
        let mono = rng.below(YEAR);
        Self {
            trace: Trace::new(detail),
            wall: TimeScale::start(&mut rng),
            scale,
            bugs,
            mono,
            started: mono,
            rng,
            epoch: Epoch(0),
            durable: Ledger::default(),
            entries: Vec::new(),
            clock_checks: Vec::new(),
            batches: 0,
            term: None,
            deposed: None,
            slow: false,
            workers: 0,
            contradiction: None,
        }
    }

    pub(super) fn run(&mut self) {
        self.elect_leader();
        for _ in 0..self.rng.within(1, 4) {
            self.define();
        }
        for _ in 0..EVENTS {
            self.event();
        }
        self.slow = false;
        self.elect_leader();
        self.pass(self.scale.unit);
        self.check_clock();
        self.commit_all();
    }

    pub(super) fn history(&self) -> History<'_> {
        History {
            entries: &self.entries,
            clock_checks: &self.clock_checks,
        }
    }

    /// A contradiction that the ledger reported.
    pub(super) fn contradiction(&self) -> Option<Violation> {
        let what = self.contradiction.clone()?;
        let checker = "contradiction";
        Some(Violation { checker, what })
    }

    pub(super) const fn elapsed(&self) -> Time {
        Time((self.mono - self.started) * MILLI)
    }

    pub(super) const fn now(&self) -> Now {
        Now {
            mono: Mono(self.mono),
            wall: Wall(self.wall),
        }
    }

    /// The durable facts.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Draws an interval that ended a while ago.
    pub(super) fn past_interval(&mut self) -> (Wall, Wall) {
        let ago = self.rng.below(30 * self.scale.unit);
        let length = self.rng.below(60 * self.scale.unit);
        let to = self.wall.saturating_sub(ago);
        (Wall(to.saturating_sub(length)), Wall(to))
    }

    /// The durable ledger, with some ended instances.
    pub(super) const fn durable(&self) -> &Ledger {
        &self.durable
    }

    /// The ledger with the leader's uncommitted decisions.
    pub(super) fn decided(&self) -> Option<&Ledger> {
        self.term.as_ref().map(|term| term.leader.core().ledger())
    }

    /// Draws a definition.
    pub(super) fn definition(&mut self) -> Definition {
        self.scale.definition(&mut self.rng)
    }

    /// Advances both clocks.
    pub(super) const fn pass(&mut self, span: u64) {
        self.mono += span;
        self.wall += span;
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let (at, shown) = (self.elapsed(), self.wall);
        self.trace
            .note(at, &shown, || format!("[{shown}] {}", what()));
    }

    fn event(&mut self) {
        if self.term.is_none() {
            let absence = self.scale.outage(&mut self.rng);
            self.pass(absence);
            self.elect_leader();
        }
        match self.rng.below(100) {
            0..=39 => self.wait(),
            40..=49 => {
                let span = self.scale.short_span(&mut self.rng);
                self.pass(span);
                self.check_clock();
            }
            50..=55 => self.crash(),
            56..=59 => self.overtake(),
            60..=63 => self.step_wall(),
            64..=69 => self.define(),
            70..=71 => self.remove(),
            72..=75 => self.trigger(),
            76..=77 => self.cancel(),
            78 => self.halt(),
            94 => self.backfill(),
            95 => self.change_backfill(),
            79..=80 => self.resume(),
            81..=82 => self.retry(),
            83..=89 => self.run_worker(),
            90..=91 => self.pause(),
            92..=93 => self.slow = !self.slow,
            96 => self.fail(),
            _ => self.freeze_leader(),
        }
        self.deposed_leader_acts();
        if !self.slow {
            self.commit_all();
        }
    }

    /// Waits until something is due, and slightly longer, as drivers do.
    fn wait(&mut self) {
        let next = self
            .term
            .as_ref()
            .and_then(|it| it.leader.core().next_tick());
        let longest = 400 * self.scale.unit;
        let span = next.map_or(longest, |next| next.since(Wall(self.wall)).0);
        let lag = self.rng.below(900);
        self.pass(span.min(longest) + lag);
        self.check_clock();
    }

    /// Freezes the leader for a while; it still leads afterwards.
    fn freeze_leader(&mut self) {
        let span = self.scale.outage(&mut self.rng);
        self.note(|| format!("stopped for {}", Millis(span)));
        self.pass(span);
        self.check_clock();
    }

    /// Lets the leader check the clock until nothing is due.
    fn check_clock(&mut self) {
        for _ in 0..CLOCK_CHECKS_MAX {
            self.feed(Input::Tick);
            let wall = Wall(self.wall);
            let Some(Term { leader, queue }) = &mut self.term else {
                return;
            };
            if leader.core().next_tick().is_none_or(|next| next > wall) {
                queue.push_back(Pending::ClockCheck(wall));
                return;
            }
        }
        let what = format!("something is still due after {CLOCK_CHECKS_MAX} clock checks");
        self.contradiction.get_or_insert(what);
    }

    /// Passes an input to the leader, if there is one.
    pub(super) fn feed(&mut self, input: Input) {
        let now = self.now();
        let Some(Term { leader, queue }) = &mut self.term else {
            return;
        };
        let step = leader.decide(now, input);
        leader.accept(step);
        let batch = leader.next_batch();
        queue.extend(batch.map(|batch| Pending::Batch(batch, now)));
    }

    /// Returns the released effects.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        let term = self.term.as_mut();
        term.map_or_else(Vec::new, |term| term.leader.take_ready())
    }

    pub(super) fn commit_all(&mut self) {
        self.commit(usize::MAX);
    }

    /// Makes up to `count` queue entries durable.
    fn commit(&mut self, count: usize) {
        let Some(mut term) = self.term.take() else {
            return;
        };
        let waiting = term.queue.len().min(count);
        for item in term.queue.drain(..waiting) {
            match item {
                Pending::Batch(batch, now) => {
                    self.persist(&batch, now);
                    term.leader.release(batch.durable());
                }
                Pending::ClockCheck(wall) => self.clock_checks.push(ClockCheck {
                    after: self.entries.len(),
                    wall,
                }),
            }
        }
        self.term = Some(term);
        if self.durable.instances().count() > ENDED_MAX {
            self.durable.drop_all_ended();
        }
        if self.durable.runs().iter().count() > ENDED_MAX {
            self.durable.runs_mut().drop_all_ended();
        }
    }

    /// Stores every fact, even one that the ledger rejects: the checker judges it.
    fn persist(&mut self, batch: &Batch<Fact>, now: Now) {
        self.batches += 1;
        for fact in batch.facts() {
            self.trace
                .note(self.elapsed(), fact, || format!("stored: {fact}"));
            if let Err(error) = self.durable.apply(fact) {
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

    fn elect_leader(&mut self) {
        self.commit_prefix();
        self.epoch = Epoch(self.epoch.0 + 1);
        let config = Config {
            bugs: self.bugs,
            ..Config::default()
        };
        let (epoch, now) = (self.epoch, self.now());
        let core = Scheduler::new(config, epoch, self.durable.clone(), now);
        self.term = Some(Term {
            leader: Leader::new(core),
            queue: VecDeque::new(),
        });
        self.note(|| format!("{epoch} leads"));
        if self.rng.chance(700) {
            self.check_clock();
        }
    }

    /// Commits a random prefix of the queue.
    fn commit_prefix(&mut self) {
        let waiting = self.term.as_ref().map_or(0, |it| it.queue.len());
        let committed = self.rng.below(waiting as u64 + 1) as usize;
        self.commit(committed);
    }

    /// The leader crashes, perhaps in the middle of a decision.
    fn crash(&mut self) {
        if self.rng.chance(500) {
            self.feed(Input::Tick);
        }
        self.commit_prefix();
        self.term = None;
        self.note(|| "the leader crashes".to_owned());
    }

    /// A commit fails after earlier ones succeeded: the leader is ahead of its store.
    fn fail(&mut self) {
        self.commit_prefix();
        self.term = None;
        self.note(|| "a commit fails".to_owned());
        self.elect_leader();
    }

    /// Elects another leader; the old one does not notice.
    fn overtake(&mut self) {
        self.commit_prefix();
        self.deposed = self.term.take();
        self.elect_leader();
    }

    /// A deposed leader makes another decision; the store refuses it.
    fn deposed_leader_acts(&mut self) {
        let now = self.now();
        if !self.rng.chance(300) {
            return;
        }
        if let Some(mut deposed) = self.deposed.take() {
            let step = deposed.leader.decide(now, Input::Tick);
            deposed.leader.accept(step);
            let batch = deposed.leader.next_batch();
            let refused = batch.is_none_or(|batch| batch.epoch() != self.epoch);
            assert!(refused, "two leaders have one epoch");
        }
    }

    /// Steps the wall clock.
    fn step_wall(&mut self) {
        let by = self.scale.wall_step(&mut self.rng);
        let before = self.wall;
        self.wall = if self.rng.chance(500) {
            before + by
        } else {
            before.saturating_sub(by)
        };
        self.note(|| format!("the clock was set; it showed {before}"));
        // Usually the leader notices at once.
        if self.rng.chance(800) {
            self.check_clock();
        }
    }
}
