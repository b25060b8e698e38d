//! Notifications, their position and their deliveries.

use baton_model::notify::{Delivery, DeliveryState, Notice, NoticeKind};
use baton_model::time::Wall;
use baton_store::followers::FollowerName;
use baton_store::notices::{NoticeBatch, NoticePosition, NoticeQuery};
use baton_store::view::Seq;
use baton_store::{Store, StoreError};

use crate::Open;
use crate::leading::Leader;

fn notice(key: &str, series: &str, owner: Option<&str>) -> Notice {
    Notice {
        key: key.to_owned(),
        kind: NoticeKind::Failed,
        at: Wall(5_000),
        series: series.to_owned(),
        title: format!("{key} failed"),
        subject: "i1".to_owned(),
        owner: owner.map(str::to_owned),
        entry: None,
        tags: vec!["night".to_owned()],
        reason: Some("exit 1".to_owned()),
        failures: Some(1),
        counts: None,
        examples: Vec::new(),
        stderr: None,
        command: None,
        path: None,
    }
}

fn delivery(channel: &str, state: DeliveryState, next_at: u64) -> Delivery {
    Delivery {
        channel: channel.to_owned(),
        state,
        attempts: 0,
        next_at: (state == DeliveryState::Waiting).then_some(Wall(next_at)),
        changed_at: Wall(6_000),
        error: None,
    }
}

fn waiting(channel: &str) -> Delivery {
    delivery(channel, DeliveryState::Waiting, 0)
}

pub(crate) fn notices_and_position_are_stored_together(open: Open<'_>) {
    let store = open();
    let leader = Leader::elect(&*store);
    assert_eq!(store.notice_position(), Ok(NoticePosition::default()));
    let batch = NoticeBatch {
        position: Some(Seq(7)),
        rows: [
            ("a".to_owned(), Some("1".to_owned())),
            ("b".to_owned(), Some("2".to_owned())),
        ]
        .into(),
        notices: vec![(
            notice("n1", "s", Some("lab")),
            vec![waiting("ops"), waiting("page")],
        )],
        ..NoticeBatch::default()
    };
    assert_eq!(store.record_notices(leader.epoch, batch.clone()), Ok(()));
    // A key that is stored already is left out, with its deliveries.
    let again = NoticeBatch {
        position: Some(Seq(9)),
        rows: [
            ("a".to_owned(), Some("3".to_owned())),
            ("b".to_owned(), None),
        ]
        .into(),
        ..batch
    };
    assert_eq!(store.record_notices(leader.epoch, again), Ok(()));
    drop(store);
    let store = open();
    let found = store.notice_position().expect("readable");
    assert_eq!(found.seq, Some(Seq(9)));
    assert_eq!(found.rows, [("a".to_owned(), "3".to_owned())].into());
    let page = store.notices(&NoticeQuery {
        limit: 10,
        ..NoticeQuery::default()
    });
    let page = page.expect("readable");
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].notice, notice("n1", "s", Some("lab")));
    assert_eq!(page.items[0].deliveries, [waiting("ops"), waiting("page")]);
    let forgets = NoticeBatch {
        forgets: true,
        ..NoticeBatch::default()
    };
    assert_eq!(store.record_notices(leader.epoch, forgets), Ok(()));
    assert_eq!(store.notice_position(), Ok(NoticePosition::default()));
}

pub(crate) fn each_follower_has_a_position_of_its_own(open: Open<'_>) {
    let store = open();
    let leader = Leader::elect(&*store);
    let position = |store: &dyn Store| store.follower_position(FollowerName::Traces);
    assert_eq!(position(&*store), Ok(None));
    for seq in [3, 8] {
        let recorded = store.record_position(leader.epoch, FollowerName::Traces, Some(Seq(seq)));
        assert_eq!(recorded, Ok(()));
        assert_eq!(position(&*store), Ok(Some(Seq(seq))));
    }
    assert_eq!(store.notice_position(), Ok(NoticePosition::default()));
    let batch = NoticeBatch {
        position: Some(Seq(5)),
        ..NoticeBatch::default()
    };
    assert_eq!(store.record_notices(leader.epoch, batch), Ok(()));
    let later = Leader::elect(&*store);
    let refused = store.record_position(leader.epoch, FollowerName::Traces, None);
    assert_eq!(refused, Err(StoreError::Overtaken));
    assert_eq!(position(&*store), Ok(Some(Seq(8))));
    let removed = store.record_position(later.epoch, FollowerName::Traces, None);
    assert_eq!(removed, Ok(()));
    assert_eq!(position(&*store), Ok(None));
    let found = store.notice_position().expect("readable");
    assert_eq!(found.seq, Some(Seq(5)));
}

pub(crate) fn a_deposed_leader_records_no_notice(open: Open<'_>) {
    let store = open();
    let first = Leader::elect(&*store);
    let second = Leader::elect(&*store);
    let batch = NoticeBatch {
        position: Some(Seq(1)),
        notices: vec![(notice("n1", "s", None), vec![waiting("ops")])],
        ..NoticeBatch::default()
    };
    let refused = store.record_notices(first.epoch, batch.clone());
    assert_eq!(refused, Err(StoreError::Overtaken));
    assert_eq!(store.notice_position(), Ok(NoticePosition::default()));
    assert_eq!(store.record_notices(second.epoch, batch), Ok(()));
}

pub(crate) fn the_first_delivery_of_each_series_is_due(open: Open<'_>) {
    let store = open();
    let epoch = Leader::elect(&*store).epoch;
    let later = delivery("ops", DeliveryState::Waiting, 900);
    let batch = NoticeBatch {
        notices: vec![
            (
                notice("a1", "a", None),
                vec![waiting("ops"), waiting("page")],
            ),
            (notice("a2", "a", None), vec![waiting("ops")]),
            (notice("b1", "b", None), vec![later]),
            (notice("b2", "b", None), vec![waiting("ops")]),
            (
                notice("c1", "c", None),
                vec![delivery("ops", DeliveryState::Digested, 0)],
            ),
        ],
        ..NoticeBatch::default()
    };
    store.record_notices(epoch, batch).expect("written");
    let due = |channel: &str, now: u64| {
        let found = store
            .due_deliveries(channel, Wall(now), 10)
            .expect("readable");
        let keys: Vec<(u64, String)> = found
            .due
            .into_iter()
            .map(|record| {
                assert_eq!(record.deliveries.len(), 1);
                assert_eq!(record.deliveries[0].channel, channel);
                (record.id, record.notice.key)
            })
            .collect();
        (keys, found.next_at)
    };
    assert_eq!(
        due("ops", 100),
        (vec![(1, "a1".to_owned())], Some(Wall(900)))
    );
    assert_eq!(due("page", 100), (vec![(1, "a1".to_owned())], None));
    assert_eq!(due("ops", 900).0.len(), 2);
    let sent = Delivery {
        state: DeliveryState::Sent,
        attempts: 2,
        next_at: None,
        changed_at: Wall(7_000),
        error: Some("no answer".to_owned()),
        ..waiting("ops")
    };
    let batch = NoticeBatch {
        deliveries: vec![(1, sent.clone())],
        ..NoticeBatch::default()
    };
    store.record_notices(epoch, batch).expect("written");
    assert_eq!(due("ops", 100).0, [(2, "a2".to_owned())]);
    assert_eq!(due("page", 100).0, [(1, "a1".to_owned())]);
    let by_state = NoticeQuery {
        state: Some(DeliveryState::Sent),
        limit: 10,
        ..NoticeQuery::default()
    };
    let page = store.notices(&by_state).expect("readable");
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].deliveries, [sent, waiting("page")]);
    let tallies = store.delivery_tallies().expect("readable");
    let tallies = tallies
        .iter()
        .map(|it| (&*it.channel, it.state.word(), it.count));
    let expected = [
        ("ops", "digested", 1),
        ("ops", "sent", 1),
        ("ops", "waiting", 3),
        ("page", "waiting", 1),
    ];
    assert_eq!(tallies.collect::<Vec<_>>(), expected);
}

pub(crate) fn notices_come_in_pages_and_by_filter(open: Open<'_>) {
    let store = open();
    let epoch = Leader::elect(&*store).epoch;
    let notices = (1..=5).map(|number| {
        let owner = if number % 2 == 0 { "even" } else { "odd" };
        let key = format!("n{number}");
        (notice(&key, &key, Some(owner)), vec![waiting("ops")])
    });
    let batch = NoticeBatch {
        notices: notices.collect(),
        ..NoticeBatch::default()
    };
    store.record_notices(epoch, batch).expect("written");
    let keys = |query: NoticeQuery| {
        let page = store.notices(&query).expect("readable");
        let keys = page.items.iter().map(|it| it.notice.key.clone());
        (keys.collect::<Vec<_>>(), page.next)
    };
    let query = || NoticeQuery {
        limit: 2,
        ..NoticeQuery::default()
    };
    assert_eq!(
        keys(query()),
        (vec!["n5".to_owned(), "n4".to_owned()], Some(4))
    );
    let last = NoticeQuery {
        before: Some(2),
        ..query()
    };
    assert_eq!(keys(last), (vec!["n1".to_owned()], None));
    let even = NoticeQuery {
        owner: Some("even".to_owned()),
        ..query()
    };
    assert_eq!(keys(even).0, ["n4", "n2"]);
    let other = NoticeQuery {
        channel: Some("page".to_owned()),
        ..query()
    };
    assert_eq!(keys(other).0, Vec::<String>::new());
    let kind = NoticeQuery {
        kind: Some(NoticeKind::Missed),
        ..query()
    };
    assert_eq!(keys(kind).0, Vec::<String>::new());
}
