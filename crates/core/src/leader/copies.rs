//! Copies of a store: how a leader recognises that its store has been restored, cloned, or moved
//! back in time.
//!
//! A copy contains whatever the original contains; so the evidence lies outside. Beside the store
//! is its [`Mark`], which names the file and has seen a state of it. A copy of the database alone
//! has no mark, or that of another file, or one that has seen more. A copy of the whole directory
//! has its mark, but is another file. Only a file system that is set back as a whole leaves no
//! evidence here; there the workers have it, who have obeyed a term that the store does not know
//! (`Identity::is_lost_future`).
//!
//! None of this decides what belongs to whom: the random bits of each epoch do. The evidence
//! decides whether a new generation begins, with a wait for what may be running.

use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::limits::COPY_EPOCHS_SKIPPED;
use baton_model::mark::{Mark, StoreState};

/// The evidence that the store that was found is a copy.
#[must_use]
pub fn copy_evidence(mark: Option<&Mark>, found: &StoreState) -> Option<CopyEvidence> {
    if found.epoch == Epoch(0) {
        // No leader has ever used it.
        return None;
    }
    let Some(mark) = mark else {
        // Versions that drew no random bits wrote no mark either.
        return (!found.epoch.is_plain()).then_some(CopyEvidence::MarkMissing);
    };
    let seen = &mark.seen;
    if seen.store != found.store || seen.file != found.file {
        return Some(CopyEvidence::OtherFile);
    }
    let took = found.epoch == seen.epoch || found.epoch == mark.next;
    if !took || found.last_fact < seen.last_fact {
        return Some(CopyEvidence::OlderThanMark);
    }
    mark.copied.clone()
}

/// The first epoch above all that are known, with these random bits; none if there is none left. A
/// copy skips some more, which its original may have taken.
#[must_use]
pub fn next_epoch(
    mark: Option<&Mark>,
    found: &StoreState,
    above: Epoch,
    is_copy: bool,
    random: u32,
) -> Option<Epoch> {
    let marked = mark.map_or(Epoch(0), |mark| mark.next);
    epoch_above(found.epoch.max(marked).max(above), is_copy, random)
}

/// The first epoch above `last`, likewise: for a store without a mark.
#[must_use]
pub fn epoch_above(last: Epoch, is_copy: bool, random: u32) -> Option<Epoch> {
    let skipped = if is_copy { COPY_EPOCHS_SKIPPED } else { 0 };
    Epoch::new(last.number().checked_add(skipped)?, 0).successor(random)
}

#[cfg(test)]
mod tests {
    use baton_model::ids::StoreId;
    use baton_model::mark::FileId;

    use super::*;

    const E5: Epoch = Epoch::new(5, 77);
    const E6: Epoch = Epoch::new(6, 3);

    fn state(epoch: Epoch, last_fact: u64) -> StoreState {
        StoreState {
            store: StoreId(1),
            file: FileId {
                inode: 40,
                created_ns: 9,
            },
            epoch,
            last_fact,
        }
    }

    fn mark() -> Mark {
        Mark {
            seen: state(E5, 100),
            next: E6,
            copied: None,
        }
    }

    #[test]
    fn a_store_that_was_not_touched_is_no_copy() {
        for found in [
            state(E5, 100),
            state(E5, 140),
            state(E6, 100),
            state(E6, 900),
        ] {
            assert_eq!(copy_evidence(Some(&mark()), &found), None, "{found:?}");
        }
        assert_eq!(copy_evidence(None, &state(Epoch(0), 0)), None, "new");
        assert_eq!(copy_evidence(None, &state(Epoch(9), 50)), None, "upgraded");
    }

    #[test]
    fn every_kind_of_copy_is_recognised() {
        let moved = |mut found: StoreState| {
            found.file.inode += 1;
            found
        };
        let mut other = state(E6, 100);
        other.store = StoreId(2);
        for (found, evidence) in [
            (state(E5, 99), CopyEvidence::OlderThanMark),
            (state(Epoch::new(4, 8), 100), CopyEvidence::OlderThanMark),
            (state(Epoch::new(6, 4), 100), CopyEvidence::OlderThanMark),
            (moved(state(E6, 100)), CopyEvidence::OtherFile),
            (other, CopyEvidence::OtherFile),
        ] {
            assert_eq!(
                copy_evidence(Some(&mark()), &found),
                Some(evidence),
                "{found:?}"
            );
        }
        let alone = copy_evidence(None, &state(E6, 100));
        assert_eq!(alone, Some(CopyEvidence::MarkMissing));
    }

    #[test]
    fn evidence_that_was_not_recorded_is_not_forgotten() {
        let copied = Some(CopyEvidence::OlderThanMark);
        let mark = Mark {
            copied: copied.clone(),
            ..mark()
        };
        assert_eq!(copy_evidence(Some(&mark), &state(E6, 100)), copied);
    }

    #[test]
    fn the_next_epoch_is_above_the_store_its_mark_and_what_a_worker_has_seen() {
        let next = |above, is_copy| next_epoch(Some(&mark()), &state(E5, 100), above, is_copy, 1);
        assert_eq!(next(Epoch(0), false), Some(Epoch::new(7, 1)));
        assert_eq!(next(Epoch::new(30, 2), false), Some(Epoch::new(31, 1)));
        let far = Epoch::new(31 + COPY_EPOCHS_SKIPPED, 1);
        assert_eq!(next(Epoch::new(30, 2), true), Some(far));
        for is_copy in [false, true] {
            assert_eq!(next(Epoch::new(Epoch::NUMBER_MAX, 0), is_copy), None);
        }
    }
}
