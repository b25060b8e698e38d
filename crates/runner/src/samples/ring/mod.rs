//! The file of the samples: a header, then a fixed number of slots.
//!
//! ```text
//!   header  magic 8 | version 4 | slots 4 | slot size 4 | crc 4
//!   slot    sequence 8 | wall 8 | process 4 | run 8 | cpu 8 | rss 8
//!           | threads 4 | processes 4 | read 8 | written 8 | crc 4
//! ```
//!
//! All numbers are little endian; a crc is CRC32C of what precedes it in its header or slot. Sample
//! number n is in slot n modulo the number of slots, so the position of a slot is checked as well
//! as its bytes. Numbers begin at 1: a slot of zeros was never written.
//!
//! One process writes. Others may read at any time: a partially written slot is skipped. The file
//! is created under another name and renamed, so no reader finds a partial header.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use baton_fs::private;
use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::Wall;

use super::Sample;
use crate::wire::RunKey;

/// The maximum number of slots: 76 MiB, which a reader holds in memory at once.
pub const SLOTS_MAX: u32 = 1 << 20;

const MAGIC: [u8; 8] = *b"BATONSMP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const SLOT_BYTES: usize = 76;

/// The samples of one task, open for writing.
#[derive(Debug)]
pub struct Ring {
    file: File,
    slots: u32,
    /// The number of the next sample.
    next: u64,
    /// Encoded slots; kept to reuse the memory.
    buffer: Vec<u8>,
}

impl Ring {
    /// Opens the ring at `path` and continues it, or replaces a file that is missing, damaged, not
    /// a ring, or of another size.
    ///
    /// # Errors
    /// If there are no slots or more than [`SLOTS_MAX`], or the file system returns an error.
    pub fn open(path: &Path, slots: u32) -> io::Result<Self> {
        if slots == 0 || slots > SLOTS_MAX {
            let text = format!("{slots} slots; there are 1 to {SLOTS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (file, next) = match reopen(path, slots)? {
            Some(found) => found,
            None => (create(path, slots)?, 1),
        };
        Ok(Self {
            file,
            slots,
            next,
            buffer: Vec::new(),
        })
    }

    /// Adds samples, overwriting the oldest ones.
    ///
    /// # Errors
    /// If the file system returns an error. The same samples may be pushed again.
    pub fn push(&mut self, samples: &[Sample]) -> io::Result<()> {
        let slots = u64::from(self.slots);
        let skipped = samples.len().saturating_sub(self.slots as usize);
        let mut sequence = self.next + skipped as u64;
        let mut rest = &samples[skipped..];
        while !rest.is_empty() {
            let slot = sequence % slots;
            let before_wrap = usize::try_from(slots - slot).map_err(io::Error::other)?;
            let (now, later) = rest.split_at(rest.len().min(before_wrap));
            self.buffer.clear();
            for sample in now {
                self.buffer.extend_from_slice(&encode(sequence, sample));
                sequence += 1;
            }
            let at = HEADER_BYTES as u64 + slot * SLOT_BYTES as u64;
            self.file.write_all_at(&self.buffer, at)?;
            rest = later;
        }
        self.next = sequence;
        Ok(())
    }
}

/// All samples of the ring at `path`, oldest first. Damaged slots are skipped.
///
/// # Errors
/// If it is not a ring, or the file system returns an error.
pub fn read(path: &Path) -> io::Result<Vec<Sample>> {
    read_open(&File::open(path)?)
}

/// Like [`read`], from a file that is open already.
///
/// # Errors
/// If it is not a ring, or the file system returns an error.
pub fn read_open(file: &File) -> io::Result<Vec<Sample>> {
    let (_, slots) = load(file)?;
    Ok(slots.into_iter().map(|(_, sample)| sample).collect())
}

/// The ring at `path` and the number of its next sample; `None` if there is no such ring, and
/// another may replace it.
fn reopen(path: &Path, slots: u32) -> io::Result<Option<(File, u64)>> {
    let file = match private::file_options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(None),
        Err(error) => return Err(error),
    };
    match load(&file) {
        Ok((found, _)) if found != slots => Ok(None),
        Ok((_, held)) => {
            let last = held.last().map_or(0, |(sequence, _)| *sequence);
            Ok(last.checked_add(1).map(|next| (file, next)))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

fn create(path: &Path, slots: u32) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = Path::new(&name);
    // Left by a runner that died here.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o644);
    let file = options.open(temporary)?;
    file.write_all_at(&header(slots), 0)?;
    file.set_len(file_bytes(slots))?;
    fs::rename(temporary, path)?;
    Ok(file)
}

/// The number of slots, and all that hold a sample, in the order of their numbers.
fn load(file: &File) -> io::Result<(u32, Vec<(u64, Sample)>)> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(bad("not a regular file"));
    }
    let mut bytes = Vec::new();
    let most = file_bytes(SLOTS_MAX);
    file.take(most).read_to_end(&mut bytes)?;
    let Some((start, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(bad("too short for a ring of samples"));
    };
    let slots = u32::from_le_bytes([start[12], start[13], start[14], start[15]]);
    if *start != header(slots) || metadata.len() != file_bytes(slots) || slots > SLOTS_MAX {
        return Err(bad("not a ring of samples"));
    }
    let mut held: Vec<(u64, Sample)> = body
        .as_chunks::<SLOT_BYTES>()
        .0
        .iter()
        .zip(0..)
        .filter_map(|(slot, place)| {
            decode(slot).filter(|(sequence, _)| sequence % u64::from(slots) == place)
        })
        .collect();
    held.sort_unstable_by_key(|(sequence, _)| *sequence);
    Ok((slots, held))
}

fn file_bytes(slots: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(slots) * SLOT_BYTES as u64
}

fn header(slots: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let mut cursor = Fields(&mut bytes);
    cursor.put(MAGIC);
    cursor.put(VERSION.to_le_bytes());
    cursor.put(slots.to_le_bytes());
    cursor.put((SLOT_BYTES as u32).to_le_bytes());
    seal(&mut bytes);
    bytes
}

fn encode(sequence: u64, sample: &Sample) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    let mut cursor = Fields(&mut bytes);
    cursor.put(sequence.to_le_bytes());
    cursor.put(sample.wall.0.to_le_bytes());
    cursor.put(sample.run.process.0.to_le_bytes());
    cursor.put(sample.run.run.0.to_le_bytes());
    cursor.put(sample.cpu_ms.to_le_bytes());
    cursor.put(sample.rss.to_le_bytes());
    cursor.put(sample.threads.to_le_bytes());
    cursor.put(sample.processes.to_le_bytes());
    cursor.put(sample.read.to_le_bytes());
    cursor.put(sample.written.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// `None` for a slot that is damaged or was never written.
fn decode(slot: &[u8; SLOT_BYTES]) -> Option<(u64, Sample)> {
    let mut expected = *slot;
    seal(&mut expected);
    if expected != *slot {
        return None;
    }
    let mut left = &slot[..];
    let sequence = u64::from_le_bytes(take(&mut left)?);
    let wall = Wall(u64::from_le_bytes(take(&mut left)?));
    let process = ProcessNo(u32::from_le_bytes(take(&mut left)?));
    let run = RunNo(u64::from_le_bytes(take(&mut left)?));
    let sample = Sample {
        wall,
        run: RunKey { process, run },
        cpu_ms: u64::from_le_bytes(take(&mut left)?),
        rss: u64::from_le_bytes(take(&mut left)?),
        threads: u32::from_le_bytes(take(&mut left)?),
        processes: u32::from_le_bytes(take(&mut left)?),
        read: u64::from_le_bytes(take(&mut left)?),
        written: u64::from_le_bytes(take(&mut left)?),
    };
    (sequence > 0).then_some((sequence, sample))
}

/// Writes the crc of all but the last four bytes into those.
fn seal<const N: usize>(bytes: &mut [u8; N]) {
    let (body, crc) = bytes.split_at_mut(N - 4);
    crc.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
}

/// The unwritten rest of a slot.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(N);
        here.copy_from_slice(&field);
        self.0 = rest;
    }
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = left.split_first_chunk::<N>()?;
    *left = rest;
    Some(*field)
}

#[cfg(test)]
mod tests;
