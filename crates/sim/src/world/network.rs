//! Links that lose, duplicate, delay, reorder and partition.

use std::collections::BTreeSet;

use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};

use super::hosts::Host;
use super::{Event, World};

#[derive(Debug, Default)]
pub(super) struct Links {
    to_scheduler: BTreeSet<(usize, usize)>,
    to_host: BTreeSet<(usize, usize)>,
    /// Hosts that stay partitioned for good.
    severed: BTreeSet<usize>,
}

impl Links {
    pub(super) fn cut(&mut self, host: usize, scheduler: usize, there: bool, back: bool) {
        if there {
            self.to_scheduler.insert((host, scheduler));
        }
        if back {
            self.to_host.insert((host, scheduler));
        }
    }

    pub(super) fn heal(&mut self, host: usize, scheduler: usize) {
        self.to_scheduler.remove(&(host, scheduler));
        self.to_host.remove(&(host, scheduler));
    }

    pub(super) fn heal_all(&mut self) {
        self.to_scheduler.clear();
        self.to_host.clear();
    }

    pub(super) fn sever(&mut self, host: usize) {
        self.severed.insert(host);
    }

    pub(super) fn is_severed(&self, host: usize) -> bool {
        self.severed.contains(&host)
    }

    /// A host that is partitioned from some scheduler now.
    pub(super) fn some_cut_host(&self) -> Option<usize> {
        self.to_scheduler
            .iter()
            .chain(&self.to_host)
            .map(|(host, _)| *host)
            .next()
    }

    fn carries_to_scheduler(&self, host: usize, scheduler: usize) -> bool {
        !self.severed.contains(&host) && !self.to_scheduler.contains(&(host, scheduler))
    }

    fn carries_to_host(&self, host: usize, scheduler: usize) -> bool {
        !self.severed.contains(&host) && !self.to_host.contains(&(host, scheduler))
    }
}

impl World {
    pub(super) fn send_to_scheduler(
        &mut self,
        host: usize,
        scheduler: usize,
        message: ToScheduler,
    ) {
        if let Some(message) = self.gather(host, scheduler, message) {
            self.transmit(host, scheduler, message);
        }
    }

    pub(super) fn transmit(&mut self, host: usize, scheduler: usize, message: ToScheduler) {
        if !self.links.carries_to_scheduler(host, scheduler) {
            return;
        }
        for delay in self.draw_copies() {
            let message = message.clone();
            self.at(delay, Event::ToScheduler { scheduler, message });
        }
    }

    pub(super) fn send_to_host(&mut self, scheduler: usize, to: WorkerAddress, message: ToWorker) {
        let is_there = |host: &Host| host.lineage == to.incarnation.lineage && host.boot == to.boot;
        let Some(host) = self.hosts.iter().position(is_there) else {
            return;
        };
        if !self.links.carries_to_host(host, scheduler) {
            return;
        }
        for delay in self.draw_copies() {
            let (to, message) = (to.clone(), message.clone());
            self.at(delay, Event::ToHost { host, to, message });
        }
    }

    /// Draws the delay of each copy that arrives: none if the message is lost.
    pub(super) fn draw_copies(&mut self) -> Vec<u64> {
        let mix = self.network_mix();
        let rng = &mut self.network_rng;
        let copies = match (rng.chance(mix.loss), rng.chance(mix.duplication)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        (0..copies)
            .map(|_| {
                let slow = if rng.chance(mix.slow) {
                    rng.below(mix.slow_max)
                } else {
                    0
                };
                mix.delay / 2 + rng.below(mix.delay) + slow
            })
            .collect()
    }
}
