//! Placement and the model side by side, under random operations.

use std::collections::BTreeMap;

use baton_model::ids::InstanceId;
use baton_model::time::Millis;
use baton_testing::Rng;

use super::naive::{Item, Naive};
use super::*;
use crate::wait::{Exclusion, Wait, WaitReason};

pub(super) const OWNERS: [&str; 4] = ["ann", "bob", "cid", "dee"];

pub(super) fn requests() -> Vec<ResourceRequest> {
    let mut gpu = request(1, 1);
    gpu.resources.gpu = DeviceAmount::whole(1);
    let mut disk = request(1, 1);
    disk.resources.disk = 40 * GIB;
    vec![
        request(1, 1),
        request(2, 1),
        request(1, 3),
        request(6, 6),
        request(0, 0),
        with_label(request(1, 1), "zone", "a"),
        with_label(request(3, 1), "zone", "b"),
        gpu,
        disk,
        with_named(request(1, 1), "licence", 1),
        with_named(request(1, 1), "db", 1),
        with_named(with_named(request(2, 2), "db", 3), "licence", 1),
    ]
}

pub(super) struct World {
    rng: Rng,
    pub(super) p: Placement,
    naive: Naive,
    next_id: u64,
    sequence: u64,
    /// What has ended or was cancelled, and may come back.
    past: Vec<(u64, Item)>,
    items: BTreeMap<u64, Item>,
    pub(super) log: Vec<(u64, String)>,
    /// Decisions that were held against the model's.
    pub(super) exact: u64,
    /// Decisions while something was reserved.
    pub(super) bound: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        // Of every other seed, an owner has several decisions in a turn.
        let weight = if seed.is_multiple_of(2) { 1 } else { 3 };
        let mut p = Placement::default();
        p.set_share(OWNERS[1], weight);
        let naive = Naive {
            requests: requests(),
            weights: [(1, weight)].into(),
            ..Naive::default()
        };
        Self {
            rng: Rng::new(seed),
            p,
            naive,
            next_id: 1,
            sequence: 1,
            past: Vec::new(),
            items: BTreeMap::new(),
            log: Vec::new(),
            exact: 0,
            bound: 0,
        }
    }

    pub(super) fn turn(&mut self) {
        match self.rng.below(20) {
            0 | 1 => self.worker_joins(),
            2 => self.worker_goes(),
            3..=7 => self.arrives(),
            8 => self.returns(),
            9 => self.withdraws(),
            10 => self.limit_changes(),
            11 => self.adopts(),
            12 => {
                let class = ClassId(self.rng.below(14) as usize);
                self.p.record_run_time(class, Millis(self.rng.below(1_000)));
            }
            _ => self.releases(),
        }
        if self.rng.below(3) > 0 {
            self.decide();
        }
    }

    /// Equal workers that have everything, for [`Self::busy_turn`].
    pub(super) fn settle(&mut self) {
        for worker in ["w0", "w1", "w2"] {
            let mut offer = offer(8, 16, 2);
            offer.capacity.named.insert("licence".to_owned(), 2);
            offer.labels.insert("zone".to_owned(), "a".to_owned());
            join(&mut self.p, worker, offer.clone());
            self.naive.workers.insert(worker.to_owned(), offer);
        }
        self.p.set_limit("db", Some(3)).expect("one limit");
        self.naive.limits.insert("db".to_owned(), 3);
    }

    /// Many small ones and a few large, on workers that stay: here the large ones
    /// have to reserve.
    pub(super) fn busy_turn(&mut self) {
        while self.naive.waiting.len() < 30 {
            let large = self.rng.below(30) == 0;
            let kinds: &[usize] = if large { &[3, 11] } else { &[0, 1, 2, 10] };
            let item = Item {
                sequence: self.sequence,
                priority: 0,
                owner: self.rng.below(2) as usize,
                request: self.rng.pick(kinds),
            };
            self.enter(self.next_id, self.next_id, item);
            self.sequence += 1;
            self.next_id += 1;
        }
        self.releases();
        self.decide();
    }

    fn worker_joins(&mut self) {
        let worker = format!("w{}", self.rng.below(6));
        let gpu = self.rng.below(6).saturating_sub(3) as u32;
        let mut offer = offer(1 + self.rng.below(8), 1 + self.rng.below(10), gpu);
        offer.open = self.rng.below(8) > 0;
        let zone = self.rng.pick(&["a", "b"]);
        offer.labels.insert("zone".to_owned(), zone.to_owned());
        let licences = self.rng.below(3);
        offer.capacity.named.insert("licence".to_owned(), licences);
        join(&mut self.p, &worker, offer.clone());
        self.naive.workers.insert(worker, offer);
    }

    fn worker_goes(&mut self) {
        let worker = format!("w{}", self.rng.below(6));
        if self.rng.below(2) == 0 {
            self.p.close(&name(&worker), Exclusion::Drained);
            if let Some(offer) = self.naive.workers.get_mut(&worker) {
                offer.open = false;
            }
        } else {
            self.p.remove_worker(&name(&worker));
            self.naive.workers.remove(&worker);
        }
    }

    fn arrives(&mut self) {
        if self.naive.waiting.len() > 60 {
            return;
        }
        let len = if self.rng.below(3) == 0 {
            1 + self.rng.below(9)
        } else {
            1
        };
        let item = Item {
            sequence: self.sequence,
            priority: self.rng.below(3) as i32 - 1,
            owner: self.rng.below(4) as usize,
            request: self.rng.below(self.naive.requests.len() as u64) as usize,
        };
        let first = self.next_id;
        self.sequence += 1;
        self.next_id += len + self.rng.below(2);
        self.enter(first, first + len - 1, item);
    }

    fn enter(&mut self, first: u64, last: u64, item: Item) {
        let wanted = self.naive.requests[item.request].clone();
        let owner = OWNERS[item.owner];
        wait_range(
            &mut self.p,
            (first, last),
            &wanted,
            owner,
            item.priority,
            item.sequence,
        );
        for id in first..=last {
            self.naive.add(id, item);
            self.items.insert(id, item);
        }
    }

    fn returns(&mut self) {
        if self.past.is_empty() {
            return;
        }
        let at = self.rng.below(self.past.len() as u64) as usize;
        let (id, item) = self.past.swap_remove(at);
        self.enter(id, id, item);
    }

    fn withdraws(&mut self) {
        let first = self.rng.below(self.next_id + 1);
        let last = first + self.rng.below(4);
        let gone: Vec<u64> = self
            .naive
            .waiting
            .range(first..=last)
            .map(|(id, _)| *id)
            .collect();
        let count = self.p.withdraw(InstanceId(first), InstanceId(last));
        assert_eq!(count, gone.len() as u64);
        for id in gone {
            let item = self.naive.waiting.remove(&id).expect("just seen");
            self.past.push((id, item));
        }
    }

    fn limit_changes(&mut self) {
        let total = self.rng.below(6).checked_sub(1);
        self.p.set_limit("db", total).expect("one limit");
        match total {
            Some(total) => self.naive.limits.insert("db".to_owned(), total),
            None => self.naive.limits.remove("db"),
        };
    }

    fn adopts(&mut self) {
        let worker = format!("w{}", self.rng.below(6));
        let waiting: Vec<u64> = self.naive.waiting.keys().copied().collect();
        if !waiting.is_empty() {
            let id = self.rng.pick(&waiting);
            let item = self.naive.waiting.remove(&id).expect("just seen");
            let wanted = &self.naive.requests[item.request];
            self.p
                .adopt(&name(&worker), InstanceId(id), wanted)
                .expect("not placed");
            self.naive.placed.insert(id, (worker, item.request));
        }
    }

    fn releases(&mut self) {
        let running: Vec<u64> = self.naive.placed.keys().copied().collect();
        if !running.is_empty() {
            let id = self.rng.pick(&running);
            let (worker, _) = self.naive.placed.remove(&id).expect("just seen");
            release(&mut self.p, &worker, id);
            self.past.push((id, self.items[&id]));
        }
    }

    fn decide(&mut self) {
        loop {
            let free_choice = self.p.reservations().count() == 0;
            let expected = self.naive.next();
            let decision = self.p.next().map(|d| (d.instance.0, d.worker.to_string()));
            if free_choice {
                assert_eq!(decision, expected, "{:?}", self.naive);
                self.exact += 1;
            } else {
                self.bound += u64::from(decision.is_some());
            }
            let Some((id, worker)) = decision else {
                break;
            };
            let request = self.naive.waiting[&id].request;
            assert!(
                self.naive.fits(&worker, request),
                "oversubscribed: {id} on {worker}"
            );
            assert!(self.naive.within_limits(request), "a limit overdrawn: {id}");
            self.naive.place(id, &worker);
            self.log.push((id, worker));
        }
        self.nothing_is_left();
        self.explanations_agree();
    }

    /// What could be placed is kept back by a reservation alone.
    fn nothing_is_left(&self) {
        let reserved: Vec<_> = self.p.reservations().collect();
        let limit_kept = |request: &ResourceRequest| {
            let mut limits = reserved.iter().filter_map(|r| r.limit.as_ref());
            limits.any(|limit| request.resources.named.contains_key(&limit.to_string()))
        };
        for item in self.naive.waiting.values() {
            let request = &self.naive.requests[item.request];
            if !self.naive.within_limits(item.request) || limit_kept(request) {
                continue;
            }
            let fitting = self
                .naive
                .workers
                .keys()
                .filter(|w| self.naive.fits(w, item.request));
            for worker in fitting {
                let by = reserved.iter().find(|r| r.workers.contains(&name(worker)));
                let by = by.expect("left waiting though there is room");
                assert_ne!(
                    Some(by.class),
                    self.p.class(request),
                    "kept from its own worker"
                );
            }
        }
    }

    /// After the last decision no wait is explained by nothing, and every explanation counts every
    /// worker once.
    fn explanations_agree(&self) {
        for (id, item) in &self.naive.waiting {
            let said = self.p.explain(InstanceId(*id)).expect("it waits");
            assert_ne!(said.reason, WaitReason::Nothing, "{id} {item:?}");
        }
        for (at, request) in self.naive.requests.iter().enumerate() {
            let class = self.p.class(request);
            if let Some(said) = class.and_then(|class| self.p.explain_class(class)) {
                assert_eq!(said.ahead, 0, "{said:?}");
                self.every_worker_is_counted(&said, at);
            }
        }
    }

    fn every_worker_is_counted(&self, said: &Wait, request: usize) {
        let counted: usize = said.workers.iter().map(|group| group.workers).sum();
        assert_eq!(counted, self.naive.workers.len(), "{said:?}");
        for group in &said.workers {
            let (worker, exclusion) = (group.example.to_string(), &group.exclusion);
            let offer = &self.naive.workers[&worker];
            let has_room = self.naive.fits(&worker, request);
            let expected = match exclusion {
                None | Some(Exclusion::Reserved { .. }) => has_room,
                Some(Exclusion::Drained | Exclusion::Unhealthy) => !offer.open,
                Some(_) => !has_room,
            };
            assert!(expected, "{group:?} {offer:?}");
            let is_named = exclusion.as_ref().is_none_or(|it| !it.is_lasting());
            assert!(is_named || group.remedy(None).is_some(), "{group:?}");
        }
    }
}
