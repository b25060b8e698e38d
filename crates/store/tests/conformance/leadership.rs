//! Which leader may write.

use std::sync::mpsc;
use std::thread;

use baton_core::leader::Row;
use baton_core::ledger::{Identity, Ledger};
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::ids::{Epoch, InstanceId};
use baton_store::view::{Query, View};
use baton_store::{FactLog as _, Retention, SqliteStore, StoreError, TakeOutcome};

use crate::Open;
use crate::leading::{Leader, NOW, submitted};

const FIRST: Epoch = Epoch::new(1, 1);

pub(crate) fn a_new_store_has_no_leader_and_nothing_else(open: Open<'_>) {
    let store = open();
    assert_eq!(store.read_row(), Ok(Row::default()));
    for view in [View::Bullpen, View::Arena, View::History] {
        let page = store.page(&Query::first(view, 10)).expect("readable");
        assert!(page.items.is_empty() && page.next.is_none());
    }
    let first = store.fingerprint().expect("readable");
    assert_eq!((first.epoch, first.generation), (Epoch(0), Epoch(0)));
    let taken = store.take(Epoch(0), FIRST);
    let mut empty = Ledger::default();
    empty.identify(Identity::new(first.store, [FIRST]));
    assert_eq!(taken, Ok(TakeOutcome::Won(FIRST, Box::new(empty))));
}

pub(crate) fn stores_differ_and_their_terms_are_known(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let second = Leader::elect(&*store);
    let identity = second.identity.clone();
    assert_eq!(Ok(identity.store), store.fingerprint().map(|it| it.store));
    assert!(identity.knows(leader.epoch) && identity.knows(second.epoch));
    assert!(!identity.knows(leader.epoch.successor(8).expect("not the last")));
    leader = second;
    let last_fact = || store.fingerprint().map(|it| it.last_fact.0);
    assert_eq!(last_fact(), Ok(0));
    leader.commit(&*store, vec![submitted(1), submitted(2)]);
    assert_eq!(last_fact(), Ok(2));
    let other = SqliteStore::in_memory().expect("there is memory");
    assert_ne!(other.fingerprint().map(|it| it.store), Ok(identity.store));
}

pub(crate) fn a_generation_begins_and_is_settled(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let evidence = CopyEvidence::OlderThanMark;
    let epoch = leader.epoch;
    leader.commit(&*store, vec![Fact::CopyOpened { epoch, evidence }]);
    let mut second = Leader::elect(&*open());
    let identity = &second.identity;
    assert!(identity.generation == epoch && identity.unsettled);
    assert_eq!(store.fingerprint().map(|it| it.generation), Ok(epoch));
    second.commit(&*store, vec![Fact::CopySettled { epoch }]);
    let identity = Leader::elect(&*store).identity;
    assert!(identity.generation == epoch && !identity.unsettled);
}

pub(crate) fn one_of_many_takers_wins(open: Open<'_>) {
    let stores: Vec<_> = (0..8).map(|_| open()).collect();
    let won = thread::scope(|scope| {
        let takers: Vec<_> = stores
            .iter()
            .map(|store| scope.spawn(|| store.take(Epoch(0), FIRST).expect("takeable")))
            .collect();
        let answers = takers.into_iter().map(|it| it.join().expect("no panic"));
        answers
            .filter(|it| matches!(it, TakeOutcome::Won(..)))
            .count()
    });
    assert_eq!(won, 1);
    let row = open().read_row().expect("readable");
    assert_eq!(row.epoch, FIRST);
}

pub(crate) fn a_take_on_an_old_epoch_changes_nothing(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    assert_eq!(store.take(Epoch(0), FIRST), Ok(TakeOutcome::Overtaken));
    assert_eq!(
        store.take(Epoch(7), Epoch::new(8, 1)),
        Ok(TakeOutcome::Overtaken)
    );
    let back = store.take(leader.epoch, Epoch(leader.epoch.0 - 1));
    assert_eq!(back, Ok(TakeOutcome::Overtaken), "epochs only grow");
    leader.commit(&*store, vec![submitted(1)]);
    store.renew(leader.epoch).expect("still leads");
}

pub(crate) fn renewals_are_counted_and_begin_anew_with_each_term(open: Open<'_>) {
    let store = open();
    let leader = Leader::elect(&*store);
    for count in 1..=3 {
        store.renew(leader.epoch).expect("leads");
        let row = open().read_row().expect("readable");
        assert_eq!((row.epoch, row.renewals), (leader.epoch, count));
    }
    let next = Leader::elect(&*store);
    let row = store.read_row().expect("readable");
    assert_eq!((row.epoch, row.renewals), (next.epoch, 0));
}

pub(crate) fn a_deposed_leader_can_write_nothing(open: Open<'_>) {
    let (store, other) = (open(), open());
    let mut old = Leader::elect(&*store);
    old.commit(&*store, old.done(1));
    let new = Leader::elect(&*other);
    let before = (store.read_row(), store.counts());
    assert_eq!(
        old.try_commit(&*store, vec![submitted(2)]),
        Err(StoreError::Overtaken)
    );
    assert_eq!(store.renew(old.epoch), Err(StoreError::Overtaken));
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    assert_eq!(
        store.prune(old.epoch, NOW, &none, 10),
        Err(StoreError::Overtaken)
    );
    assert_eq!((store.read_row(), store.counts()), before);
    assert_eq!(new.ledger, Leader::elect(&*other).ledger);
}

pub(crate) fn a_commit_queued_before_a_take_is_in_its_ledger_or_refused(open: Open<'_>) {
    let (store, other) = (open(), open());
    for round in 0..20 {
        let mut old = Leader::elect(&*store);
        let mut landed = old.ledger.clone();
        let (tell, told) = mpsc::channel();
        let mut new = None;
        for n in 0..50 {
            if n == 25 {
                new = Some(Leader::elect(&*other));
            }
            let id = round * 100 + n;
            let batch = old.batch(vec![submitted(id)]);
            let tell = tell.clone();
            let done = move |fate| tell.send((id, fate)).expect("the test waits");
            store.submit(batch, NOW, Box::new(done));
        }
        drop(tell);
        for (id, fate) in told {
            match fate {
                Ok(_) => landed.apply(&submitted(id)).expect("fits"),
                Err(error) => assert_eq!(error, StoreError::Overtaken),
            }
        }
        let new = new.expect("taken half-way");
        assert_eq!(new.ledger, landed, "round {round}");
        let last = InstanceId(round * 100 + 49);
        assert!(new.ledger.find(last).is_none());
    }
}

pub(crate) fn a_fence_is_confirmed_under_its_own_epoch_only(open: Open<'_>) {
    let store = open();
    let mut old = Leader::elect(&*store);
    assert_eq!(old.try_commit(&*store, Vec::new()), Ok(()));
    let mut new = Leader::elect(&*open());
    assert_eq!(
        old.try_commit(&*store, Vec::new()),
        Err(StoreError::Overtaken)
    );
    assert_eq!(new.try_commit(&*store, Vec::new()), Ok(()));
}
