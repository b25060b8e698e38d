//! The members of the set, in the order in which they joined.
//!
//! Every question is about that order. The index by incarnation finds a member.
//!
//! Invariant: the two maps hold the same members; a member's key is its `first`.

use std::collections::BTreeMap;

use baton_model::ids::Incarnation;
use baton_model::worker_set::{SetVersion, WorkerSetId};

/// What is known about one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) who: Incarnation,
    /// The version that its joining made: the first set that it is in.
    pub(super) first: SetVersion,
    /// The id that it held before it knew this scheduler.
    pub(super) initial: Option<WorkerSetId>,
    /// No agreement with it is about an earlier version. None until its first
    /// echo. The latest echo itself is not kept: it is never above the floor,
    /// and so adds nothing to it.
    pub(super) floor: Option<SetVersion>,
}

/// All members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Members {
    by_join: BTreeMap<SetVersion, Member>,
    first_of: BTreeMap<Incarnation, SetVersion>,
}

impl Members {
    /// Adds a new member, at a version at which no other member joined.
    pub(super) fn insert(&mut self, member: Member) {
        let (who, first) = (member.who, member.first);
        let known = self.first_of.insert(who, first);
        let taken = self.by_join.insert(first, member);
        assert!(
            known.is_none() && taken.is_none(),
            "{who} joins at {first} but {known:?} {taken:?}"
        );
    }

    pub(super) fn remove(&mut self, who: Incarnation) -> Option<Member> {
        let first = self.first_of.remove(&who)?;
        self.by_join.remove(&first)
    }

    /// Replaces the id that a member held before, until it has echoed one of ours.
    pub(super) fn set_initial(&mut self, who: Incarnation, initial: Option<WorkerSetId>) {
        let member = self.first_of.get(&who);
        let member = member.and_then(|first| self.by_join.get_mut(first));
        if let Some(member) = member.filter(|member| member.floor.is_none()) {
            member.initial = initial;
        }
    }

    pub(super) fn get(&self, who: Incarnation) -> Option<&Member> {
        self.by_join.get(self.first_of.get(&who)?)
    }

    pub(super) fn contains(&self, who: Incarnation) -> bool {
        self.first_of.contains_key(&who)
    }

    pub(super) fn len(&self) -> usize {
        self.by_join.len()
    }

    /// In the order of joining.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_join.values()
    }

    /// In the order of joining. Only floors may be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_join.values_mut()
    }

    /// Those who joined before `version` was made.
    pub(super) fn joined_before(&self, version: SetVersion) -> impl Iterator<Item = &Member> {
        self.by_join.range(..version).map(|(_, member)| member)
    }

    /// Raises the floor of `who` to `version`, unless it is that high already or
    /// the version is from before it joined, when it cannot have been told.
    pub(super) fn raise(&mut self, who: Incarnation, version: SetVersion) {
        let Some(first) = self.first_of.get(&who) else {
            return;
        };
        if let Some(member) = self.by_join.get_mut(first)
            && version >= member.first
        {
            member.floor = member.floor.max(Some(version));
        }
    }

    /// The lowest floor that any member has or, at its first echo, can get.
    pub(super) fn lowest(&self) -> Option<SetVersion> {
        self.iter()
            .map(|member| member.floor.unwrap_or(member.first))
            .min()
    }
}
