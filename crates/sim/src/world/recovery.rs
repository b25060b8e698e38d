//! Comparison of a ledger restored from rows with one built from facts: a new leader must
//! resume in the state of its predecessor.

use baton_core::ledger::{Ledger, LedgerParts};

use super::World;

impl World {
    /// Returns the ledger for a new leader. With runs, it is restored from rows.
    pub(super) fn ledger_for_leader(&mut self) -> Ledger {
        let mut applied = self.store.ledger.clone();
        if self.mix.runs == 0 {
            return applied;
        }
        applied.drop_all_ended();
        applied.runs_mut().drop_all_ended();
        applied.forget_transient();
        let mut ledger = match Ledger::restore(self.parts(&applied)) {
            Ok(ledger) => ledger,
            Err(error) => {
                let what = format!("the rows of the store cannot be restored: {error}");
                self.checkers.violate("rebuilt", what);
                return applied;
            }
        };
        for (first, last) in self.arrays.created(&applied) {
            ledger.restore_failures(first, self.failed_elements(first, last));
        }
        ledger.settle();
        ledger.identify(applied.identity().clone());
        if ledger != applied {
            let (rebuilt, stored) = (ledger.runs(), applied.runs());
            let what = format!("rebuilt: {rebuilt:?}\nfacts: {stored:?}");
            self.checkers.violate("rebuilt", what);
        }
        ledger
    }

    fn parts(&self, applied: &Ledger) -> LedgerParts {
        let (mut runs, mut ended_runs) = (Vec::new(), Vec::new());
        for (id, row) in self.checkers.runs.rows.iter() {
            let Some(head) = applied.runs().head(id).cloned() else {
                continue;
            };
            match row.over {
                None => runs.push(row.stored(head)),
                Some(_) => ended_runs.push(head),
            }
        }
        LedgerParts {
            instances: applied.instances().map(|(_, it)| it.clone()).collect(),
            waiting: applied.waiting().collect(),
            known: applied.known().ranges().collect(),
            condemned: applied.condemned().collect(),
            drained: applied.drained().iter().cloned().collect(),
            name_owners: applied.name_owners().clone().into_iter().collect(),
            limits: applied.limits().clone().into_iter().collect(),
            array_limits: applied.array_limits().clone().into_iter().collect(),
            shares: applied.shares().clone().into_iter().collect(),
            lease_time: applied.lease_time(),
            keys: applied.keys().iter().collect(),
            runs,
            ended_runs,
            last_run: applied.runs().last(),
            fleets: applied.fleets().iter().cloned().collect(),
            jobs: applied.fleets().jobs().cloned().collect(),
            last_job: applied.fleets().last(),
            alarms: applied.alarms().values().cloned().collect(),
            ..LedgerParts::default()
        }
    }

    /// Compares the runs of a leader without pending commits with those of the store.
    pub(super) fn check_live_runs(&mut self, index: usize) {
        let Some(core) = self.leading_core(index).filter(|_| self.mix.runs > 0) else {
            return;
        };
        let (live, stored) = (core.ledger().runs(), self.store.ledger.runs());
        let differs = live
            .iter()
            .find(|run| stored.run(run.head.id) != Some(*run));
        let mut others = stored.iter().filter(|run| !run.head.state.is_terminal());
        let missing = others.find(|run| live.run(run.head.id).is_none());
        if let Some(run) = differs.or(missing) {
            let id = run.head.id;
            let what = format!(
                "a leader has {:?}\nfacts: {:?}",
                live.run(id),
                stored.run(id)
            );
            self.checkers.violate("rebuilt", what);
        }
    }
}
