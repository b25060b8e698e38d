//! Ids. Each is a type of its own, so that they cannot be confused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Declares a numeric id, with the letter that it is displayed with. A `large` one may have any 64
/// bits, and is a text in the API.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        number! { impl $name, $prefix }
    };
    ($(#[$doc:meta])* large $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub struct $name(#[serde(with = "crate::large")] pub u64);

        number! { impl $name, $prefix }
    };
    (impl $name:ident, $prefix:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl $name {
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

number! {
    /// One requested execution of one task.
    InstanceId, u64, "i"
}
number! {
    /// Counts the attempts of one instance, from 1.
    AttemptNo, u32, "#"
}
number! {
    /// The identity of a store: a random number drawn when it was created. Copies share it.
    large StoreId, "d"
}
number! {
    /// Numbers the associations that one leader grants, so that messages of an earlier association
    /// of the same worker can be recognised.
    SessionId, u64, "s"
}
number! {
    /// Counts `notifyIfTasksNotRunning` calls within one association.
    NotifySeq, u64, "n"
}
number! {
    /// One health check.
    CheckId, u64, "c"
}
number! {
    /// One request of a client or of the HTTP layer; the driver chooses the id.
    RequestId, u64, "r"
}
number! {
    /// A credential.
    TokenId, u64, "t"
}
number! {
    /// A task of the library, in all its revisions; never reused.
    TaskNo, u64, "k"
}
number! {
    /// Counts the revisions of one task, from 1.
    Revision, u32, "r"
}
number! {
    /// A backfill of an entry of the library; never reused.
    BackfillId, u64, "b"
}
number! {
    /// A job that was requested of a fleet; never reused.
    JobId, u64, "p"
}
number! {
    /// One execution of a workflow, in all its generations; never reused.
    RunId, u64, "r"
}
number! {
    /// Counts the generations of a run, from 1: each resume starts the next.
    Generation, u32, "g"
}
number! {
    /// The identity of a worker's state directory: a random number drawn when it was created.
    large Lineage, "l"
}
number! {
    /// Counts the incarnations of one state directory, from 1.
    IncarnationNo, u64, "."
}
number! {
    /// A machine, by its stable machine id.
    large HostId, "h"
}
number! {
    /// One boot of a machine. Boots are only ever compared for equality.
    large BootId, "b"
}

/// The term of a scheduler leader. Every write and every message carries it; it only ever grows.
///
/// A ballot: the number of the term above 32 random bits, which the leader draws when it takes the
/// term. Two copies of one store count on from the same number, and so do a store and its restored
/// backup; but the terms that they begin differ, and with them every association, lease and
/// attempt. A plain number below 2³² is an epoch of a version that drew nothing: it lies before all
/// others.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct Epoch(#[serde(with = "crate::large")] pub u64);

impl Epoch {
    /// The largest number of a term: every epoch fits into a signed integer.
    pub const NUMBER_MAX: u32 = i32::MAX.cast_unsigned();

    /// The term of that number, with the random bits drawn for it.
    #[must_use]
    pub const fn new(number: u32, random: u32) -> Self {
        Self((number as u64) << 32 | random as u64)
    }

    /// Counts the terms of a store.
    #[must_use]
    pub const fn number(self) -> u32 {
        let [number, random] = self.halves();
        if number == 0 { random } else { number }
    }

    /// The epoch after this one, with the random bits drawn for it; none after the last.
    #[must_use]
    pub const fn successor(self, random: u32) -> Option<Self> {
        if self.number() >= Self::NUMBER_MAX {
            return None;
        }
        Some(Self::new(self.number() + 1, random))
    }

    /// True for an epoch without random bits, of a version that drew none.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        self.halves()[0] == 0
    }

    const fn halves(self) -> [u32; 2] {
        [(self.0 >> 32) as u32, self.0 as u32]
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.halves() {
            [0, plain] => write!(f, "e{plain}"),
            [number, random] => write!(f, "e{number}-{random:08x}"),
        }
    }
}

/// A text that is no epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an epoch, such as e3-09af31c7")]
pub struct NoEpoch;

impl FromStr for Epoch {
    type Err = NoEpoch;

    /// Reads what [`fmt::Display`] has written.
    fn from_str(text: &str) -> Result<Self, NoEpoch> {
        let text = text.strip_prefix('e').ok_or(NoEpoch)?;
        let (number, random) = match text.split_once('-') {
            Some((number, random)) if random.len() == 8 => {
                (number, u32::from_str_radix(random, 16).ok())
            }
            Some(_) => return Err(NoEpoch),
            None => ("0", text.parse().ok()),
        };
        match (number.parse(), random) {
            (Ok(number), Some(random)) => Ok(Self::new(number, random)),
            _ => Err(NoEpoch),
        }
    }
}

/// One incarnation of a worker.
///
/// The counter is kept in the worker's state directory. It is raised before a new incarnation
/// starts, *after* every process of the earlier ones has been killed. So the order of two
/// incarnations never depends on a clock, and the mere existence of incarnation `n + 1` proves that
/// no process of incarnation `n` runs, now or ever again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incarnation {
    pub lineage: Lineage,
    #[serde(alias = "life")]
    pub number: IncarnationNo,
}

impl Incarnation {
    /// True if the existence of `self` proves that `other` has ended.
    #[must_use]
    pub fn supersedes(self, other: Self) -> bool {
        self.lineage == other.lineage && self.number > other.number
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lineage, self.number)
    }
}

/// The agent of a worker, as operators read it: `host:pid:short-id`. Only for display: no decision
/// depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct ExecutorId(Arc<str>);

impl ExecutorId {
    /// Characters of the host name that are shown.
    const HOST_CHARS_MAX: usize = 64;
    const CHARS_MAX: usize = 96;

    /// The agent with that process id on that host, in that state directory.
    #[must_use]
    pub fn new(host: &str, pid: u32, lineage: Lineage) -> Self {
        // The upper half, which tells random numbers apart as well as the whole does.
        let short = lineage.0 >> 32;
        let host = printable(host, Self::HOST_CHARS_MAX);
        Self(format!("{host}:{pid}:{short:08x}").into())
    }

    /// The name of its host.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.rsplitn(3, ':').nth(2).unwrap_or(&self.0)
    }
}

/// The characters of a host name: anything else would mislead in a log.
fn printable(text: &str, chars_max: usize) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || ".-_:".contains(*c);
    text.chars().filter(is_plain).take(chars_max).collect()
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ExecutorId {
    /// Of a text from another host only what an executor id may contain is taken.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self(printable(&text, Self::CHARS_MAX).into()))
    }
}

/// One term of one store: the authority of a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    pub store: StoreId,
    pub epoch: Epoch,
}

/// Ties a message to one leader, one incarnation of a worker and one handshake between them. A
/// message of any other association is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Association {
    /// The store of the leader.
    pub store: StoreId,
    pub epoch: Epoch,
    pub incarnation: Incarnation,
    /// The handshake.
    pub session: SessionId,
}

impl fmt::Display for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.epoch, self.incarnation, self.session)
    }
}

/// One try of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptId {
    pub instance: InstanceId,
    pub number: AttemptNo,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.instance, self.number)
    }
}

/// The identity of one lease, and so of one execution. Without a store, and in a copy of one,
/// ids and attempt numbers are used again; only the epoch tells the executions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseId {
    /// The attempt that is leased.
    pub attempt: AttemptId,
    /// The leader that granted it: the task's fencing token.
    pub epoch: Epoch,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.attempt, self.epoch)
    }
}

/// The name of a seat: the name of a worker across all its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct WorkerName(pub Arc<str>);

impl WorkerName {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A range of instances; displays as `i1` or `i1..i9`.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRange(pub InstanceId, pub InstanceId);

impl fmt::Display for InstanceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            self.0.fmt(f)
        } else {
            write!(f, "{}..{}", self.0, self.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_ordered_by_number_and_differ_by_chance() {
        let plain = Epoch(u32::MAX.into());
        let [first, second] = [7, 0].map(|random| Epoch::new(1, random));
        assert!(plain < second && second < first && first < Epoch::new(2, 0));
        let last = Epoch::new(Epoch::NUMBER_MAX, 3);
        assert!(i64::try_from(last.0).is_ok());
        assert_eq!(last.successor(4), None);
    }

    #[test]
    fn the_numbers_of_terms_go_on_after_an_upgrade() {
        let next = Epoch(41).successor(9);
        assert_eq!(next, Some(Epoch::new(42, 9)));
        assert_eq!(next.map(Epoch::number), Some(42));
        assert!(Epoch(41).is_plain() && !Epoch::new(42, 9).is_plain());
    }

    #[test]
    fn an_executor_is_readable_and_a_hostile_one_is_harmless() {
        let executor = ExecutorId::new("node7", 4211, Lineage(0x1f3a_9c02_0000_0001));
        assert_eq!(executor.to_string(), "node7:4211:1f3a9c02");
        let json = serde_json::to_string(&executor).expect("JSON");
        assert_eq!(json, "\"node7:4211:1f3a9c02\"");
        assert_eq!(
            serde_json::from_str::<ExecutorId>(&json).ok(),
            Some(executor)
        );
        let hostile = format!("\"a\\u001b[2J\\n{}\"", "b".repeat(1_000));
        let read: ExecutorId = serde_json::from_str(&hostile).expect("a text");
        assert_eq!(read.to_string(), format!("a2J{}", "b".repeat(93)));
    }

    #[test]
    fn an_epoch_is_read_as_it_was_written_and_nonsense_is_refused() {
        for (epoch, text) in [
            (Epoch(3), "e3"),
            (Epoch::new(3, 0x9af_31c7), "e3-09af31c7"),
            (Epoch::new(1, 0), "e1-00000000"),
        ] {
            assert_eq!(epoch.to_string(), text);
            assert_eq!(text.parse(), Ok(epoch));
        }
        for nonsense in [
            "",
            "e",
            "3",
            "e-1",
            "e3-",
            "e3-9af",
            "e3-9af31c7g",
            "e99999999999",
        ] {
            assert_eq!(nonsense.parse::<Epoch>(), Err(NoEpoch), "{nonsense}");
        }
    }
}
