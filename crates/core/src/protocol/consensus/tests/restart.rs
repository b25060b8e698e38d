//! The safety property, with a network that loses, delays and reorders, and a
//! restart imagined after every step.
//!
//! A [`World`] holds one scheduler's [`Consensus`] and what each worker *really*
//! holds, which the scheduler learns only from echoes. After each step every
//! group of workers is asked what a fresh scheduler would conclude if exactly
//! that group connected. The floors are checked on the way against [`Naive`],
//! which follows the definition with a full list of every set there ever was.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const MEMBERS_MAX: usize = 6;
/// Departed workers that still connect: more than the protocol allows, but it
/// keeps its promise as long as one true member is among them.
const UNDEAD_MAX: usize = 2;
/// More would be mostly old news, and little would ever be learnt.
const UNDER_WAY_MAX: usize = 8;
const RUNS: u64 = 400;
const STEPS: u64 = 300;

/// Small, fast and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let n = from.len() as u64;
        (n > 0).then(|| from[self.below(n) as usize])
    }
}

/// The definition, as it is said: through every set, one pair at a time.
#[derive(Default)]
struct Naive {
    /// For each version, who was in the set.
    sets: Vec<BTreeSet<Incarnation>>,
    first: BTreeMap<Incarnation, usize>,
    /// Also of those who left, as it was then.
    floor: BTreeMap<Incarnation, usize>,
}

impl Naive {
    fn now(&self) -> BTreeSet<Incarnation> {
        self.sets.last().cloned().unwrap_or_default()
    }

    fn join(&mut self, who: Incarnation) {
        let mut set = self.now();
        set.insert(who);
        self.first.insert(who, self.sets.len());
        self.sets.push(set);
    }

    fn leave(&mut self, who: Incarnation) {
        let mut set = self.now();
        set.remove(&who);
        self.sets.push(set);
    }

    fn echo(&mut self, who: Incarnation, version: usize) {
        if self.now().contains(&who) {
            let floor = self.floor.entry(who).or_insert(version);
            *floor = version.max(*floor);
        }
    }

    fn propagate(&mut self) {
        let present = self.now();
        loop {
            let was = self.floor.clone();
            for who in &present {
                let Some(&floor) = self.floor.get(who) else {
                    continue;
                };
                let known = self.sets[floor].iter().filter_map(|m| self.floor.get(m));
                let highest = known.copied().max().unwrap_or(floor).max(floor);
                self.floor.insert(*who, highest);
            }
            if self.floor == was {
                return;
            }
        }
    }

    fn permits(&self, who: Incarnation, counts: impl Fn(Incarnation) -> bool) -> bool {
        let first = self.first[&who];
        let waits_for = |u: &Incarnation| counts(*u) && self.first[u] < first;
        let knows = |u: &Incarnation| self.floor.get(u).is_some_and(|&floor| floor >= first);
        self.floor.contains_key(&who) && self.now().iter().all(|u| !waits_for(u) || knows(u))
    }
}

/// What is under way between a worker and the scheduler.
#[derive(Clone, Copy)]
enum Message {
    Heartbeat(Incarnation, Option<WorkerSetId>),
    Reply(Incarnation, WorkerSetId),
}

struct World {
    random: Random,
    /// How rare trouble is in this run: some are hectic, some quiet.
    calm: u64,
    consensus: Consensus,
    naive: Naive,
    incarnations: u64,
    /// The id that each worker really holds, the departed included.
    held: BTreeMap<Incarnation, Option<WorkerSetId>>,
    /// Those who left and might connect all the same.
    undead: Vec<Incarnation>,
    /// Members known to be past coming back: they do not count.
    gone: BTreeSet<Incarnation>,
    permitted: BTreeSet<Incarnation>,
    network: Vec<Message>,
    /// How often some group agreed, and a worker was permitted that was not the
    /// first: proof that the checks were about something.
    agreements: u64,
    permissions: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut naive = Naive::default();
        naive.sets.push(BTreeSet::new());
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            calm: 1 + seed % 5,
            consensus: Consensus::new(NOW),
            naive,
            incarnations: 0,
            held: BTreeMap::new(),
            undead: Vec::new(),
            gone: BTreeSet::new(),
            permitted: BTreeSet::new(),
            network: Vec::new(),
            agreements: 0,
            permissions: 0,
        }
    }

    fn members(&self) -> Vec<Incarnation> {
        self.naive.now().into_iter().collect()
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 | 1 => self.arrive(),
            3 if self.random.one_in(self.calm) => self.depart(),
            4 if self.random.one_in(self.calm) => self.worker_restarts(),
            5 if self.random.one_in(self.calm) => self.give_up(),
            6..=16 => self.send_heartbeat(),
            17..=34 => self.deliver(),
            35 => self.lose(),
            36..=39 => {
                self.consensus.propagate();
                self.naive.propagate();
            }
            _ => {}
        }
        if self.network.len() > UNDER_WAY_MAX {
            self.lose();
        }
        self.permit();
    }

    /// A worker comes, new or with an id of the scheduler before: of itself
    /// alone, or of itself and the next one to come.
    fn arrive(&mut self) {
        if self.naive.now().len() == MEMBERS_MAX {
            return;
        }
        self.incarnations += 1;
        let who = w(self.incarnations);
        let initial = match self.random.below(4) {
            0 => Some(id_of(BEFORE, 1, [who])),
            1 => Some(id_of(BEFORE, 2, [who, w(self.incarnations + 1)])),
            2 => Some(id_of(BEFORE, 2, [w(self.incarnations.max(2) - 1), who])),
            _ => None,
        };
        self.held.insert(who, initial);
        self.consensus.join(who, initial);
        self.naive.join(who);
        self.reply(who);
    }

    fn depart(&mut self) {
        if let Some(who) = self.random.pick(&self.members()) {
            self.consensus.leave(who);
            self.naive.leave(who);
            self.permitted.remove(&who);
            if !self.gone.contains(&who) {
                self.undead.push(who);
            }
            if self.undead.len() > UNDEAD_MAX {
                self.undead.remove(0);
            }
        }
    }

    /// It is the same life, but it has forgotten its id, and its connection with
    /// all that was under way is lost.
    fn worker_restarts(&mut self) {
        if let Some(who) = self.random.pick(&self.members()) {
            self.held.insert(who, None);
            self.network.retain(|message| match message {
                Message::Heartbeat(of, _) | Message::Reply(of, _) => *of != who,
            });
        }
    }

    fn give_up(&mut self) {
        if let Some(who) = self.random.pick(&self.members()) {
            self.gone.insert(who);
            // Nothing is promised about what is on a worker that has ended.
            self.permitted.remove(&who);
        }
    }

    fn send_heartbeat(&mut self) {
        if let Some(who) = self.random.pick(&self.members()) {
            let message = Message::Heartbeat(who, self.held[&who]);
            self.network.push(message);
        }
    }

    fn reply(&mut self, who: Incarnation) {
        let message = Message::Reply(who, self.consensus.current());
        self.network.push(message);
    }

    fn take(&mut self) -> Option<Message> {
        let n = self.network.len() as u64;
        (n > 0).then(|| self.network.swap_remove(self.random.below(n) as usize))
    }

    fn lose(&mut self) {
        self.take();
    }

    /// Any message that is under way arrives, however late.
    fn deliver(&mut self) {
        match self.take() {
            Some(Message::Heartbeat(who, id)) => self.heartbeat(who, id),
            Some(Message::Reply(who, id)) => self.receive(who, id),
            None => {}
        }
    }

    fn heartbeat(&mut self, who: Incarnation, id: Option<WorkerSetId>) {
        if !self.consensus.contains(who) {
            // Refused: leaving is final.
            return;
        }
        self.consensus.join(who, id);
        if let Some(id) = id {
            self.consensus.echo(who, id);
            if id.epoch == NOW {
                self.naive.echo(who, id.version.0 as usize);
            }
        }
        self.reply(who);
    }

    fn receive(&mut self, who: Incarnation, id: WorkerSetId) {
        let held = self.held[&who].filter(|held| held.epoch == NOW);
        self.held.insert(who, held.max(Some(id)));
    }

    fn permit(&mut self) {
        let counts = |who| !self.gone.contains(&who);
        for who in self.members() {
            let permits = self.consensus.permits(who, counts);
            assert_eq!(permits, self.naive.permits(who, counts), "{who}");
            if permits && counts(who) && self.permitted.insert(who) {
                let first = self.naive.first[&who];
                let others = self.naive.now();
                let waited = others
                    .iter()
                    .any(|u| counts(*u) && self.naive.first[u] < first);
                self.permissions += u64::from(waited);
            }
        }
    }

    /// The property: a permitted worker is in every group that agrees.
    fn check_all_restarts(&mut self) {
        let members: BTreeSet<_> = self.members().into_iter().collect();
        let connect = members.iter().chain(&self.undead).copied();
        let connect: Vec<_> = connect.filter(|who| !self.gone.contains(who)).collect();
        for bits in 1..1_u32 << connect.len() {
            let group = connect.iter().enumerate();
            let group = group.filter(|(i, _)| bits >> i & 1 == 1);
            let shown: Vec<_> = group.map(|(_, who)| (*who, self.held[who])).collect();
            let true_members = shown.iter().filter(|(who, _)| members.contains(who));
            if true_members.clone().next().is_none() || !restarted(&shown) {
                continue;
            }
            self.agreements += 1;
            let left_out = |w: &&Incarnation| shown.iter().all(|(who, _)| who != *w);
            for w in self.permitted.iter().filter(left_out) {
                // Only those may agree without w that know nothing of this epoch,
                // and they came after w: the initial wait has seen to the rest.
                for (who, id) in true_members.clone() {
                    let earlier_epoch = id.is_some_and(|id| id.epoch == BEFORE);
                    let came_later = self.naive.first[who] > self.naive.first[w];
                    assert!(earlier_epoch && came_later, "{w} left out by {shown:?}");
                }
            }
        }
    }

    /// From now on nothing is lost: two heartbeats each.
    fn settle(&mut self) {
        for _ in 0..2 {
            for who in self.members() {
                self.heartbeat(who, self.held[&who]);
                self.receive(who, self.consensus.current());
            }
        }
        self.permit();
    }
}

#[test]
fn no_group_ever_agrees_without_a_permitted_worker() {
    let (mut agreements, mut permissions) = (0, 0);
    for seed in 1..=RUNS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check_all_restarts();
        }
        agreements += world.agreements;
        permissions += world.permissions;
    }
    assert!(agreements > RUNS * 10, "only {agreements} agreements");
    assert!(permissions > RUNS * 3, "only {permissions} permissions");
}

#[test]
fn whatever_happened_two_heartbeats_of_all_workers_permit_all() {
    for seed in 1..=RUNS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        for who in world.members() {
            assert!(world.consensus.permits(who, all_count), "{seed}: {who}");
        }
        world.check_all_restarts();
    }
}
