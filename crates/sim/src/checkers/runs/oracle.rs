//! What should become of each item of a run, said the slow way: by asking what it comes after,
//! and that what it comes after, from the plan and the ends on record alone.
//!
//! Written from the meaning of the words, apart from `baton_core::workflow`, which follows
//! edges forward and counts. The two must never disagree.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, ItemEnd, Plan, Upstream};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let mut said = Vec::new();
        for after in &own.after {
            let words = self.words(after, item);
            said.extend(words.into_iter().map(|word| (after.condition, word)));
        }
        match together(&said) {
            Word::Wait => Fate::Waits,
            Word::Block => Fate::Blocked,
            Word::Skip => Fate::Skipped,
            Word::Go if unwanted(own.when.as_deref()) == Some(item) => Fate::Skipped,
            Word::Go if self.is_closed(task) => Fate::Blocked,
            Word::Go => Fate::Ready,
        }
    }

    /// What an edge says to one item, once for each that it names.
    fn words(&mut self, after: &Upstream, item: u32) -> Vec<Word> {
        let before = after.task;
        match &after.edges {
            Edges::Same => vec![one(after.condition, self.fate((before, item)))],
            Edges::Lists(lists) => {
                let named = lists.of(item).iter();
                named
                    .map(|it| one(after.condition, self.fate((before, *it))))
                    .collect()
            }
            Edges::All => vec![self.whole(before, after.condition)],
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
        let said: Vec<_> = whole
            .map(|it| (it.condition, self.whole(it.task, it.condition)))
            .collect();
        match (together(&said), condition) {
            (Word::Wait, _) => Word::Wait,
            (_, Condition::End) => Word::Go,
            (word, Condition::Success) => word,
            (Word::Block, Condition::Failure) => Word::Go,
            (_, Condition::Failure) => Word::Skip,
        }
    }
}

/// What all edges say together. What is needed must not all have been skipped, and of what
/// must have failed one must have.
fn together(said: &[(Condition, Word)]) -> Word {
    let has = |wanted: Word| said.iter().any(|(_, word)| *word == wanted);
    let only_skips = |condition: Condition| {
        let mut words = said.iter().filter(|it| it.0 == condition).map(|it| it.1);
        words.clone().count() > 0 && words.all(|word| word == Word::Skip)
    };
    if has(Word::Wait) {
        Word::Wait
    } else if has(Word::Block) {
        Word::Block
    } else if only_skips(Condition::Success) || only_skips(Condition::Failure) {
        Word::Skip
    } else {
        Word::Go
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
