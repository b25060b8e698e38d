//! Runs the checker and verifies that it was exhaustive.
//!
//! The checker also reports completion after a cap or a time limit, so none is set here, and the
//! number of expanded states is compared with the number of visited states: equal means that
//! nothing is left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use super::action::{self, Action};
use super::bound::Bound;
use super::cluster::Cluster;
use super::properties::{ALWAYS, Named};
use super::world::World;

/// The cores of the smallest supported machine.
const THREADS: usize = 2;

/// The cluster as the checker sees it.
pub(crate) struct Exploration {
    world: World,
    witnesses: &'static [Named],
    expanded: AtomicUsize,
}

impl Exploration {
    fn new(bound: Bound, witnesses: &'static [Named]) -> Self {
        Self {
            world: World::new(bound),
            witnesses,
            expanded: AtomicUsize::new(0),
        }
    }
}

impl Model for Exploration {
    type State = Cluster;
    type Action = Action;

    fn init_states(&self) -> Vec<Cluster> {
        vec![Cluster::settled(&self.world)]
    }

    fn actions(&self, state: &Cluster, actions: &mut Vec<Action>) {
        self.expanded.fetch_add(1, Ordering::Relaxed);
        action::possible(&self.world, state, actions);
    }

    fn next_state(&self, state: &Cluster, action: Action) -> Option<Cluster> {
        action::follow(&self.world, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = ALWAYS
            .iter()
            .map(|property| (Expectation::Always, property));
        let sometimes = self
            .witnesses
            .iter()
            .map(|property| (Expectation::Sometimes, property));
        let properties = always.chain(sometimes);
        let named = properties.map(|(expectation, (name, condition))| Property {
            expectation,
            name,
            condition: *condition,
        });
        named.collect()
    }
}

/// Explores everything within the bound.
///
/// # Panics
/// If a property fails, a witness is missing, or a state was left unexplored.
pub(crate) fn exhaust(name: &str, bound: Bound, witnesses: &'static [Named]) {
    let begun = Instant::now();
    let exploration = Exploration::new(bound, witnesses);
    let checker = exploration.checker().threads(THREADS).spawn_bfs().join();
    let unique = checker.unique_state_count();
    // Before the discoveries are asked for: replaying their paths expands, too.
    let expanded = checker.model().expanded.load(Ordering::Relaxed);
    println!(
        "{name}: {unique} states, {} transitions, depth {}, {:.1} s",
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f32()
    );
    let found = checker.discoveries();
    for (property, _) in ALWAYS {
        if let Some(path) = found.get(property) {
            let actions = transcript(&path.clone().into_actions());
            panic!("{name}: violated: {property}\n{actions}");
        }
    }
    let seen = witnesses.iter().map(|(property, _)| *property);
    let unseen: Vec<&str> = seen
        .filter(|property| !found.contains_key(property))
        .collect();
    assert!(unseen.is_empty(), "{name}: never seen: {unseen:?}");
    assert!(checker.is_done(), "{name}: the checker has given up");
    assert_eq!(expanded, unique, "{name}: states were left unexplored");
}

/// Explores until something is violated.
///
/// # Panics
/// If everything holds in spite of a seeded bug.
pub(crate) fn expect_violation(name: &str, bound: Bound) {
    let begun = Instant::now();
    let checker = Exploration::new(bound, &[])
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let (unique, found) = (checker.unique_state_count(), checker.discoveries());
    let mut violated: Vec<&str> = found.into_keys().collect();
    violated.sort_unstable();
    println!(
        "{name}: {violated:?}, {unique} states, {:.1} s",
        begun.elapsed().as_secs_f32()
    );
    assert!(!violated.is_empty(), "{name}: the mistake was not noticed");
}

fn transcript(actions: &[Action]) -> String {
    let lines = actions.iter().map(|action| format!("  {action:?}\n"));
    lines.collect()
}
