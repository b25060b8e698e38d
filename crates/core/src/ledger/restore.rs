//! A ledger put together from its parts, as a store kept them.
//!
//! Between two facts an instance rests in few states only, and its lease follows
//! from them. A part that says otherwise was damaged or written by something else,
//! and a leader that took it in would act on it; so it is refused.

use baton_model::ids::Incarnation;
use baton_model::state::UniversalState;
use baton_model::time::Millis;

use super::{Instance, Ledger, LedgerError};

impl Ledger {
    /// A ledger of these parts.
    ///
    /// # Errors
    /// [`LedgerError`] naming the first instance that no facts could have left so.
    pub fn restore(
        instances: impl IntoIterator<Item = Instance>,
        condemned: impl IntoIterator<Item = Incarnation>,
        lease_time: Millis,
    ) -> Result<Self, LedgerError> {
        let mut ledger = Self {
            lease_time,
            ..Self::default()
        };
        for instance in instances {
            ledger.admit(instance)?;
        }
        for incarnation in condemned {
            ledger.admit_condemned(incarnation);
        }
        Ok(ledger)
    }

    /// Takes in one instance as it was kept.
    ///
    /// # Errors
    /// [`LedgerError`] if it is there already, or no facts could have left it so;
    /// the ledger is then unchanged.
    pub fn admit(&mut self, instance: Instance) -> Result<(), LedgerError> {
        if self.instances.contains_key(&instance.id) {
            return Err(LedgerError::AlreadySubmitted(instance.id));
        }
        match flaw(&instance) {
            Some(why) => Err(LedgerError::Impossible(instance.id, why)),
            None => {
                self.put(instance);
                Ok(())
            }
        }
    }

    /// Takes in one condemned life as it was kept.
    pub fn admit_condemned(&mut self, incarnation: Incarnation) {
        self.condemn(incarnation);
    }

    /// The last condemned life of each lineage that is remembered.
    pub fn condemned(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.condemned.iter().map(|(lineage, life)| Incarnation {
            lineage: *lineage,
            life: *life,
        })
    }
}

/// Why no facts could have left an instance like this, if so.
fn flaw(instance: &Instance) -> Option<&'static str> {
    use UniversalState as S;
    match (instance.state, &instance.lease) {
        (S::Registering | S::Instantiating | S::Triaging, _) => {
            Some("is kept in a state in which nothing rests")
        }
        (S::Launched | S::Running, None) => Some("is leased, but its lease is missing"),
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, Some(_)) => {
            Some("has a lease, but its state says that it has none")
        }
        (S::Launched | S::Running, Some(lease)) => {
            if lease.id.attempt.instance != instance.id {
                Some("has the lease of another instance")
            } else if lease.id.attempt.number > instance.attempts {
                Some("has a lease of an attempt that was never counted")
            } else if lease.confirmed != (instance.state == S::Running) {
                Some("has a lease whose confirmation contradicts its state")
            } else {
                None
            }
        }
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, None) => None,
    }
}
