//! Amounts: what a class needs, and how much is left over.
//!
//! **The leftover** of a worker is what best fit goes by. It is one number: of
//! each resource the free amount, as a share of the largest worker's (rounded up
//! to a power of two), added up; first over the scarce resources (gpu and named
//! countables), and where these are equal over the plain ones (cpu, memory, disk).
//! It is linear, so the worker with the least left over before is the one with the
//! least left over after, whatever is placed: one order of workers serves every
//! class. And since scarce ones count first, an instance that needs no gpu goes to
//! a worker with a free one only if no other has room.

use std::collections::BTreeMap;

use baton_model::cpu::{CORE, Pin};
use baton_model::device::WHOLE;
use baton_model::placement::{Capacity, Constraint, ResourceRequest, Rule};
use baton_model::time::Millis;

use crate::limits::LimitKey;
use crate::wait::KIND_NAMES;

/// How many plain kinds there are, with gpu.
pub(super) const KINDS: usize = KIND_NAMES.len();

/// The scarce one of them, in thousandths of a device.
pub(super) const GPU: usize = 3;

/// A whole share, as a power of two.
const SHARE_BITS: u32 = 20;

/// Where the scarce part begins: above three whole shares.
const SCARCE_SHIFT: u32 = 24;

/// An amount of each plain kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Room(pub(super) [u64; KINDS]);

impl Room {
    pub(super) fn of(capacity: &Capacity) -> Self {
        Self([
            capacity.cpu_milli,
            capacity.memory,
            capacity.disk,
            capacity.gpu.milli(),
        ])
    }

    /// True if `need` goes into it.
    pub(super) fn holds(&self, need: &Self) -> bool {
        (0..KINDS).all(|kind| self.0[kind] >= need.0[kind])
    }

    /// The larger of both, kind by kind.
    pub(super) fn raise(&mut self, other: &Self) {
        for kind in 0..KINDS {
            self.0[kind] = self.0[kind].max(other.0[kind]);
        }
    }
}

/// What an instance needs in order to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    pub request: &'a ResourceRequest,
    /// Limits that bind it whatever it requests; it takes one of each.
    pub limits: &'a [LimitKey],
    /// The time that its worker must have left.
    pub time: Option<Millis>,
    /// Workers of one group that it takes at the same time, each with the whole request.
    pub nodes: u32,
}

impl<'a> From<&'a ResourceRequest> for Demand<'a> {
    fn from(request: &'a ResourceRequest) -> Self {
        Self {
            request,
            limits: &[],
            time: None,
            nodes: 1,
        }
    }
}

/// The key of a class: two demands are of the same class if these are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Need {
    pub(super) room: Room,
    /// By name, none of them 0. Cores are among them.
    pub(super) named: Vec<(String, u64)>,
    /// The cores that one NUMA node of its worker must have; 0 if it needs no node.
    pub(super) socket: u64,
    /// Limits that bind it whatever it requests.
    pub(super) limits: Vec<LimitKey>,
    /// Sorted, each once.
    pub(super) constraints: Vec<Constraint>,
    /// The time that its worker must have left.
    pub(super) time: Option<Millis>,
    /// Workers of one group that it takes at the same time; one if it is 0.
    pub(super) nodes: u32,
}

impl Need {
    pub(super) fn of(demand: &Demand<'_>) -> Self {
        let request = demand.request;
        let resources = &request.resources;
        let cores = (CORE.to_owned(), resources.cores());
        let named = resources.named.iter();
        let named = named.map(|(name, amount)| (name.clone(), *amount));
        let named: BTreeMap<String, u64> = named.chain([cores]).filter(|it| it.1 > 0).collect();
        let needs_node = resources.pin == Some(Pin::Socket);
        let mut constraints = request.constraints.clone();
        constraints.sort_unstable();
        constraints.dedup();
        Self {
            room: Room([
                resources.cpu_milli,
                resources.memory_min,
                resources.disk,
                resources.gpu.milli(),
            ]),
            named: named.into_iter().collect(),
            socket: if needs_node { resources.cores() } else { 0 },
            limits: demand.limits.to_vec(),
            constraints,
            time: demand.time,
            nodes: demand.nodes.max(1),
        }
    }

    /// True if it takes several workers at the same time.
    pub(super) const fn is_gang(&self) -> bool {
        self.nodes > 1
    }

    /// The part of a device that it needs, if it needs no whole ones.
    pub(super) fn gpu_part(&self) -> Option<u64> {
        Some(self.room.0[GPU]).filter(|milli| (1..WHOLE).contains(milli))
    }

    /// How much of a limit it takes.
    pub(super) fn amount(&self, key: &LimitKey) -> u64 {
        match key {
            LimitKey::Named(name) => {
                let named = self.named.iter().find(|(named, _)| named == name);
                named.map_or(0, |(_, amount)| *amount)
            }
            key => u64::from(self.limits.contains(key)),
        }
    }
}

/// True if a worker with these labels meets the constraint.
pub(super) fn holds(constraint: &Constraint, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&constraint.label);
    match &constraint.rule {
        Rule::OneOf(values) => value.is_some_and(|value| values.contains(value)),
        Rule::NoneOf(values) => value.is_none_or(|value| !values.contains(value)),
        Rule::Present => value.is_some(),
        Rule::Absent => value.is_none(),
    }
}

/// What counts as a whole share of each resource, as a power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Units {
    kinds: [u32; KINDS],
    named: BTreeMap<String, u32>,
}

impl Units {
    /// Makes a share of each resource at least as large as this worker's whole.
    pub(super) fn raise(&mut self, capacity: &Room, named: &BTreeMap<String, u64>) {
        for kind in 0..KINDS {
            self.kinds[kind] = self.kinds[kind].max(bits(capacity.0[kind]));
        }
        for (name, amount) in named {
            match self.named.get_mut(name) {
                Some(unit) => *unit = (*unit).max(bits(*amount)),
                None => {
                    self.named.insert(name.clone(), bits(*amount));
                }
            }
        }
    }

    /// Leaves `name` out of account.
    pub(super) fn ignore(&mut self, name: &str) {
        self.named.remove(name);
    }

    /// The share that `amount` of a plain kind is.
    pub(super) fn share(&self, kind: usize, amount: u64) -> u64 {
        share(amount, self.kinds[kind])
    }

    /// The share that `amount` of a named resource is; 0 if no worker has it.
    pub(super) fn share_named(&self, name: &str, amount: u64) -> u64 {
        self.named.get(name).map_or(0, |unit| share(amount, *unit))
    }

    /// The leftover, from what is free.
    pub(super) fn leftover<'a>(
        &self,
        free: &Room,
        named: impl Iterator<Item = (&'a str, u64)>,
    ) -> u64 {
        let plain: u64 = (0..GPU).map(|kind| self.share(kind, free.0[kind])).sum();
        let scarce = named
            .map(|(name, amount)| self.share_named(name, amount))
            .fold(self.share(GPU, free.0[GPU]), u64::saturating_add);
        (scarce.min(u64::MAX >> SCARCE_SHIFT) << SCARCE_SHIFT) + plain
    }
}

/// The power of two that is at least `amount`.
const fn bits(amount: u64) -> u32 {
    u64::BITS - amount.saturating_sub(1).leading_zeros()
}

/// At most a whole share if the unit covers `amount`; a shortage may be larger.
fn share(amount: u64, unit: u32) -> u64 {
    let share = (u128::from(amount) << SHARE_BITS) >> unit;
    u64::try_from(share).unwrap_or(u64::MAX)
}
