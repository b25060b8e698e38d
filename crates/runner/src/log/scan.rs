//! Classifying the bytes of a log: records, then nothing, a torn tail, or damage.

use std::path::Path;
use std::sync::Arc;

use baton_model::json;
use serde::de::DeserializeOwned;

use super::damage::{Damage, DamageKind, Quarantine};
use super::error::LogError;
use super::format::{self, HEAD_BYTES, HEADER_BYTES, Header, Kind, Record};
use super::read::RecoveredLog;

/// What follows the last good record.
#[derive(Debug)]
pub(super) enum Tail {
    /// The end of the file.
    Clean,
    /// This many bytes, without a record among them.
    Torn(u64),
    /// Damage, with records after it.
    Damaged(Box<Damage>),
}

/// The result of scanning a log.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) first: u64,
    pub(super) records: Vec<(usize, Record<'a>)>,
    /// The end of the last good record.
    pub(super) end: usize,
    pub(super) tail: Tail,
}

/// Scans a whole file.
pub(super) fn scan<'a>(path: &Path, bytes: &'a [u8], kind: Kind) -> Result<Scan<'a>, LogError> {
    let owned = || path.to_owned();
    match format::read_header(bytes) {
        Header::Short => Err(LogError::Short {
            path: owned(),
            bytes: bytes.len() as u64,
        }),
        Header::Foreign => Err(LogError::NotALog { path: owned() }),
        Header::Unknown(version) => Err(LogError::Version {
            path: owned(),
            version,
        }),
        Header::Valid { kind: found, .. } if found != Some(kind) => Err(LogError::WrongKind {
            path: owned(),
            found,
            wanted: kind,
        }),
        Header::Valid { first, .. } => Ok(records(path, bytes, first)),
        Header::Damaged => {
            let after = survivors(bytes, HEADER_BYTES, 1..=u64::MAX);
            Ok(Scan {
                first: 1,
                records: Vec::new(),
                end: 0,
                tail: Tail::Damaged(damage(path, DamageKind::Header, 0, 1, 0, after)),
            })
        }
    }
}

impl Scan<'_> {
    /// The number of the last good record, or of the one before the first.
    pub(super) const fn last(&self) -> u64 {
        self.first - 1 + self.records.len() as u64
    }

    /// Decodes the good records.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        path: &Path,
    ) -> Result<RecoveredLog<T>, LogError> {
        let decode = |&(offset, record): &(usize, Record<'_>)| {
            json::from_slice(record.body).map_err(|source| LogError::Undecodable {
                path: path.to_owned(),
                offset: offset as u64,
                sequence: record.sequence,
                source: Arc::new(source),
            })
        };
        Ok(RecoveredLog {
            records: self.records.iter().map(decode).collect::<Result<_, _>>()?,
            first_sequence: self.first,
            torn_bytes: match self.tail {
                Tail::Torn(bytes) => bytes,
                Tail::Clean | Tail::Damaged(_) => 0,
            },
        })
    }
}

fn records<'a>(path: &Path, bytes: &'a [u8], first: u64) -> Scan<'a> {
    let mut records = Vec::new();
    let mut end = HEADER_BYTES;
    let mut next = first;
    while let Some(record) = format::record_at(bytes, end, next..=next) {
        records.push((end, record));
        end += record.bytes();
        next += 1;
    }
    let tail = tail(path, bytes, end, next, records.len() as u64);
    Scan {
        first,
        records,
        end,
        tail,
    }
}

fn tail(path: &Path, bytes: &[u8], end: usize, next: u64, before: u64) -> Tail {
    let left = bytes.len() - end;
    if left == 0 {
        return Tail::Clean;
    }
    // A number far above what this file has room for is chance, not a record. A record numbered
    // below `next` is from another log, or a repetition, and must not be truncated either.
    let greatest = next + (left / HEAD_BYTES) as u64;
    let after = survivors(bytes, end, 1..=greatest);
    let Some(resumed) = after.first else {
        return Tail::Torn(left as u64);
    };
    let kind = if resumed.0 == end {
        DamageKind::OutOfOrder { found: resumed.1 }
    } else {
        DamageKind::NoRecord
    };
    Tail::Damaged(damage(path, kind, end as u64, next, before, after))
}

/// Complete records after the first wrong byte.
struct Survivors {
    count: u64,
    /// Offset and number of the first.
    first: Option<(usize, u64)>,
}

fn survivors(bytes: &[u8], from: usize, sequences: std::ops::RangeInclusive<u64>) -> Survivors {
    let mut found = Survivors {
        count: 0,
        first: None,
    };
    let mut offset = from;
    while offset < bytes.len() {
        match format::record_at(bytes, offset, sequences.clone()) {
            Some(record) => {
                found.count += 1;
                found.first.get_or_insert((offset, record.sequence));
                offset += record.bytes();
            }
            None => offset += 1,
        }
    }
    found
}

fn damage(
    path: &Path,
    kind: DamageKind,
    offset: u64,
    sequence: u64,
    records_before: u64,
    after: Survivors,
) -> Box<Damage> {
    Box::new(Damage {
        path: path.to_owned(),
        quarantine: Quarantine::Untouched,
        kind,
        offset,
        sequence,
        records_before,
        records_after: after.count,
        resumes_at: after.first.map(|(offset, _)| offset as u64),
    })
}
