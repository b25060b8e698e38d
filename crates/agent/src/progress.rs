//! Progress of an attempt: the newest line of the file that `BATON_PROGRESS` names.
//!
//! The file is read from its end, at most [`WINDOW_BYTES`] of it, and only when it has changed. A file that is no
//! plain file tells no progress. While an attempt runs, all files are looked at in one pass, and the pause after it
//! grows with its cost.
//!
//! Of an attempt with secrets only whole lines count: in a part of a line a part of a secret would not be masked.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use baton_core::supervision::attempts::{Attempts, Phase};
use baton_model::ids::LeaseId;
use baton_model::progress::Progress;
use baton_model::time::{Millis, Mono, Wall};
use baton_runner::masking::Masker;
use baton_runner::sys::clock;

use crate::launch::Launcher;
use crate::plain_file::open_plain;

/// Bytes at the end of the file that are read. A longer line is no progress.
const WINDOW_BYTES: usize = 4 << 10;
/// The shortest interval between two looks at a file. Heartbeats report progress, and are rarer.
const EVERY: Millis = Millis::from_secs(2);
/// A slow pass makes the intervals longer: it takes at most one part in this many of the time.
const COST_RATIO: u64 = 20;

/// A state of a file: if it is the same, so is the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// When it was written, by the clock of this host; never later than now.
    fn at(self, now: Wall) -> Wall {
        let (seconds, nanos) = self.modified;
        let ms = u64::try_from(seconds.saturating_mul(1_000) + nanos / 1_000_000).unwrap_or(0);
        Wall(ms.min(now.0))
    }
}

/// Reads the progress of running attempts.
#[derive(Debug)]
pub(crate) struct ProgressWatch {
    next: Mono,
    seen: BTreeMap<LeaseId, Version>,
}

impl ProgressWatch {
    pub(crate) const fn new(now: Mono) -> Self {
        Self {
            next: now,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn next_due(&self, attempts: &Attempts) -> Option<Mono> {
        (!attempts.is_empty()).then_some(self.next)
    }

    /// The progress of running attempts whose files have changed, if it is time to look.
    pub(crate) fn read(
        &mut self,
        now: Mono,
        attempts: &Attempts,
        launcher: &Launcher,
    ) -> Vec<(LeaseId, Progress)> {
        if attempts.is_empty() || now < self.next {
            return Vec::new();
        }
        self.seen.retain(|lease, _| attempts.contains(*lease));
        let running = attempts.iter().filter(|it| it.phase == Phase::Running);
        let mut found = Vec::new();
        for attempt in running {
            let (lease, spec) = (attempt.assignment.lease, &*attempt.assignment.spec);
            let path = launcher.progress_file(spec, lease);
            let Ok(Some((file, metadata))) = open_plain(Path::new(&path)) else {
                continue;
            };
            let version = Version::of(&metadata);
            if self.seen.insert(lease, version) == Some(version) {
                continue;
            }
            // Without its secrets nothing can be masked, so nothing is shown.
            if let Ok(masker) = launcher.secrets.masker(lease, spec)
                && let Some(progress) = parse(file, version, masker)
            {
                found.push((lease, progress));
            }
        }
        let ended = clock::now().mono;
        self.next = now + EVERY.max(ended.since(now).scaled(COST_RATIO, 1));
        found
    }
}

/// The last progress of an attempt that has ended; none if it has reported none.
pub(crate) fn read(path: &Path, masker: Option<Masker>) -> Option<Progress> {
    let (file, metadata) = open_plain(path).ok()??;
    parse(file, Version::of(&metadata), masker)
}

fn parse(file: File, version: Version, masker: Option<Masker>) -> Option<Progress> {
    let (bytes, is_whole) = window(file, version.bytes).ok()?;
    let line = last_line(&bytes, is_whole, masker)?;
    Progress::parse(&line, version.at(clock::now().wall))
}

/// The end of a file, and whether that is all of it.
fn window(mut file: File, length: u64) -> io::Result<(Vec<u8>, bool)> {
    let start = length.saturating_sub(WINDOW_BYTES as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(WINDOW_BYTES as u64).read_to_end(&mut bytes)?;
    Ok((bytes, start == 0))
}

/// The last line that is not blank. Programs that redraw a line begin it with a carriage return.
fn last_line(bytes: &[u8], is_whole: bool, masker: Option<Masker>) -> Option<String> {
    let ends_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut bytes = bytes;
    if !is_whole {
        // The first line may be the end of one.
        bytes = &bytes[bytes.iter().position(ends_line)? + 1..];
    }
    let masked;
    if let Some(mut masker) = masker {
        let end = bytes.iter().rposition(ends_line)?;
        masked = masker.masked(&bytes[..end]);
        bytes = &masked;
    }
    let mut lines = bytes.rsplit(ends_line);
    let line = lines.find(|line| !line.trim_ascii().is_empty())?;
    Some(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn line(bytes: &[u8]) -> Option<String> {
        last_line(bytes, true, None)
    }

    #[test]
    fn the_newest_line_that_is_not_blank_counts() {
        for (bytes, expected) in [
            (&b""[..], None),
            (b"\n \r\n", None),
            (b"1/2 a\n2/2 b\n", Some("2/2 b")),
            (b"1/2 a\n2/2", Some("2/2")),
            (b"10%\r20%\r30%\r", Some("30%")),
            (b"a\r\n\r\n", Some("a")),
            (b"bad \xff byte\n", Some("bad \u{fffd} byte")),
        ] {
            assert_eq!(line(bytes).as_deref(), expected, "{bytes:?}");
        }
        let cut = last_line(b"end of a long line\n3/4\n", false, None);
        assert_eq!(cut.as_deref(), Some("3/4"));
        assert_eq!(last_line(b"no line ends here", false, None), None);
    }

    #[test]
    fn of_an_attempt_with_secrets_whole_lines_are_masked() {
        let masked = |bytes: &[u8]| {
            let masker = Masker::new([&b"hunter2"[..]]);
            last_line(bytes, true, Some(masker))
        };
        assert_eq!(masked(b"1/2 hunter2 x\n").as_deref(), Some("1/2 *** x"));
        assert_eq!(masked(b"1/2 a\n2/2 hunt").as_deref(), Some("1/2 a"));
        assert_eq!(masked(b"hunt"), None);
    }

    #[test]
    fn hostile_files_tell_no_progress_and_do_no_harm() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        let read = |name: &str| read(&path(name), None).map(|it| it.text());
        assert_eq!(read("missing"), None);
        fs::write(path("plain"), "1/4 first\n3/4 last\n").expect("written");
        assert_eq!(read("plain").as_deref(), Some("3/4 last"));
        symlink(path("plain"), path("link")).expect("linked");
        assert_eq!(read("link"), None);
        fs::create_dir(path("folder")).expect("made");
        assert_eq!(read("folder"), None);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path("pipe"), FileType::Fifo, mode, 0).expect("made");
        assert_eq!(read("pipe"), None, "it does not wait for a writer");
        let large = File::create(path("large")).expect("made");
        large.set_len(1 << 30).expect("sparse");
        assert_eq!(read("large"), None, "a gigabyte without a line");
        fs::hard_link(path("plain"), path("other")).expect("linked");
        assert_eq!(read("plain"), None);
    }

    #[test]
    fn progress_has_the_time_at_which_it_was_written() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("progress");
        fs::write(&path, "50%\n").expect("written");
        let file = File::options().append(true).open(&path).expect("there");
        let at = |ms| std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
        file.set_modified(at(1_234)).expect("a time");
        assert_eq!(read(&path, None).map(|it| it.at), Some(Wall(1_234)));
        file.set_modified(at(1 << 42)).expect("a time");
        let now = clock::now().wall;
        let future = read(&path, None).expect("a line");
        assert!(future.at >= now && future.at.0 < 1 << 42, "{future:?}");
    }
}
