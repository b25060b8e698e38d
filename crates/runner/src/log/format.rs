//! The byte format of a log: its header and its records.
//!
//! No record can begin inside the body of another. A body is JSON as `serde_json` writes it, which
//! has no control characters, while the highest byte of every length is one. The search for records
//! after damage relies on this.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::error::LogError;

/// The format version that is written, and the only one so far.
pub const VERSION: u32 = 1;

/// The maximum length of a body. A task may hold 64 MiB of text, which JSON expands to six times as
/// much at worst. Below 2^29, so that the highest byte of a length is below a space.
pub const RECORD_BYTES_MAX: usize = (1 << 29) - 1;

/// The first byte is not text, and the line end detects a copy in text mode.
const MAGIC: [u8; 8] = *b"\xbabaton\r\n";

/// Magic, version, kind, first sequence, CRC.
pub(super) const HEADER_BYTES: usize = 28;

/// The maximum first sequence number; a million records a second take 290,000 years.
const FIRST_MAX: u64 = u64::MAX / 2;

/// Length, CRC, sequence.
pub(super) const HEAD_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Runner,
    Coordinator,
}

impl Kind {
    const fn code(self) -> u32 {
        match self {
            Self::Runner => 1,
            Self::Coordinator => 2,
        }
    }

    const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Runner),
            2 => Some(Self::Coordinator),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runner => "runner",
            Self::Coordinator => "coordinator",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Too short to hold one.
    Short,
    /// Not a log.
    Foreign,
    /// The checksum is wrong.
    Damaged,
    /// An unknown format version.
    Unknown(u32),
    Valid {
        /// `None` for an unknown kind.
        kind: Option<Kind>,
        /// The number of the first record.
        first: u64,
    },
}

pub(super) fn write_header(kind: Kind, first: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&kind.code().to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

pub(super) fn read_header(bytes: &[u8]) -> Header {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Header::Short;
    };
    if !header.starts_with(&MAGIC) {
        return Header::Foreign;
    }
    let (covered, crc) = header.split_at(HEADER_BYTES - 4);
    if crc32c::crc32c(covered).to_le_bytes() != crc {
        return Header::Damaged;
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Header::Unknown(version);
    }
    match u64_at(header, 16) {
        first @ 1..=FIRST_MAX => Header::Valid {
            kind: Kind::from_code(u32_at(header, 12)),
            first,
        },
        _ => Header::Damaged,
    }
}

/// A complete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) sequence: u64,
    pub(super) body: &'a [u8],
}

impl Record<'_> {
    /// Its length in the file.
    pub(super) const fn bytes(&self) -> usize {
        HEAD_BYTES + self.body.len()
    }
}

/// Appends a record to `out`, which is unchanged on failure.
pub(super) fn write_record<T: Serialize>(
    path: &Path,
    sequence: u64,
    record: &T,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), LogError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let mut body = BoundedWriter {
        out,
        left: bytes_max,
    };
    if let Err(error) = serde_json::to_writer(&mut body, record) {
        out.truncate(start);
        let path = path.to_owned();
        return Err(if error.is_io() {
            LogError::TooLong { path, bytes_max }
        } else {
            let source = Arc::new(error);
            LogError::Unencodable { path, source }
        });
    }
    let length = (out.len() - start - HEAD_BYTES) as u32;
    let crc = record_crc(length, sequence, &out[start + HEAD_BYTES..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&sequence.to_le_bytes());
    Ok(())
}

/// The record that starts at `offset`, if a complete one does and its number is in range. The
/// number is checked first: almost everything that is no record fails there, at no cost.
pub(super) fn record_at(
    bytes: &[u8],
    offset: usize,
    sequences: std::ops::RangeInclusive<u64>,
) -> Option<Record<'_>> {
    let rest = bytes.get(offset..)?;
    let (head, rest) = rest.split_first_chunk::<HEAD_BYTES>()?;
    let sequence = u64_at(head, 8);
    if !sequences.contains(&sequence) {
        return None;
    }
    let length = u32_at(head, 0);
    // No body is empty: JSON has at least one byte.
    if !(1..=RECORD_BYTES_MAX).contains(&(length as usize)) {
        return None;
    }
    let body = rest.get(..length as usize)?;
    let crc = record_crc(length, sequence, body);
    (crc == u32_at(head, 4)).then_some(Record { sequence, body })
}

fn record_crc(length: u32, sequence: u64, body: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &sequence.to_le_bytes());
    crc32c::crc32c_append(crc, body)
}

/// Accepts no more than the maximum length, so that a huge record costs no more memory.
struct BoundedWriter<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl io::Write for BoundedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
