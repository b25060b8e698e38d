//! All parties of a script, and the passing of time.

use std::collections::BTreeMap;

use baton_core::scheduler::{Effect, Input};
use baton_core::supervision::io::Event;
use baton_model::message::{ToScheduler, WorkerAddress};
use baton_model::time::{Millis, Mono};
use baton_sim::leader::Store;

use super::leader::Leader;
use super::network::{Body, Flight, Network, SendOutcome};
use super::render::{self, seconds};
use super::transcript::Transcript;
use super::worker::Party;

/// The longest wait that an exchange of messages covers.
const MOMENT: Millis = Millis(1);

/// Limit of steps per command, which only an endless loop exceeds.
const STEPS_MAX: u32 = 100_000;

/// All parties and messages of a script.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) leaders: BTreeMap<String, Leader>,
    pub(crate) workers: BTreeMap<String, Party>,
    pub(crate) stores: BTreeMap<String, Store>,
    pub(crate) network: Network,
    /// The scheduler that workers and clients connect to.
    pub(crate) leader: String,
    pub(crate) out: Transcript,
}

impl World {
    /// Ends the transcript of one command.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.out.quiet = false;
        self.out.silent = false;
        self.out.time = None;
        self.out.take()
    }

    pub(crate) fn worker(&mut self, name: &str) -> Result<&mut Party, String> {
        let found = self.workers.get_mut(name);
        found.ok_or_else(|| format!("unknown worker {name}\n"))
    }

    pub(crate) fn scheduler(&mut self, name: &str) -> Result<&mut Leader, String> {
        let found = self.leaders.get_mut(name);
        found.ok_or_else(|| format!("unknown scheduler {name}\n"))
    }

    /// Feeds an input to a scheduler.
    pub(crate) fn feed_scheduler(&mut self, name: &str, input: Input) -> Result<(), String> {
        self.scheduler(name)?;
        if let Some(leader) = self.leaders.get_mut(name) {
            leader.feed(input, &mut self.out);
            if !leader.manual {
                while self.commit(name)? {}
            }
        }
        self.release(name);
        Ok(())
    }

    /// Commits one batch; false if there is none, or if the scheduler steps down.
    pub(crate) fn commit(&mut self, name: &str) -> Result<bool, String> {
        let Some(leader) = self.leaders.get_mut(name) else {
            return Ok(false);
        };
        let store = leader.store.as_ref();
        let store = store.and_then(|store| self.stores.get_mut(store));
        match leader.commit(store, &mut self.out) {
            Ok(more) => {
                self.release(name);
                Ok(more)
            }
            Err(reason) => {
                self.out.line(&format!("{name}: commit refused: {reason}"));
                self.out.line(&format!("{name}: steps down"));
                self.leaders.remove(name);
                Ok(false)
            }
        }
    }

    /// Performs the effects of durable batches.
    fn release(&mut self, name: &str) {
        let Some(leader) = self.leaders.get_mut(name) else {
            return;
        };
        for effect in leader.released() {
            let line = match effect {
                Effect::Send(address, message) => {
                    let to = self.party_at(&address);
                    self.send(name, &to, Body::ToWorker(address, message));
                    continue;
                }
                Effect::Reply(request, reply) => render::reply(request, &reply),
                Effect::GrantSecrets(grant) => format!("secrets of {}", grant.lease),
                Effect::Fleet(call) => format!("{call:?}"),
                Effect::EpochOvertaken(epoch, _) => format!("a worker has obeyed {epoch}"),
            };
            self.out.line(&format!("{name}: {line}"));
        }
    }

    /// Feeds an event to a worker's agent, and the short wait that it may need afterwards: no two
    /// heartbeats leave at the same instant.
    pub(crate) fn feed_worker(&mut self, name: &str, event: Event) -> Result<(), String> {
        self.worker(name)?;
        if let Some(party) = self.workers.get_mut(name) {
            let sent = party.feed(event, &mut self.out);
            self.send_all(name, sent);
        }
        self.moment(name);
        Ok(())
    }

    fn moment(&mut self, name: &str) {
        let wait = self.due_in(name).unwrap_or(MOMENT + MOMENT);
        if wait > MOMENT {
            return;
        }
        if let Some(party) = self.workers.get_mut(name) {
            party.clock += wait;
            let sent = party.tick(&mut self.out);
            self.send_all(name, sent);
        }
    }

    /// Ticks a party.
    pub(crate) fn tick(&mut self, name: &str) -> Result<(), String> {
        if self.leaders.contains_key(name) {
            return self.feed_scheduler(name, Input::Tick);
        }
        self.worker(name)?;
        if let Some(party) = self.workers.get_mut(name) {
            let sent = party.tick(&mut self.out);
            self.send_all(name, sent);
        }
        self.moment(name);
        Ok(())
    }

    pub(crate) fn send_all(&mut self, from: &str, messages: Vec<ToScheduler>) {
        let to = self.leader.clone();
        for message in messages {
            self.send(from, &to, Body::ToScheduler(message));
        }
    }

    fn send(&mut self, from: &str, to: &str, body: Body) {
        match self.network.send(from, to, body) {
            SendOutcome::InFlight(text) => self.out.message(&text),
            SendOutcome::Lost(kind) => self.out.lost(kind),
        }
    }

    /// The party with this incarnation, or the incarnation itself if there is none.
    fn party_at(&self, address: &WorkerAddress) -> String {
        self.workers
            .values()
            .find(|party| WorkerAddress::from(&party.me) == *address)
            .map_or_else(
                || address.incarnation.to_string(),
                |party| party.name.clone(),
            )
    }

    /// Delivers one message.
    pub(crate) fn deliver(&mut self, number: u32) -> Result<(), String> {
        let Some(flight) = self.network.take(number) else {
            return Ok(());
        };
        let Flight { to, body, .. } = flight;
        match body {
            Body::ToScheduler(message) if self.leaders.contains_key(&to) => {
                self.feed_scheduler(&to, Input::Message(message))
            }
            Body::ToWorker(address, message) => {
                let lives = self.workers.get(&to).is_some_and(|party| {
                    party.me.incarnation == address.incarnation && party.is_up()
                });
                if !lives {
                    self.report_undeliverable(&to);
                    return Ok(());
                }
                // A resumed worker checks its clock before it reads messages.
                self.feed_worker(&to, Event::Message(message))
            }
            Body::ToScheduler(_) => {
                self.report_undeliverable(&to);
                Ok(())
            }
        }
    }

    fn report_undeliverable(&mut self, to: &str) {
        self.out.message(&format!("no receiver: {to}"));
    }

    /// Delivers and commits everything until the world is quiescent.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            let names: Vec<String> = self.leaders.keys().cloned().collect();
            for name in names {
                while self.commit(&name)? {}
            }
            if let Some(number) = self.network.next_free() {
                self.deliver(number)?;
            } else if let Some(name) = self.overdue_leader() {
                self.tick(&name)?;
            } else {
                return Ok(());
            }
        }
        Err("it does not settle\n".to_owned())
    }

    /// A scheduler that was frozen, has read its messages, and must now tick.
    fn overdue_leader(&self) -> Option<String> {
        let mut leaders = self.leaders.values();
        let overdue = leaders.find(|it| it.core().next_due().is_some_and(|due| due <= it.clock));
        overdue.map(|leader| leader.name.clone())
    }

    /// Advances the clocks of some parties by the same span; each party ticks exactly at its
    /// deadlines. With `exchange`, every message arrives at once.
    pub(crate) fn advance(
        &mut self,
        who: &[String],
        span: Millis,
        exchange: bool,
    ) -> Result<(), String> {
        let mut passed = Millis(0);
        for _ in 0..STEPS_MAX {
            let due = who
                .iter()
                .filter_map(|name| Some((self.due_in(name)?, name)))
                .min()
                .filter(|(wait, _)| passed + *wait <= span);
            let Some((wait, name)) = due else {
                self.move_clocks(who, span.saturating_sub(passed));
                return Ok(());
            };
            passed = passed + wait;
            self.move_clocks(who, wait);
            self.out.time = self.time_of(name);
            self.tick(name)?;
            if exchange {
                self.settle()?;
            }
            self.out.time = None;
        }
        Err("time does not pass\n".to_owned())
    }

    /// Advances the clocks of some parties without ticks.
    pub(crate) fn move_clocks(&mut self, who: &[String], span: Millis) {
        for name in who {
            if let Some(leader) = self.leaders.get_mut(name) {
                leader.clock += span;
            } else if let Some(party) = self.workers.get_mut(name) {
                party.clock += span;
            }
        }
    }

    /// The time until the next deadline of a party.
    fn due_in(&mut self, name: &str) -> Option<Millis> {
        if let Some(leader) = self.leaders.get(name) {
            return Some(leader.core().next_due()?.since(leader.clock));
        }
        let party = self.workers.get_mut(name)?;
        Some(party.next_due()?.since(party.clock))
    }

    /// A party's own time since the script began.
    fn time_of(&self, name: &str) -> Option<String> {
        let clock = match self.leaders.get(name) {
            Some(leader) => leader.elapsed(),
            None => self.workers.get(name)?.clock,
        };
        Some(format!("+{}", seconds(clock.since(Mono(0)))))
    }

    /// Every party, schedulers first.
    pub(crate) fn parties(&self) -> Vec<String> {
        let leaders = self.leaders.keys().cloned();
        leaders.chain(self.workers.keys().cloned()).collect()
    }
}
