//! Gangs: several workers of one group, taken at the same time.
//!
//! An instance that needs several *nodes* is placed when so many workers with the same label `group` have room and
//! time for one whole request each; not before, and on no fewer. All of them are charged with it until it is
//! released. The first by name is the one that runs its command; the others are held.
//!
//! - **The group with the fewest workers that fit is taken**, so that a larger one stays whole for a larger gang; in
//!   it those with the least left over.
//! - **Reservations** are what makes such workers free at the same time: after having been passed over as often as any
//!   class, a gang reserves all its members at once, in the group where the fewest instances have to end. They may be
//!   reserved for others already, which come first as the older ones (see `reserve`): a gang that waited until no
//!   worker of a group is reserved might wait for ever. What becomes free there stays idle until all of them are.
//! - Nothing of a gang is placed ahead.
//!
//! Only groups that are large enough are looked at, so a cluster without groups pays nothing. A search costs
//! O(workers of groups), and is made again only after a worker has changed that has room.

use std::cmp::Reverse;

use baton_model::ids::{InstanceId, WorkerName};

use super::Placement;
use super::class::{Class, Spot};
use crate::wait::{ClassId, WaitReason};

/// The workers of one decision.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) worker: usize,
    /// The other members of a gang.
    pub(super) others: Vec<usize>,
}

impl Place {
    pub(super) fn workers(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.worker).chain(self.others.iter().copied())
    }
}

impl From<usize> for Place {
    fn from(worker: usize) -> Self {
        Self {
            worker,
            others: Vec::new(),
        }
    }
}

impl Class {
    /// How many workers it takes.
    pub(super) fn nodes(&self) -> usize {
        self.need.nodes.max(1) as usize
    }
}

impl Placement {
    /// Where the next of a class of gangs goes, if all its members are free now.
    pub(super) fn gang_spot(&mut self, class: usize, priority: i32) -> Option<Place> {
        if self.classes.all[class].spot == Spot::Nowhere {
            return None;
        }
        if self.fitting(class, |_| true).is_none() {
            // Whatever is reserved: only a change of a worker helps.
            self.classes.all[class].spot = Spot::Nowhere;
            return None;
        }
        if self.limit_reserved(class, priority).is_some() {
            return None;
        }
        self.members(class, priority, None)
    }

    /// The members for an instance, without the worker that it should avoid if others have room now.
    pub(super) fn members_other_than_avoided(
        &mut self,
        instance: InstanceId,
        class: usize,
        priority: i32,
        place: Place,
    ) -> Place {
        let Some(avoided) = self.avoided.remove(&instance) else {
            return place;
        };
        let is_avoided = |at: usize| self.fleet.workers[at].name == avoided;
        if !place.workers().any(is_avoided) {
            return place;
        }
        let other = self.members(class, priority, Some(&avoided));
        other.unwrap_or(place)
    }

    /// The members that fit best, without `avoided`.
    fn members(&self, class: usize, priority: i32, avoided: Option<&WorkerName>) -> Option<Place> {
        let workers = &self.fleet.workers;
        let mut members = self.fitting(class, |at| {
            avoided != Some(&workers[at].name) && self.kept_from(at, class, priority).is_none()
        })?;
        let best_fit = |at: &usize| (workers[*at].leftover, &workers[*at].name);
        members.sort_by(|a, b| best_fit(a).cmp(&best_fit(b)));
        members.truncate(self.classes.all[class].nodes());
        members.sort_by(|a, b| workers[*a].name.cmp(&workers[*b].name));
        let others = members.split_off(1);
        Some(Place {
            worker: members[0],
            others,
        })
    }

    /// The workers with room and time that are accepted, of the group that has the fewest of them but enough; of
    /// these the first by name. Not empty.
    fn fitting(&self, class: usize, accept: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let kind = &self.classes.all[class];
        let fits = |at: &usize| kind.fits(&self.fleet.workers[*at], *at) && accept(*at);
        let groups = self.fleet.groups();
        let groups = groups.filter(|(_, workers)| workers.len() >= kind.nodes());
        let fitting = groups.map(|(_, workers)| workers.iter().copied().filter(fits).collect());
        let enough = fitting.filter(|fitting: &Vec<usize>| fitting.len() >= kind.nodes());
        enough.min_by_key(Vec::len)
    }

    /// The members to reserve: in the group where the fewest instances have to end before all of them fit.
    pub(super) fn soonest_members(&self, class: &Class) -> Option<Vec<usize>> {
        let workers = &self.fleet.workers;
        let groups = self.fleet.groups();
        let groups = groups.filter(|(_, members)| members.len() >= class.nodes());
        let choices = groups.filter_map(|(_, members)| {
            let could = members
                .iter()
                .filter(|at| class.could_fit(&workers[**at], **at));
            let mut counted: Vec<(usize, &WorkerName, usize)> = could
                .filter_map(|at| {
                    let ends = self.ends_before_fit(class, &workers[*at], usize::MAX)?;
                    Some((ends, &workers[*at].name, *at))
                })
                .collect();
            counted.sort_unstable();
            counted.truncate(class.nodes());
            (counted.len() == class.nodes()).then_some(counted)
        });
        let ends = |counted: &Vec<(usize, &WorkerName, usize)>| -> usize {
            counted.iter().map(|(ends, _, _)| ends).sum()
        };
        let soonest = choices.min_by_key(ends)?;
        Some(soonest.into_iter().map(|(_, _, at)| at).collect())
    }

    /// What the first of a class of gangs waits for, on the workers of a group.
    pub(super) fn gang_room(&self, id: usize, class: &Class, priority: i32) -> WaitReason {
        let workers = &self.fleet.workers;
        let nodes = class.nodes();
        if let Some(fitting) = self.fitting(id, |_| true) {
            let mut kept = fitting.iter();
            let by = kept.find_map(|at| Some((*at, self.kept_from(*at, id, priority)?)));
            return match by {
                Some((at, by)) if self.members(id, priority, None).is_none() => {
                    WaitReason::Reserved {
                        what: workers[at].name.to_string(),
                        class: ClassId(self.reservations[by].class),
                    }
                }
                _ => WaitReason::Nothing,
            };
        }
        let counts = self.fleet.groups().map(|(name, members)| {
            let all = || members.iter().map(|at| (*at, &workers[*at]));
            let could = all().filter(|(at, it)| class.could_fit(it, *at)).count();
            let free = all().filter(|(at, it)| class.fits(it, *at)).count();
            (could >= nodes, free, could, Reverse(name))
        });
        let nearest = counts.max();
        let own = self.reservations.iter().find(|it| it.class == id);
        WaitReason::Gang {
            nodes: class.need.nodes,
            nearest: nearest.map(|(_, free, _, Reverse(name))| (name.to_owned(), free)),
            reserved: own.is_some_and(|it| !it.workers.is_empty()),
        }
    }
}
