//! Rates, and the values of cluster-wide limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// A rate: `count` starts per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// At least 1.
    pub count: u32,
    /// Longer than zero.
    pub per: Millis,
}

/// The part of a second whose starts a burst has by default: enough that a scheduler is not woken for each
/// start of a fast rate, and one start for a slow rate.
const BURST_PARTS: u64 = 10;

impl Rate {
    /// The burst of a rate for which none is set: the starts of a tenth of a second, at least one.
    #[must_use]
    pub const fn default_burst(self) -> u64 {
        let parts = self.per.0.saturating_mul(BURST_PARTS);
        let starts = (self.count as u64).saturating_mul(1_000);
        if parts == 0 || starts < parts {
            1
        } else {
            starts / parts
        }
    }
}

/// Written as people write it: `10/s`, `600/m`, `5/30s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000, "d"),
            (3_600_000, "h"),
            (60_000, "m"),
            (1_000, "s"),
            (1, "ms"),
        ];
        let Self { count, per } = *self;
        let unit = UNITS
            .iter()
            .find(|(length, _)| per.0.is_multiple_of(*length));
        let (length, name) = unit.copied().unwrap_or((1, "ms"));
        match per.0 / length {
            1 => write!(f, "{count}/{name}"),
            periods => write!(f, "{count}/{periods}{name}"),
        }
    }
}

/// The value of a cluster-wide limit: how much may be in use at once, or a rate of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LimitValue {
    /// How much may be in use at once. Of a rate, its burst: how much may start at once.
    pub total: u64,
    /// If it limits starts per time, not what is in use.
    pub rate: Option<Rate>,
}

impl LimitValue {
    /// A rate, with its default burst if none is given.
    #[must_use]
    pub fn of_rate(rate: Rate, burst: Option<u64>) -> Self {
        Self {
            total: burst.unwrap_or_else(|| rate.default_burst()),
            rate: Some(rate),
        }
    }
}

impl From<u64> for LimitValue {
    fn from(total: u64) -> Self {
        Self { total, rate: None }
    }
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            None => write!(f, "{}", self.total),
            Some(rate) => write!(f, "{rate}, burst {}", self.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(count: u32, per: u64) -> Rate {
        Rate {
            count,
            per: Millis(per),
        }
    }

    #[test]
    fn a_rate_is_written_as_it_is_read() {
        let cases = [
            (rate(10, 1_000), "10/s"),
            (rate(600, 60_000), "600/m"),
            (rate(100, 3_600_000), "100/h"),
            (rate(5, 30_000), "5/30s"),
            (rate(1, 250), "1/250ms"),
        ];
        for (rate, text) in cases {
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn a_burst_is_a_tenth_of_a_second_and_at_least_one() {
        let bursts = [(1, 1_000), (10, 1_000), (1_000, 1_000), (100, 3_600_000)];
        let bursts = bursts.map(|(count, per)| rate(count, per).default_burst());
        assert_eq!(bursts, [1, 1, 100, 1]);
        let value = LimitValue::of_rate(rate(10, 1_000), Some(20));
        assert_eq!(value.to_string(), "10/s, burst 20");
    }
}
