//! Sessions, notifications and announcements.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use baton_model::ids::Epoch;
use baton_store::sharing::{Announcement, Sharing};
use baton_store::{Store, StoreError};
use baton_testing::postgres::{Server, database};
use baton_testing::until;

use crate::leading::{Leader, submitted};
use crate::open;

const MOMENT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

fn sharing(store: &dyn Store) -> &dyn Sharing {
    store.sharing().expect("the store is shared")
}

#[test]
fn one_session_leads_and_the_next_leads_as_soon_as_it_ends() {
    let url = database();
    let [first, second, third] = [open(&url), open(&url), open(&url)];
    assert_eq!(sharing(&first).await_vacancy(MOMENT), Ok(true));
    assert_eq!(
        sharing(&first).await_vacancy(MOMENT),
        Ok(true),
        "it still leads"
    );
    assert_eq!(sharing(&second).await_vacancy(MOMENT), Ok(false));
    let waiting = thread::spawn(move || {
        let mut led = Ok(false);
        while led == Ok(false) {
            led = sharing(&second).await_vacancy(LONG);
        }
        (second, led)
    });
    drop(first);
    let (second, led) = waiting.join().expect("no panic");
    assert_eq!(led, Ok(true));
    assert_eq!(sharing(&third).await_vacancy(MOMENT), Ok(false));
    assert_eq!(sharing(&second).release(), Ok(()));
    assert_eq!(sharing(&third).await_vacancy(LONG), Ok(true));
}

/// A follower leaves the queue every second, and that is no error that operators should read about.
#[test]
fn a_follower_that_waits_writes_nothing_into_the_log_of_the_server() {
    let server = Server::start();
    let url = server.database();
    let [leader, follower] = [open(&url), open(&url)];
    assert_eq!(sharing(&leader).await_vacancy(MOMENT), Ok(true));
    // Returns when the follower has left the queue, long before the wait is over.
    assert_eq!(sharing(&follower).await_vacancy(LONG), Ok(false));
    assert_eq!(sharing(&follower).await_vacancy(LONG), Ok(false));
    let log = server.log();
    assert!(!log.contains("lock timeout"), "{log}");
}

#[test]
fn a_leader_that_does_not_end_is_deposed_with_all_its_connections() {
    let url = database();
    let [frozen, next] = [open(&url), open(&url)];
    assert_eq!(sharing(&frozen).await_vacancy(MOMENT), Ok(true));
    let mut leader = Leader::elect(&frozen);
    // One that has just got the lock may be another follower that is about to lead.
    until("it is deposed", || match sharing(&next).depose() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error, StoreError::Overtaken);
            false
        }
    });
    assert_eq!(sharing(&next).depose(), Ok(()), "it leads already");
    // Its writer's connection is gone, too, and it does not lead when it comes back.
    assert!(leader.try_commit(&frozen, vec![submitted(1)]).is_err());
    assert!(matches!(
        sharing(&frozen).await_vacancy(MOMENT),
        Err(StoreError::Failed(_))
    ));
    assert_eq!(sharing(&frozen).await_vacancy(MOMENT), Ok(false));
    let mut leader = Leader::elect(&next);
    leader.commit(&next, vec![submitted(1)]);
}

#[test]
fn commits_are_heard_by_other_stores() {
    let url = database();
    let (writer, follower) = (open(&url), Arc::new(open(&url)));
    let mut leader = Leader::elect(&writer);
    // The first call begins to listen, and cannot know what was before.
    assert_eq!(sharing(&*follower).await_commit(MOMENT), Ok(true));
    assert_eq!(sharing(&*follower).await_commit(MOMENT), Ok(false));
    let listening = Arc::clone(&follower);
    let waiting = thread::spawn(move || sharing(&*listening).await_commit(LONG));
    leader.commit(&writer, vec![submitted(1)]);
    assert_eq!(waiting.join().expect("no panic"), Ok(true));
}

#[test]
fn schedulers_announce_themselves_until_they_withdraw() {
    let url = database();
    let [one, other] = [open(&url), open(&url)];
    let mut announcement = Announcement {
        name: "a-1".to_owned(),
        clients: "https://a:8080".to_owned(),
        workers: "a:8081".to_owned(),
        epoch: Epoch(0),
    };
    let second = Announcement {
        name: "b-1".to_owned(),
        ..announcement.clone()
    };
    sharing(&one).announce(&announcement).expect("announced");
    announcement.epoch = Epoch::new(3, 9);
    sharing(&one).announce(&announcement).expect("renewed");
    sharing(&other).announce(&second).expect("announced");
    let all = sharing(&other).announced().expect("readable");
    let found: Vec<_> = all.iter().map(|it| it.scheduler.clone()).collect();
    assert_eq!(found, [announcement, second.clone()]);
    assert!(all.iter().all(|it| it.age <= it.started), "{all:?}");
    sharing(&one).withdraw("a-1").expect("withdrawn");
    let all = sharing(&one).announced().expect("readable");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].scheduler, second);
}
