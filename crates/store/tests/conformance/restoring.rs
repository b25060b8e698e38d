//! What a new leader finds is what the facts add up to.

use std::collections::BTreeMap;

use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::limits::CONDEMNED_MAX;
use baton_model::state::UniversalState;
use baton_store::Store;

use crate::Open;
use crate::leading::{Leader, Rng, condemned, submitted};

pub(crate) fn what_is_restored_is_what_the_facts_add_up_to(open: Open<'_>) {
    let mut told: BTreeMap<InstanceId, Vec<Fact>> = BTreeMap::new();
    for seed in 0..30 {
        let mut rng = Rng(seed);
        let store = open();
        let mut leader = Leader::elect(&*store);
        for _ in 0..20 {
            let mut facts = Vec::new();
            let before = leader.ledger.clone();
            for _ in 0..rng.below(20) {
                let fact = leader.draw(&mut rng);
                leader.ledger.apply(&fact).expect("drawn to fit");
                facts.push(fact);
            }
            leader.ledger = before;
            for fact in &facts {
                if let Some(id) = fact.instance() {
                    told.entry(id).or_default().push(fact.clone());
                }
            }
            leader.commit(&*store, facts);
        }
        assert_eq!(Leader::elect(&*store).ledger, leader.ledger, "seed {seed}");
        drop(store);
        assert_eq!(Leader::elect(&*open()).ledger, leader.ledger, "seed {seed}");
        agree(&*open(), &leader, &told);
    }
}

/// Every row, timeline and count says the same as the ledger.
fn agree(store: &dyn Store, leader: &Leader, told: &BTreeMap<InstanceId, Vec<Fact>>) {
    let mut states: BTreeMap<UniversalState, u64> = BTreeMap::new();
    for (id, instance) in leader.ledger.instances() {
        *states.entry(instance.state).or_default() += 1;
        let record = store.instance(id).expect("readable").expect("is there");
        assert_eq!(&record.instance, instance);
        let timeline = store.timeline(id, None, 1_000).expect("readable");
        let last = timeline.items.last().expect("not empty");
        assert_eq!((last.seq, last.at), (record.changed, record.changed_at));
        let facts: Vec<_> = timeline.items.into_iter().map(|it| it.fact).collect();
        assert_eq!(Some(&facts), told.get(&id));
    }
    let mut counted = store.counts().expect("readable").states;
    counted.retain(|_, count| *count > 0);
    assert_eq!(counted, states);
}

pub(crate) fn only_so_many_condemned_lives_are_remembered(open: Open<'_>) {
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
    assert_eq!(Leader::elect(&*open()).ledger, leader.ledger);
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
    assert_eq!(Leader::elect(&*open()).ledger, leader.ledger);
}
