//! The model: plain lists, and every question answered from scratch.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use baton_model::placement::{Offer, ResourceRequest};

use crate::placement::need::holds;

/// One that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) sequence: u64,
    pub(super) priority: i32,
    pub(super) owner: usize,
    pub(super) request: usize,
}

/// What is known, and nothing derived from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Naive {
    pub(super) requests: Vec<ResourceRequest>,
    pub(super) workers: BTreeMap<String, Offer>,
    pub(super) limits: BTreeMap<String, u64>,
    pub(super) waiting: BTreeMap<u64, Item>,
    pub(super) placed: BTreeMap<u64, (String, usize)>,
    /// In the order in which they came.
    pub(super) owners: Vec<usize>,
    pub(super) stamps: BTreeMap<usize, u64>,
    /// Weights other than 1, and the decisions of the turn of each owner.
    pub(super) weights: BTreeMap<usize, u32>,
    pub(super) taken: BTreeMap<usize, u32>,
    pub(super) served: u64,
}

/// A resource and its amount.
type Amounts = BTreeMap<String, u128>;

fn amounts(plain: [u64; 4], named: &BTreeMap<String, u64>) -> Amounts {
    let plain = ["cpu", "memory", "disk", "gpu"].into_iter().zip(plain);
    let plain = plain.map(|(name, amount)| (format!("/{name}"), u128::from(amount)));
    let named = named
        .iter()
        .map(|(name, amount)| (name.clone(), u128::from(*amount)));
    plain.chain(named).collect()
}

fn asked(request: &ResourceRequest) -> Amounts {
    let r = &request.resources;
    amounts([r.cpu_milli, r.memory_min, r.disk, r.gpu.milli()], &r.named)
}

fn offered(offer: &Offer) -> Amounts {
    let c = &offer.capacity;
    amounts([c.cpu_milli, c.memory, c.disk, c.gpu.milli()], &c.named)
}

impl Naive {
    fn used(&self, name: &str, on: impl Fn(&str) -> bool) -> u128 {
        let placed = self.placed.values().filter(|(worker, _)| on(worker));
        let amounts = placed.map(|(_, request)| asked(&self.requests[*request]).get(name).copied());
        amounts.map(Option::unwrap_or_default).sum()
    }

    fn free(&self, worker: &str, name: &str) -> u128 {
        let has = offered(&self.workers[worker]).get(name).copied();
        has.unwrap_or(0)
            .saturating_sub(self.used(name, |on| on == worker))
    }

    /// True if the limits that `ask` asks for have room.
    pub(super) fn within_limits(&self, request: usize) -> bool {
        let asked = asked(&self.requests[request]);
        self.limits
            .iter()
            .all(|(name, total)| match asked.get(name) {
                None | Some(0) => true,
                Some(amount) => self.used(name, |_| true) + amount <= u128::from(*total),
            })
    }

    pub(super) fn fits(&self, worker: &str, request: usize) -> bool {
        let offer = &self.workers[worker];
        let mut asked = asked(&self.requests[request]).into_iter();
        offer.open
            && self.requests[request]
                .constraints
                .iter()
                .all(|c| holds(c, &offer.labels))
            && asked.all(|(name, amount)| {
                self.limits.contains_key(&name) || self.free(worker, &name) >= amount
            })
    }

    /// What best fit goes by: scarce shares, then plain ones.
    fn leftover(&self, worker: &str) -> (u128, u128) {
        let names: BTreeSet<String> = self
            .workers
            .values()
            .flat_map(|o| offered(o).into_keys())
            .collect();
        let (mut scarce, mut plain) = (0, 0);
        for name in names.iter().filter(|name| !self.limits.contains_key(*name)) {
            let all = self.workers.values().map(|o| offered(o).get(name).copied());
            let unit = all.flatten().max().unwrap_or(0).next_power_of_two();
            let share = (self.free(worker, name) << 20) / unit;
            if name.starts_with('/') && name != "/gpu" {
                plain += share;
            } else {
                scarce += share;
            }
        }
        (scarce, plain)
    }

    /// Where one of `ask` goes if nothing is reserved.
    pub(super) fn spot(&self, request: usize) -> Option<String> {
        let open = self
            .workers
            .keys()
            .filter(|worker| self.fits(worker, request));
        open.min_by_key(|worker| (self.leftover(worker), (*worker).clone()))
            .cloned()
    }

    /// Everything that waits, in the order of service.
    pub(super) fn order(&self) -> Vec<u64> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_by_key(|(id, item)| {
            let stamp = self.stamps.get(&item.owner).copied().unwrap_or(0);
            let came = self.owners.iter().position(|owner| *owner == item.owner);
            (Reverse(item.priority), stamp, came, item.sequence, **id)
        });
        all.into_iter().map(|(id, _)| *id).collect()
    }

    /// The next decision if nothing is reserved.
    pub(super) fn next(&self) -> Option<(u64, String)> {
        self.order().into_iter().find_map(|id| {
            let request = self.waiting[&id].request;
            let spot = self
                .within_limits(request)
                .then(|| self.spot(request))
                .flatten()?;
            Some((id, spot))
        })
    }

    pub(super) fn add(&mut self, id: u64, item: Item) {
        self.waiting.insert(id, item);
        if !self.owners.contains(&item.owner) {
            self.owners.push(item.owner);
        }
    }

    /// Takes a decision in.
    pub(super) fn place(&mut self, id: u64, worker: &str) {
        let item = self.waiting.remove(&id).expect("it waited");
        self.placed.insert(id, (worker.to_owned(), item.request));
        self.served += 1;
        let taken = self.taken.entry(item.owner).or_default();
        *taken += 1;
        if *taken >= self.weights.get(&item.owner).copied().unwrap_or(1) {
            *taken = 0;
            self.stamps.insert(item.owner, self.served);
        }
    }
}
