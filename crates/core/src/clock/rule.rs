//! The rule of a schedule, without its zone.

use super::civil::Pattern;
use super::period::Period;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Pattern(Pattern),
    Period(Period),
    /// A single second.
    Once(u64),
}
