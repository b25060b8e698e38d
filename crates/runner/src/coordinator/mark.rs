//! The mark that every process of a run carries in its environment, as
//! [`MARK`](crate::sys::proc::MARK): `TASK:PROCESS:RUN`, and for an attempt with a term of its own
//! `TASK:PROCESS:RUN:TERM`.
//!
//! It identifies a process after its coordinator is gone, and tells the reaper, which knows no
//! attempts, until when the process may live without an answer of a scheduler.

use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::Millis;
use baton_model::timeouts::LeaseTerm;

use crate::wire::RunKey;

/// The term of an attempt that no time ends.
const UNLIMITED: &str = "-";

/// The mark of a run.
#[must_use]
pub fn run_mark(mark: &str, run: RunKey) -> String {
    format!("{mark}:{}:{}", run.process.0, run.run.0)
}

/// The mark of a run of a worker's attempt.
pub(super) fn attempt_mark(mark: &str, run: RunKey, term: LeaseTerm) -> String {
    let mut text = run_mark(mark, run);
    match term {
        LeaseTerm::Lease => {}
        LeaseTerm::For(span) => text += &format!(":{}", span.0),
        LeaseTerm::Unlimited => text += &format!(":{UNLIMITED}"),
    }
    text
}

/// Parses a mark; `None` if it belongs to another task.
pub(crate) fn parse_mark(mark: &str, text: &str) -> Option<(RunKey, LeaseTerm)> {
    let mut words = text.strip_prefix(mark)?.strip_prefix(':')?.split(':');
    let run = RunKey {
        process: ProcessNo(words.next()?.parse().ok()?),
        run: RunNo(words.next()?.parse().ok()?),
    };
    let term = match words.next() {
        None => LeaseTerm::Lease,
        Some(UNLIMITED) => LeaseTerm::Unlimited,
        Some(span) => LeaseTerm::For(Millis(span.parse().ok()?)),
    };
    words.next().is_none().then_some((run, term))
}

/// The run in a mark of this task.
pub(super) fn marked_run(mark: &str, text: &str) -> Option<RunKey> {
    parse_mark(mark, text).map(|(run, _)| run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunKey = RunKey {
        process: ProcessNo(7),
        run: RunNo(12),
    };

    #[test]
    fn a_mark_names_its_run_and_no_other_tasks() {
        let text = run_mark("abc", RUN);
        assert_eq!(parse_mark("abc", &text), Some((RUN, LeaseTerm::Lease)));
        assert_eq!(parse_mark("ab", &text), None);
        assert_eq!(parse_mark("abcd", &text), None);
        assert_eq!(parse_mark("abc", "abc:7"), None);
        assert_eq!(parse_mark("abc", "abc:7:12:x"), None);
        assert_eq!(parse_mark("abc", "abc:7:12:1:2"), None);
    }

    #[test]
    fn a_mark_carries_the_term_of_its_attempt() {
        let terms = [
            (LeaseTerm::Lease, "abc:7:12"),
            (LeaseTerm::For(Millis(60_000)), "abc:7:12:60000"),
            (LeaseTerm::Unlimited, "abc:7:12:-"),
        ];
        for (term, text) in terms {
            assert_eq!(attempt_mark("abc", RUN, term), text);
            assert_eq!(parse_mark("abc", text), Some((RUN, term)));
        }
    }
}
