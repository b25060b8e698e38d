//! The event log of a run: a hash that two runs of one seed must share and, on request, text.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use crate::time::Time;

/// The number of events in a report.
const TAIL_MAX: usize = 60;

/// FNV-1a: the same on every machine and in every version.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The amount of text to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only the hash.
    Hash,
    /// The last events, for a report.
    Tail,
    /// Every event, printed as it happens.
    Print,
}

/// The event log of one run.
#[derive(Debug)]
pub struct Trace {
    detail: Detail,
    hash: Fnv,
    events: u64,
    tail: VecDeque<String>,
}

impl Trace {
    #[must_use]
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            hash: Fnv::default(),
            events: 0,
            tail: VecDeque::new(),
        }
    }

    /// Logs one event; `text` is evaluated only if text is recorded.
    pub fn note(&mut self, at: Time, item: &impl Hash, text: impl FnOnce() -> String) {
        self.events += 1;
        at.hash(&mut self.hash);
        item.hash(&mut self.hash);
        if self.detail == Detail::Hash {
            return;
        }
        let line = format!("{:>12}  {}", at.display(), text());
        if self.detail == Detail::Print {
            println!("{line}");
        }
        self.tail.push_back(line);
        if self.tail.len() > TAIL_MAX {
            self.tail.pop_front();
        }
    }

    /// The number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The hash that two runs of one seed must share.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The last events as text.
    #[must_use]
    pub fn into_tail(self) -> Vec<String> {
        self.tail.into()
    }
}
