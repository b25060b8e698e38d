//! What should become of each item of a run, said the slow way: by asking what it comes after,
//! and that what it comes after, from the plan and the ends on record alone.
//!
//! Written from the meaning of the words, apart from `baton_core::workflow`, which follows
//! edges forward and counts. The two must never disagree.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{After, Condition, Edges, ItemEnd, Plan};

use super::Place;
use crate::plans::{UNWANTED, count};

/// What is true of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Something before it is not settled.
    Waits,
    /// It may begin.
    Ready,
    /// It is on its way.
    Live,
    /// It ended well.
    Done,
    /// It ended, and not well.
    Bad,
    /// It is not wanted.
    Skipped,
    /// It cannot begin any more.
    Blocked,
}

impl Fate {
    pub(super) const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Bad | Self::Skipped | Self::Blocked)
    }

    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

/// What an edge says about the item behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Go,
    Skip,
    Block,
    Wait,
}

/// A plan with what is on record about it.
pub(super) struct Oracle<'a> {
    plan: &'a Plan,
    ends: &'a BTreeMap<Place, ItemEnd>,
    live: BTreeSet<Place>,
    known: BTreeMap<Place, Fate>,
}

impl<'a> Oracle<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        ends: &'a BTreeMap<Place, ItemEnd>,
        live: impl IntoIterator<Item = Place>,
    ) -> Self {
        Self {
            plan,
            ends,
            live: live.into_iter().collect(),
            known: BTreeMap::new(),
        }
    }

    /// Whether a failure keeps the task from beginning anything more.
    pub(super) fn is_closed(&self, task: u32) -> bool {
        let failed = self.ends.values().any(|end| *end != ItemEnd::Done);
        let after = &self.plan.tasks[task as usize].after;
        let for_failures = after.iter().any(|it| it.condition != Condition::Success);
        self.plan.fail_fast && failed && !for_failures
    }

    /// What becomes of all items, in order.
    pub(super) fn all(&mut self) -> Vec<(Place, Fate)> {
        let tasks = self.plan.tasks.iter().zip(0_u32..);
        let places: Vec<Place> = tasks
            .flat_map(|(task, at)| (0..count(task)).map(move |item| (at, item)))
            .collect();
        places.into_iter().map(|it| (it, self.fate(it))).collect()
    }

    /// What becomes of one.
    pub(super) fn fate(&mut self, place: Place) -> Fate {
        if let Some(fate) = self.known.get(&place) {
            return *fate;
        }
        let fate = match self.ends.get(&place) {
            Some(ItemEnd::Done) => Fate::Done,
            Some(ItemEnd::Failed | ItemEnd::Halted) => Fate::Bad,
            None if self.live.contains(&place) => Fate::Live,
            None => self.unbegun(place),
        };
        self.known.insert(place, fate);
        fate
    }

    fn unbegun(&mut self, (task, item): Place) -> Fate {
        let own = &self.plan.tasks[task as usize];
        let words = own.after.iter().map(|after| self.word(after, item));
        match words.max().unwrap_or(Word::Go) {
            Word::Wait => Fate::Waits,
            Word::Block => Fate::Blocked,
            Word::Skip => Fate::Skipped,
            Word::Go if unwanted(own.when.as_deref()) == Some(item) => Fate::Skipped,
            Word::Go if self.is_closed(task) => Fate::Blocked,
            Word::Go => Fate::Ready,
        }
    }

    /// What one edge says to one item.
    fn word(&mut self, after: &After, item: u32) -> Word {
        let before = after.task;
        match &after.edges {
            Edges::Same => one(after.condition, self.fate((before, item))),
            Edges::Lists(lists) => {
                let named = lists.of(item).iter();
                let words = named.map(|it| one(after.condition, self.fate((before, *it))));
                words.max().unwrap_or(Word::Go)
            }
            Edges::All => self.whole(before, after.condition),
        }
    }

    /// What a whole task says to whoever waits for all of it.
    fn whole(&mut self, task: u32, condition: Condition) -> Word {
        let own = &self.plan.tasks[task as usize];
        let fates: Vec<Fate> = (0..count(own)).map(|it| self.fate((task, it))).collect();
        if fates.is_empty() {
            return self.nothing(task, condition);
        }
        if fates.iter().any(|it| !it.is_settled()) {
            return Word::Wait;
        }
        let good = fates.iter().all(|it| it.is_good());
        let skipped = fates.iter().all(|it| *it == Fate::Skipped);
        match condition {
            Condition::End => Word::Go,
            Condition::Success if !good => Word::Block,
            Condition::Success if skipped => Word::Skip,
            Condition::Failure if good => Word::Skip,
            Condition::Success | Condition::Failure => Word::Go,
        }
    }

    /// A task without items is over when it could have begun; what kept it from that, it
    /// hands on.
    fn nothing(&mut self, task: u32, condition: Condition) -> Word {
        let own = &self.plan.tasks[task as usize];
        let whole = own.after.iter().filter(|it| it.edges == Edges::All);
        let word = whole.map(|it| self.whole(it.task, it.condition)).max();
        match (word.unwrap_or(Word::Go), condition) {
            (Word::Wait, _) => Word::Wait,
            (_, Condition::End) => Word::Go,
            (word, Condition::Success) => word,
            (Word::Block, Condition::Failure) => Word::Go,
            (_, Condition::Failure) => Word::Skip,
        }
    }
}

/// What one item says to one that waits for it.
const fn one(condition: Condition, fate: Fate) -> Word {
    match (condition, fate) {
        (_, Fate::Waits | Fate::Ready | Fate::Live) => Word::Wait,
        (Condition::End, _)
        | (Condition::Success, Fate::Done)
        | (Condition::Failure, Fate::Bad | Fate::Blocked) => Word::Go,
        (Condition::Success, Fate::Skipped) | (Condition::Failure, Fate::Done | Fate::Skipped) => {
            Word::Skip
        }
        (Condition::Success, Fate::Bad | Fate::Blocked) => Word::Block,
    }
}

/// The item that a `when` of this world does not want.
fn unwanted(when: Option<&str>) -> Option<u32> {
    when?.strip_prefix(UNWANTED)?.parse().ok()
}
