//! Alarms, judged by the recorded facts alone.
//!
//! | checker | invariant |
//! |---|---|
//! | `alarm-repeated` | work has at most one open alarm of a kind, also across leaders, and only an open one is cleared |
//! | `alarm-early` | nothing is late before its deadline |
//! | `alarm-kept` | an alarm is cleared in the group of facts that ends its work |

use std::collections::BTreeSet;

use baton_core::ledger::Ledger;
use baton_model::alarm::{Alarm, AlarmKey, AlarmKind};
use baton_model::fact::Fact;
use baton_model::time::Wall;

use super::Violation;

/// Alarms that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct AlarmChecks {
    open: BTreeSet<AlarmKey>,
}

impl AlarmChecks {
    /// A leader has taken the store, which has lost everything if it is in memory.
    pub(super) fn term_begun(&mut self, ledger: &Ledger) {
        self.open.retain(|key| ledger.alarms().contains_key(key));
    }

    /// Checks a fact. `deadline`: that of the work of an alarm.
    pub(super) fn committed(
        &mut self,
        fact: &Fact,
        deadline: impl Fn(&Alarm) -> Option<Wall>,
    ) -> Result<(), Violation> {
        match fact {
            Fact::AlarmRaised(alarm) => {
                let key = alarm.key();
                if !self.open.insert(key) {
                    let what = format!("{key} was raised while it was open");
                    return Err(violation("alarm-repeated", what));
                }
                let deadline = deadline(alarm).filter(|_| alarm.kind == AlarmKind::Late);
                if let Some(deadline) = deadline.filter(|deadline| *deadline > alarm.at) {
                    let early = deadline.since(alarm.at);
                    let what = format!("{key} was raised {early} before its deadline");
                    return Err(violation("alarm-early", what));
                }
            }
            Fact::AlarmCleared { alarm, .. } if !self.open.remove(alarm) => {
                let what = format!("{alarm} was cleared, and was not open");
                return Err(violation("alarm-repeated", what));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a complete group. `is_due`: the work of an alarm still gives a reason for it.
    pub(super) fn group_complete(
        &self,
        is_due: impl Fn(AlarmKey) -> bool,
    ) -> Result<(), Violation> {
        match self.open.iter().find(|key| !is_due(**key)) {
            Some(key) => Err(violation(
                "alarm-kept",
                format!("{key} is open, and its work gives no reason"),
            )),
            None => Ok(()),
        }
    }
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
