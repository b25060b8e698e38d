//! Processors: lists of CPUs, and how an attempt is bound to them.
//!
//! A *CPU* is what the kernel schedules on: a hardware thread. A *core* is a device of the resource
//! [`CORE`], and holds one or more of them; its id is the list of those that its worker may use.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The resource of cores. Requests that pin to cores count it; no request names it.
pub const CORE: &str = "core";

/// The highest number of a CPU: above that of any kernel.
pub const CPU_MAX: u32 = 65_535;

/// How many cores each NUMA node has, in the order of the list of cores.
pub type NodeSizes = Vec<u32>;

/// The CPUs that the processes of an attempt are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// Whole cores that no other pinned attempt holds, as near to each other as possible.
    Cores,
    /// All CPUs of one NUMA node, of which as many cores are counted.
    Socket,
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cores => "cores",
            Self::Socket => "socket",
        })
    }
}

/// A set of CPUs. Its text is the kernel's: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuList(BTreeSet<u32>);

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of CPUs such as 0-3,8")]
pub struct CpuListError(String);

impl CpuList {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<u32> for CpuList {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        self.0.extend(cpus);
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let wrong = || CpuListError(text.to_owned());
        let number = |word: &str| {
            let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let cpu = word.parse().ok().filter(|cpu| is_plain && *cpu <= CPU_MAX);
            cpu.ok_or_else(wrong)
        };
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (number(first)?, number(last)?);
            if last < first {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_by_the_kernel() {
        for (text, written) in [
            ("", ""),
            ("0\n", "0"),
            ("0-3,8", "0-3,8"),
            ("8,0,1", "0-1,8"),
            ("5-7,6-9", "5-9"),
            ("0,64", "0,64"),
        ] {
            let list: CpuList = text.parse().expect(text);
            assert_eq!(list.to_string(), written);
            let json = serde_json::to_string(&list).expect("JSON");
            assert_eq!(serde_json::from_str::<CpuList>(&json).expect("read"), list);
        }
    }

    #[test]
    fn nonsense_is_no_list() {
        for text in ["a", "3-1", "1,", "-1", "1-", "0-70000", "+1", "99999999999"] {
            let error = text.parse::<CpuList>().expect_err(text);
            assert!(error.to_string().contains("such as 0-3,8"), "{error}");
        }
    }
}
