//! Taking over runs whose coordinator, or whose client at it, has died.
//!
//! The state of a run comes from these sources, and an earlier one makes the later ones unnecessary:
//! a live coordinator; the log of a dead one; exit statuses of our own children, which the children
//! of a dead coordinator become; and the kernel, which knows whether a process exists. Nothing else
//! counts, so a run that none of them knows is lost.
//!
//! An agent takes over the attempts of its worker ([`crate::supervision::takeover`]), and the runner
//! of a task its processes. They differ in what a lost run means: an attempt is reported or resumed,
//! a process is launched again. Both record what the log of a dead coordinator tells before they
//! replace it.

use baton_model::ids::BootId;
use baton_model::outcome::{ExitStatus, Outcome};
use baton_model::task::Identity;

/// Evidence about the processes of this boot.
pub trait Witness {
    /// True if the process exists, if only as a zombie whose program had begun, or if that cannot be
    /// found out.
    fn is_present(&self, identity: &Identity) -> bool;

    /// The status of a process that has ended as our child. It is collected now if it was not yet,
    /// and kept, since the same may have to be asked again.
    fn exit_of(&mut self, identity: &Identity) -> Option<ExitStatus>;
}

/// What is known of a run that no coordinator watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting<E> {
    /// Its process exists, if only as a zombie.
    Present,
    /// It ended as our child.
    Ended(E),
    /// It was killed by this signal before its program began.
    Unexecuted(i32),
    /// It is gone, or may never have started.
    Unknown,
}

impl Sighting<Outcome> {
    /// Looks for the first process of a run. Whether it is there is asked first: the status of one
    /// that ends meanwhile is found afterwards.
    pub fn of(identity: Option<&Identity>, boot: BootId, witness: &mut impl Witness) -> Self {
        // The processes of an earlier boot are gone, and their numbers may belong to others.
        let Some(identity) = identity.filter(|identity| identity.boot == boot) else {
            return Self::Unknown;
        };
        if witness.is_present(identity) {
            return Self::Present;
        }
        witness.exit_of(identity).map_or(Self::Unknown, Self::from)
    }
}

impl From<ExitStatus> for Sighting<Outcome> {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Unexecuted(signal) => Self::Unexecuted(signal),
            ExitStatus::Code(_) | ExitStatus::Signal(_) => Self::Ended(status.into()),
        }
    }
}

impl<E> Sighting<E> {
    /// The same with another description of the end.
    pub fn map<T>(self, describe: impl FnOnce(E) -> T) -> Sighting<T> {
        match self {
            Self::Present => Sighting::Present,
            Self::Ended(end) => Sighting::Ended(describe(end)),
            Self::Unexecuted(signal) => Sighting::Unexecuted(signal),
            Self::Unknown => Sighting::Unknown,
        }
    }
}

/// What becomes of a run that is not known to be over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<E> {
    /// The coordinator has it on record, and reports it.
    Watched,
    /// It exists: the coordinator is to watch it.
    Adopted,
    /// It is over, and this is known of its end.
    Over(Sighting<E>),
}

impl<E> Decision<E> {
    /// `is_owned`: a live coordinator has the run on record.
    pub fn of(is_owned: bool, sight: impl FnOnce() -> Sighting<E>) -> Self {
        if is_owned {
            return Self::Watched;
        }
        match sight() {
            Sighting::Present => Self::Adopted,
            other => Self::Over(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: BootId = BootId(1);

    struct Children {
        present: Vec<u32>,
        exits: Vec<(u32, ExitStatus)>,
    }

    impl Witness for Children {
        fn is_present(&self, identity: &Identity) -> bool {
            self.present.contains(&identity.pid)
        }

        fn exit_of(&mut self, identity: &Identity) -> Option<ExitStatus> {
            let mut exits = self.exits.iter();
            exits
                .find(|(pid, _)| *pid == identity.pid)
                .map(|(_, status)| *status)
        }
    }

    fn seen(boot: BootId, pid: u32) -> Sighting<Outcome> {
        let mut children = Children {
            present: vec![1],
            exits: vec![
                (1, ExitStatus::Code(1)),
                (2, ExitStatus::Code(0)),
                (3, ExitStatus::Unexecuted(9)),
            ],
        };
        let identity = Identity {
            boot,
            pid,
            start_ticks: 7,
        };
        Sighting::of(Some(&identity), HERE, &mut children)
    }

    #[test]
    fn a_process_that_exists_is_not_over_whatever_its_children_tell() {
        assert_eq!(seen(HERE, 1), Sighting::Present);
        assert_eq!(seen(HERE, 2), Sighting::Ended(Outcome::Exited(0)));
        assert_eq!(seen(HERE, 3), Sighting::Unexecuted(9));
        assert_eq!(seen(HERE, 4), Sighting::Unknown);
    }

    #[test]
    fn numbers_of_another_boot_tell_nothing() {
        for pid in 1..4 {
            assert_eq!(seen(BootId(2), pid), Sighting::Unknown);
        }
    }

    #[test]
    fn a_run_on_the_record_of_a_live_coordinator_is_not_looked_for() {
        let watched = Decision::<Outcome>::of(true, || unreachable!("it is owned"));
        assert_eq!(watched, Decision::Watched);
        assert_eq!(Decision::of(false, || seen(HERE, 1)), Decision::Adopted);
        let over = Decision::of(false, || seen(HERE, 4));
        assert_eq!(over, Decision::Over(Sighting::Unknown));
    }
}
