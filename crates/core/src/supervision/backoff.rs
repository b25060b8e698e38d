//! Delays before a runner or an incarnation starts again.

use baton_model::task::RunNo;
use baton_model::time::{Millis, Mono};

/// How often the runner of one task is restarted after it has died.
pub const RUNNER_RESTARTS_MAX: u64 = 20;

/// The first delay of a runner that has died more than once, and the longest.
const RUNNER_DELAY_MIN: Millis = Millis(250);
pub(super) const RUNNER_DELAY_MAX: Millis = Millis::from_secs(30);

/// The first delay between two short incarnations, and the longest.
const INCARNATION_DELAY_MIN: Millis = Millis(500);
const INCARNATION_DELAY_MAX: Millis = Millis::from_secs(30);

/// How long a runner waits that died in this run. A single death, as of an operator's `kill -9`,
/// costs nothing; one that dies again and again must not keep the host busy with that.
pub(super) fn runner_delay(died_in: RunNo) -> Millis {
    match died_in.0.checked_sub(1) {
        None => Millis(0),
        Some(doublings) => {
            let factor = 1 << doublings.min(16);
            RUNNER_DELAY_MIN.scaled(factor, 1).min(RUNNER_DELAY_MAX)
        }
    }
}

/// Backoff between incarnations. A worker that is refused at once, again and again, must not spend
/// all its time on dying.
#[derive(Clone, Debug, Default)]
pub struct IncarnationBackoff {
    began: Mono,
    delay: Millis,
}

impl IncarnationBackoff {
    /// Records the start of an incarnation; returns until when it should not connect.
    pub fn next_start(&mut self, now: Mono) -> Mono {
        let short = now.since(self.began) < INCARNATION_DELAY_MAX;
        self.began = now;
        self.delay = if short {
            let doubled = self.delay.scaled(2, 1);
            doubled.clamp(INCARNATION_DELAY_MIN, INCARNATION_DELAY_MAX)
        } else {
            Millis(0)
        };
        now + self.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_incarnations_start_with_growing_backoff() {
        let mut backoff = IncarnationBackoff::default();
        let mut now = Mono(1_000_000);
        assert_eq!(backoff.next_start(now), now, "the one before was long");
        let mut delays = Vec::new();
        for _ in 0..9 {
            let until = backoff.next_start(now);
            delays.push(until.since(now));
            now = until;
        }
        assert_eq!(delays[..3], [Millis(500), Millis(1_000), Millis(2_000)]);
        assert!(delays.iter().all(|delay| *delay <= INCARNATION_DELAY_MAX));
        now = now + INCARNATION_DELAY_MAX + INCARNATION_DELAY_MAX;
        assert_eq!(backoff.next_start(now), now);
    }

    #[test]
    fn the_first_death_of_a_runner_costs_nothing_and_later_ones_ever_more() {
        let delays: Vec<u64> = (0..12).map(|run| runner_delay(RunNo(run)).0).collect();
        assert_eq!(delays[..5], [0, 250, 500, 1_000, 2_000]);
        assert!(delays.is_sorted());
        assert_eq!(delays[11], RUNNER_DELAY_MAX.0);
        assert_eq!(runner_delay(RunNo(u64::MAX)), RUNNER_DELAY_MAX);
    }
}
