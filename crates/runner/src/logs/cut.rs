//! Cutting a log that exceeds its limit while it is written: its middle is removed, as a hole, and a
//! mark in its place says so. Offsets and the writer's position stay valid; readers pass over holes
//! ([`super::holes`]).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use baton_model::task::RunNo;
use rustix::fs::{FallocateFlags, fallocate};

use super::LogSource;

/// Holes begin and end at a multiple of this.
const BLOCK_BYTES: u64 = 4_096;
/// The unit in which the kernel counts what a file takes.
const SECTOR_BYTES: u64 = 512;
/// The smallest limit: there must be room for the mark and for some lines on both sides.
pub const LOG_LIMIT_MIN: u64 = 64 << 10;
/// Stands where bytes were removed.
pub const CUT_MARK: &str = "\n[baton: output was removed here: the log limit of the worker]\n";

impl LogSource {
    /// Cuts every file of a run that takes more than `limit` bytes: a quarter of that stays of its
    /// beginning, and at least half of its end.
    ///
    /// # Errors
    /// If a file cannot be opened or changed; the file system may not support holes.
    pub fn cut(&self, run: RunNo, limit: u64) -> io::Result<()> {
        let files = self.files(run)?.into_iter().flatten();
        for file in files.filter_map(|it| it.file) {
            if file.metadata()?.blocks() * SECTOR_BYTES > limit {
                // The same file, to write: its name may lead elsewhere by now.
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                cut(&File::options().read(true).write(true).open(path)?, limit)?;
            }
        }
        Ok(())
    }
}

fn cut(file: &File, limit: u64) -> io::Result<()> {
    let limit = limit.max(LOG_LIMIT_MIN);
    let start = (limit / 4).next_multiple_of(BLOCK_BYTES);
    let end = file.metadata()?.len().saturating_sub(limit / 2);
    let end = end - end % BLOCK_BYTES;
    if end <= start {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, start, end - start)?;
    let mark = CUT_MARK.as_bytes();
    file.write_all_at(mark, start - mark.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use baton_model::message::LogStart;

    use super::*;

    #[test]
    fn the_middle_of_a_long_log_is_removed_with_a_mark_and_its_end_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .expect("made");
        let source = LogSource::File(path);
        let line = |number: u32| format!("{number:07}\n");
        let mut write = |numbers: std::ops::Range<u32>| {
            let text: String = numbers.map(line).collect();
            file.write_all(text.as_bytes()).expect("written");
        };
        let read = || {
            let (mut text, mut start) = (Vec::new(), LogStart::Offset(0));
            loop {
                let piece = source.piece(RunNo(0), start, 5_000).expect("readable");
                let piece = piece.expect("a file");
                if piece.bytes.is_empty() {
                    return String::from_utf8(text).expect("no zeros");
                }
                text.extend(piece.bytes);
                start = LogStart::Cursor(piece.cursor.expect("within"));
            }
        };
        write(0..1_000);
        source
            .cut(RunNo(0), LOG_LIMIT_MIN)
            .expect("holes are supported");
        assert_eq!(read().lines().count(), 1_000, "short enough");
        for last in [100_000, 200_000] {
            write(last - 100_000..last);
            source
                .cut(RunNo(0), LOG_LIMIT_MIN)
                .expect("holes are supported");
            let text = read();
            assert!(text.len() as u64 <= LOG_LIMIT_MIN, "{}", text.len());
            assert!(text.starts_with(&line(0)) && text.ends_with(&line(last - 1)));
            assert_eq!(text.matches(CUT_MARK).count(), 1);
            assert!(!text.contains('\0'));
        }
    }
}
