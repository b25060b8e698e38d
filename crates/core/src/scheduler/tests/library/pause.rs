//! Pauses of entries.

use baton_model::fact::FactKind;
use baton_model::library::TriggerSource;
use baton_model::outcome::Outcome;
use baton_model::principal::Principal;

use super::super::placing::rig;
use super::*;

const PAUSED: TickVerdict = TickVerdict::Skip(SkipReason::Paused);

#[test]
fn what_is_due_during_a_pause_is_skipped_and_stays_skipped() {
    let mut leader = Leader::of_2026();
    let all = catching_up("every hour", DAY, CatchUp::All);
    leader.define("a", all).expect("taken");
    assert_eq!(verdicts(&leader.at(NEW_YEAR + HOUR)), [TickVerdict::Launch]);
    let pause = leader.pause("a", Some("repairs")).expect("is there");
    let since = Wall(NEW_YEAR + HOUR);
    let reason = Some("repairs".to_owned());
    assert_eq!(pause, Some(Pause { since, reason }));
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 2 * HOUR)), [PAUSED]);
    // Two more pass before the leader looks at the clock again: both are skipped in one record.
    leader.set_wall(NEW_YEAR + 4 * HOUR + MINUTE);
    let facts = leader.facts_of(|leader| {
        assert_eq!(leader.unpause("a"), Ok(None));
    });
    let [tick] = ticks(&facts)[..] else {
        panic!("one record: {facts:?}");
    };
    assert_eq!((tick.count, tick.verdict, tick.instance), (2, PAUSED, None));
    assert_eq!(leader.at(NEW_YEAR + 4 * HOUR + MINUTE), []);
    let next = leader.at(NEW_YEAR + 5 * HOUR);
    assert_eq!(verdicts(&next), [TickVerdict::Launch]);
}

#[test]
fn what_was_due_before_a_pause_is_launched_when_it_begins() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.set_wall(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| {
        leader.pause("a", None).expect("is there");
    });
    assert_eq!(verdicts(&facts), [TickVerdict::Launch]);
}

#[test]
fn a_client_that_pauses_has_not_asked_for_due_launches() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.set_wall(NEW_YEAR + HOUR);
    let name = "ann".to_owned();
    let ann = Arc::new(Principal::Certificate { name });
    let input = Input::Command {
        request: RequestId(1),
        by: Some(Arc::clone(&ann)),
        command: Command::Pause(PauseCommand {
            name: named("a"),
            paused: true,
            reason: None,
        }),
    };
    let step = leader.core.handle(leader.clock(), input);
    let requests = step.requests();
    let requests: Vec<_> = requests.map(|(fact, by)| (fact.kind(), by)).collect();
    let expected = [
        (FactKind::Launched, None),
        (FactKind::InstancesSubmitted, None),
        (FactKind::TaskPaused, Some(&ann)),
    ];
    assert_eq!(requests, expected);
}

#[test]
fn a_pause_survives_revisions_removal_and_leaders() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.pause("a", None).expect("is there");
    let mut next = leader.successor();
    assert_eq!(verdicts(&next.at(NEW_YEAR + HOUR)), [PAUSED]);
    next.define("a", scheduled("every 30 minutes"))
        .expect("taken");
    let next = &mut next.successor();
    let facts = next.at(NEW_YEAR + HOUR + 30 * MINUTE);
    assert_eq!(verdicts(&facts), [PAUSED]);
    next.remove("a").expect("is there");
    assert_eq!(next.unpause("a"), Err(LibraryError::Unknown));
    next.define("a", scheduled("every hour")).expect("taken");
    assert_eq!(verdicts(&next.at(NEW_YEAR + 2 * HOUR)), [PAUSED]);
}

#[test]
fn a_paused_follower_is_skipped_and_a_request_still_launches_it() {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    leader.define("a", scheduled("every hour")).expect("taken");
    let mut after = plain();
    after.trigger.after = vec![named("a")];
    leader.define("b", after).expect("taken");
    leader.pause("b", None).expect("is there");
    leader.at(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
    assert_eq!(verdicts(&facts), [PAUSED]);
    assert_eq!(leader.active(2), 0);
    let trigger = TriggerCommand {
        name: named("b"),
        bound: None,
        by: TriggerSource::Manual,
        trust: Trust::Authenticated,
        secret_sha256: None,
        key: None,
        trace: None,
    };
    leader.give(Input::command(RequestId(1), Command::Trigger(trigger)));
    assert_eq!(leader.active(2), 1);
}

#[test]
fn a_pause_takes_no_launch_and_no_token() {
    let mut leader = Leader::of_2026();
    let mut one = scheduled("every minute");
    one.trigger.launch_rate = Some(baton_model::library::Rate {
        count: 1,
        per: Millis(DAY),
    });
    leader.define("a", one).expect("taken");
    leader.pause("a", None).expect("is there");
    assert_eq!(verdicts(&leader.at(NEW_YEAR + MINUTE)), [PAUSED]);
    leader.unpause("a").expect("is there");
    let facts = leader.at(NEW_YEAR + 2 * MINUTE);
    assert_eq!(verdicts(&facts), [TickVerdict::Launch]);
}

#[test]
fn a_pause_that_changes_nothing_leaves_no_fact() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    let facts = leader.facts_of(|leader| {
        assert_eq!(leader.unpause("a"), Ok(None));
        assert_eq!(leader.pause("b", None), Err(LibraryError::Unknown));
    });
    assert_eq!(facts, []);
    leader.pause("a", Some("one")).expect("is there");
    let facts = leader.facts_of(|leader| {
        let same = leader.pause("a", Some("one")).expect("is there");
        assert_eq!(leader.pause("a", None), Ok(same));
    });
    assert_eq!(facts, []);
    let other = leader.pause("a", Some("two")).expect("is there");
    assert_eq!(other.and_then(|it| it.reason), Some("two".to_owned()));
}
