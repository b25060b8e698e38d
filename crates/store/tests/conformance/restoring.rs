//! A new leader and all readers see the sum of the facts.

use std::collections::BTreeMap;

use baton_model::conditions::ArrayLimit;
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::limits::CONDEMNED_MAX;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::ItemEnd;
use baton_store::facts::FactQuery;
use baton_store::view::{Query, View};
use baton_store::{Retention, Store};
use baton_testing::Rng;

use crate::Open;
use crate::leading::{Leader, array, condemned, halted, submitted};
use crate::model::Model;

pub(crate) fn what_is_restored_is_what_the_facts_add_up_to(open: Open<'_>) {
    let mut model = Model::default();
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let store = open();
        let mut leader = Leader::elect(&*store);
        for _ in 0..20 {
            let mut facts = Vec::new();
            let count = rng.below(20) as usize;
            while facts.len() < count || model.pending_advance().is_some() {
                let before = model.ledger.clone();
                let fact = model.draw(&mut rng, leader.epoch, seed * 40);
                // A leader has a record loaded before it writes facts about an ended instance.
                if let Some((first, last)) = fact.instances()
                    && first == last
                    && leader.ledger.find(first).is_none()
                    && let Some(ended) = before.find(first)
                {
                    leader.ledger.admit(ended).expect("it was away");
                }
                if let Fact::RunResumed { run, .. } = &fact
                    && leader.ledger.runs().run(*run).is_none()
                {
                    let kept = store.stored_run(*run).expect("readable").expect("kept");
                    let admitted = leader.ledger.runs_mut().admit(kept);
                    admitted.expect("it was away");
                }
                leader.ledger.apply(&fact).expect("drawn to fit");
                facts.push(fact);
            }
            leader.try_commit(&*store, facts).expect("lands");
        }
        assert_eq!(Leader::elect(&*store).ledger, leader.left(), "seed {seed}");
        drop(store);
        assert_eq!(Leader::elect(&*open()).ledger, leader.left(), "seed {seed}");
        if seed % 4 == 3 {
            agree(&*open(), &model);
        }
    }
}

/// Every record, timeline, view and count agrees with the model.
fn agree(store: &dyn Store, model: &Model) {
    let mut states: BTreeMap<UniversalState, u64> = BTreeMap::new();
    for (id, expected) in &model.timelines {
        let instance = model.ledger.find(*id).expect("nothing is forgotten");
        *states.entry(instance.state).or_default() += 1;
        let record = store.instance(*id).expect("readable").expect("is there");
        assert_eq!(record.instance, instance);
        assert_eq!(record.span, None);
        assert_eq!(record.last.as_ref(), model.last.get(id));
        let timeline = store.timeline(*id, None, 1_000).expect("readable");
        let (first, last) = (&timeline.items[0], &timeline.items[expected.len() - 1]);
        assert_eq!(
            (first.seq, first.at),
            (record.submitted, record.submitted_at)
        );
        // Others of a range may have been halted after this one left it, and a trigger does not
        // change the record.
        let beside = match last.fact {
            Fact::InstancesHalted { first, last, .. } => first != last,
            Fact::Launched { .. } => true,
            _ => false,
        };
        if !beside {
            assert_eq!((last.seq, last.at), (record.changed, record.changed_at));
        }
        let facts: Vec<_> = timeline.items.into_iter().map(|it| it.fact).collect();
        assert_eq!(&facts, expected);
    }
    for run in model.ledger.runs().iter() {
        let kept = store.stored_run(run.head.id).expect("readable");
        let kept = kept.expect("is there");
        assert_eq!((&kept.head, &kept.plan), (&run.head, &run.dag.plan));
        let done = kept.ended.iter().filter(|it| it.end == ItemEnd::Done);
        let done: Vec<_> = done.map(|it| (it.task, it.item)).collect();
        let expected = run.progress.done().map(|it| (it.task, it.item));
        assert_eq!(done, expected.collect::<Vec<_>>());
    }
    let mut counted = store.counts().expect("readable").states;
    counted.retain(|_, count| *count > 0);
    assert_eq!(counted, states);
    for view in [View::Bullpen, View::Arena, View::History] {
        views_agree(store, model, &Query::first(view, 7));
        let mut filtered = Query::first(view, 7);
        filtered.filter.owner = Some("o1".to_owned());
        filtered.filter.name = Some("n0".to_owned());
        views_agree(store, model, &filtered);
    }
}

/// A view returns every instance that belongs to it once, and no other.
fn views_agree(store: &dyn Store, model: &Model, query: &Query) {
    let mut query = query.clone();
    let mut seen = BTreeMap::new();
    loop {
        let page = store.page(&query).expect("readable");
        assert!(page.items.is_sorted_by_key(|record| record.cursor()));
        for record in page.items {
            let first = record.instance.id;
            for id in first.0..=record.span.unwrap_or(first).0 {
                let mut instance = record.instance.clone();
                instance.id = InstanceId(id);
                assert!(seen.insert(instance.id, instance).is_none(), "{id} twice");
            }
        }
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    let is = |wanted: &Option<String>, it: &str| wanted.as_ref().is_none_or(|wanted| wanted == it);
    let expected = model.timelines.keys().filter_map(|id| {
        let instance = model.ledger.find(*id)?;
        let wanted = is(&query.filter.owner, &instance.spec.owner)
            && is(&query.filter.name, &instance.spec.name);
        (wanted && query.view.states().contains(&instance.state)).then_some((*id, instance))
    });
    assert_eq!(seen, expected.collect());
}

pub(crate) fn the_number_of_condemned_incarnations_is_bounded(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let lineages: Vec<u64> = (0..CONDEMNED_MAX as u64 + 50).collect();
    for some in lineages.chunks(4_000) {
        let facts = some.iter().map(|it| condemned(it << 50 | it, 1)).collect();
        leader.commit(&*store, facts);
    }
    leader.commit(
        &*store,
        vec![condemned(u64::MAX, 1), condemned(u64::MAX, 2)],
    );
    assert_eq!(leader.ledger.condemned().count(), CONDEMNED_MAX);
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}

pub(crate) fn a_hundred_thousand_facts(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for some in 0..50 {
        let mut facts = Vec::new();
        for n in 0..500 {
            facts.extend(leader.done(some * 500 + n));
        }
        leader.commit(&*store, facts);
    }
    leader.commit(&*store, vec![submitted(1_000_000)]);
    let counts = store.counts().expect("readable");
    assert_eq!(counts.terminal(), 25_000);
    assert_eq!(counts.states.get(&UniversalState::Queued), Some(&1));
    drop(store);
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}

pub(crate) fn an_array_of_any_size_is_one_fact_and_one_record(open: Open<'_>) {
    const LAST: u64 = 1_000_000_000_000;
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![array(1, LAST)]);
    let page = store.page(&Query::first(View::Bullpen, 10));
    let page = page.expect("readable");
    let shown: Vec<_> = page
        .items
        .iter()
        .map(|it| (it.instance.id.0, it.span))
        .collect();
    assert_eq!(shown, [(1, Some(InstanceId(LAST)))]);
    let counts = store.counts().expect("readable");
    assert_eq!(counts.states.get(&UniversalState::Queued), Some(&LAST));
    let middle = store.instance(InstanceId(LAST / 2)).expect("readable");
    assert_eq!(middle.map(|it| it.instance.id.0), Some(LAST / 2));
    let ledger = Leader::elect(&*open()).ledger;
    assert_eq!(ledger, leader.left());
    assert_eq!(ledger.waiting().count(), 1);
}

pub(crate) fn ids_stay_known_however_they_ended(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![array(10, 19), crate::leading::halted(10, 19)]);
    leader.commit(&*store, leader.done(20));
    let mut next = Leader::elect(&*open());
    let known: Vec<_> = next.ledger.known().ranges().collect();
    assert_eq!(known, [(InstanceId(10), InstanceId(20))]);
    assert!(next.ledger.is_settled());
    for fact in [submitted(20), submitted(15), array(5, 10)] {
        assert!(next.try_commit(&*store, vec![fact]).is_err());
        next = Leader::elect(&*store);
    }
    next.commit(&*store, vec![array(0, 9), array(21, 30)]);
    let known = Leader::elect(&*open()).ledger;
    assert_eq!(known.known().ranges().count(), 1);
}

pub(crate) fn the_changed_limit_of_an_array_stays_until_the_array_is_pruned(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let (first, last) = (InstanceId(1), InstanceId(9));
    let limit = |total| Fact::ArrayLimitSet { first, last, total };
    leader.commit(&*store, vec![array(1, 9), limit(Some(4))]);
    let restored = Leader::elect(&*store).ledger;
    let kept = |total| ArrayLimit { last, total };
    assert_eq!(restored.array_limits().get(&first), Some(&kept(Some(4))));
    drop(store);
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![limit(None), halted(1, 9)]);
    let facts = store.facts(&FactQuery::default()).expect("readable").items;
    let changes = facts
        .iter()
        .filter(|it| matches!(it.fact, Fact::ArrayLimitSet { .. }));
    assert_eq!(changes.count(), 2, "both are in the history");
    let restored = Leader::elect(&*store).ledger;
    assert_eq!(restored.array_limits().get(&first), Some(&kept(None)));
    let leader = Leader::elect(&*store);
    let none = Retention {
        history_age: None,
        history_bytes: None,
        terminal_instances_max: Some(0),
    };
    let pruned = store.prune(leader.epoch, Wall(u64::MAX), &none, usize::MAX);
    assert_eq!(pruned.expect("prunable").instances, 9);
    assert_eq!(Leader::elect(&*store).ledger.array_limits().len(), 0);
}
