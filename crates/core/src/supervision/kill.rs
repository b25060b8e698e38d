//! The order to kill everything.

use baton_model::time::{Millis, Mono};

/// Delay before killing again what could not be killed.
pub(super) const KILL_RETRY: Millis = Millis::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct KillOrder {
    id: u64,
    done: bool,
    retry_at: Option<Mono>,
}

impl KillOrder {
    pub(super) const fn issue(&mut self) -> u64 {
        self.id += 1;
        self.done = false;
        self.retry_at = None;
        self.id
    }

    /// Records that the order was carried out, and how many processes are left.
    pub(super) fn acknowledge(&mut self, id: u64, left: u32, now: Mono) {
        if id != self.id {
            return;
        }
        self.done = left == 0;
        self.retry_at = (left > 0).then_some(now + KILL_RETRY);
    }

    /// True if everything is dead.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    pub(super) const fn next_due(&self) -> Option<Mono> {
        self.retry_at
    }

    pub(super) fn take_retry(&mut self, now: Mono) -> Option<(u64, Millis)> {
        self.retry_at.take_if(|at| *at <= now)?;
        Some((self.issue(), Millis(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_killed_is_killed_again() {
        let mut order = KillOrder::default();
        let id = order.issue();
        order.acknowledge(id + 1, 0, Mono(0));
        assert!(!order.is_done(), "an answer to another order");
        order.acknowledge(id, 1, Mono(0));
        assert!(!order.is_done());
        assert_eq!(order.take_retry(Mono(1)), None);
        let (retry, _) = order.take_retry(Mono(KILL_RETRY.0)).expect("due");
        order.acknowledge(retry, 0, Mono(KILL_RETRY.0));
        assert!(order.is_done());
    }
}
