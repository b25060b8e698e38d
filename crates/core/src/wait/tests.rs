//! Words and sentences of waits.

use baton_model::ids::{BackfillId, InstanceId, RunId, TaskNo};

use super::*;
use crate::limits::RunLimit;

fn reached(key: LimitKey, name: &str, asked: u64) -> Wait {
    let reached = LimitReached {
        key,
        name: name.to_owned(),
        limit: Limit { total: 4, used: 4 },
        asked,
        rate: None,
    };
    WaitReason::Limit(reached).into()
}

#[test]
fn each_kind_of_limit_has_its_word_and_its_sentence() {
    let run = |part| LimitKey::Run(RunId(1), part);
    let cases = [
        (
            reached(LimitKey::from("db"), "db", 1),
            "limit",
            Some(("db", 1)),
            "it requests 1 of the limit db; 4 of 4 are in use; it starts when others release it; \
             `baton limits set db N` changes the total",
        ),
        (
            reached(LimitKey::from("db"), "db", 5),
            "limit",
            Some(("db", 5)),
            "it requests 5 of the limit db, whose total is 4; raise it with `baton limits set db 5`",
        ),
        (
            reached(LimitKey::Array(InstanceId(7)), "array i7", 1),
            "limit",
            Some(("array i7", 1)),
            "it requests 1 of the limit array i7; 4 of 4 are in use; it starts when another element \
             of its array has ended; `baton array limit i7 N` changes the limit",
        ),
        (
            reached(LimitKey::Entry(TaskNo(2)), "lab/etl", 1),
            "turn",
            None,
            "max_instances of lab/etl is reached (4 of 4); it starts when its turn comes",
        ),
        (
            reached(run(RunLimit::Template(0)), "template load", 1),
            "limit",
            None,
            "held back: 4 of 4 instances of template load are in flight; the next one starts when \
             one of them has ended",
        ),
        (
            reached(LimitKey::Backfill(BackfillId(3)), "backfill b3", 1),
            "limit",
            None,
            "held back: 4 of 4 instances of backfill b3 are in flight; the next one starts when one \
             of them has ended",
        ),
    ];
    for (wait, word, resource, text) in cases {
        assert_eq!(wait.text(), text);
        assert_eq!(wait.word(), word, "{text}");
        let found = wait.reason.resource().zip(wait.reason.short());
        let resource = resource.map(|(name, short)| (name.to_owned(), short));
        assert_eq!(found, resource, "{text}");
    }
}

#[test]
fn one_that_is_behind_others_tells_what_the_first_waits_for() {
    let wait = Wait {
        class: Some((ClassId(0), 3)),
        ahead: 2,
        ..WaitReason::NoWorker.into()
    };
    assert_eq!(wait.word(), "behind");
    let first = "there is no worker; start one with `baton worker`";
    assert_eq!(wait.first_text(), first);
    let text = format!("{first}; 2 instances of the same class are ahead of it");
    assert_eq!(wait.text(), text);
    assert!(wait.is_for_worker());
    let backoff = Wait::from(WaitReason::Backoff { left: Millis(1) });
    assert_eq!(
        (backoff.is_for_worker(), backoff.reason.left()),
        (false, Some(Millis(1)))
    );
}
