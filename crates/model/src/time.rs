//! Time as data. The protocol runs on monotonic time alone; wall time appears
//! only in schedules and displays, so a stepped clock can never move a lease.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A span of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// `n` whole seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// The span scaled by `numerator / denominator`, rounded down.
    #[must_use]
    pub const fn scaled(self, numerator: u64, denominator: u64) -> Self {
        Self(self.0.saturating_mul(numerator) / denominator)
    }

    /// The span less `other`, never below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Millis {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1_000) {
            write!(f, "{}s", self.0 / 1_000)
        } else {
            write!(f, "{}ms", self.0)
        }
    }
}

/// A reading of one host's monotonic clock, in milliseconds since an origin
/// that only that host knows. Readings of two hosts are never compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Millis> for Mono {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Millis> for Mono {
    fn add_assign(&mut self, span: Millis) {
        *self = *self + span;
    }
}

impl fmt::Display for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Millis(self.0))
    }
}

/// A worker's own monotonic reading when it sent a heartbeat. The scheduler
/// stores and echoes it, but never computes with it: it is another host's time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub Mono);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A reading of the wall clock in milliseconds since the Unix epoch. For
/// display and schedules only; it may step in either direction at any time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Wall(pub u64);

impl Wall {
    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// The time at which the driver passes an input to a state machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Now {
    /// For every decision of the protocol.
    pub mono: Mono,
    /// For records that people read.
    pub wall: Wall,
}

impl Now {
    /// From a clock that counts since the boot, also while the host sleeps, and the wall clock. A
    /// wall clock set before 1970 reads as 1970.
    #[must_use]
    pub fn from_clocks(boot: Duration, wall: SystemTime) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            mono: Mono(millis(boot)),
            wall: Wall(millis(wall)),
        }
    }
}
