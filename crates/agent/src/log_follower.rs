//! Following the logs of an instance on the worker's host.
//!
//! `baton run` has its worker on the same host and shows the output directly from the files, so
//! that it costs the worker nothing and works while the worker is down. Other clients ask the
//! scheduler, which asks `logs`. As there, no link is followed: the directory of an attempt belongs
//! to the attempt's user.
//!
//! Attempts are read one after the other, and so are the runs of each process: the next one is
//! started when it exists and the previous one was read to its end. So the state does not grow with
//! the output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use baton_model::ids::{InstanceId, LeaseId};
use baton_model::message::LogStream;
use baton_runner::root::LOGS_DIR;
use rustix::fs::{Dir, Mode, OFlags, open};

use crate::launch::dir_name;
use crate::logs::{open_dir, open_file};
use crate::state::{LOGS, WORK};
use crate::sweep::lease_of;

/// Bytes read at a time from one stream.
const CHUNK_BYTES: usize = 64 << 10;
/// The last lines of a stream are searched in this many bytes at its end.
const TAIL_BYTES: u64 = 64 << 10;

const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// A chunk of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedChunk<'a> {
    /// The process of a task; `None` for a plain command and for the runner itself.
    pub process: Option<&'a str>,
    pub stream: LogStream,
    pub bytes: &'a [u8],
}

/// Read position in the output of one process.
#[derive(Clone, Copy, Debug, Default)]
struct ReadPosition {
    run: u64,
    /// In the order of [`STREAMS`].
    offsets: [u64; 2],
}

/// Follower of the output of one instance's attempts.
#[derive(Debug)]
pub struct LogFollower {
    state: PathBuf,
    instance: InstanceId,
    /// The last attempt that was read completely.
    finished: Option<LeaseId>,
    /// Positions in the attempt after it.
    positions: BTreeMap<Option<String>, ReadPosition>,
}

impl LogFollower {
    /// Follows this instance on the worker with this state directory.
    #[must_use]
    pub fn new(state: &Path, instance: InstanceId) -> Self {
        Self {
            state: state.to_owned(),
            instance,
            finished: None,
            positions: BTreeMap::new(),
        }
    }

    /// Skips the existing output, except the last `lines` lines of each stream of the last attempt.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub fn skip(&mut self, lines: usize) -> io::Result<()> {
        let mut leases = self.leases()?;
        let Some(last) = leases.pop_last() else {
            return Ok(());
        };
        self.finished = leases.pop_last();
        let attempt = Attempt::open(&self.state, last)?;
        for process in attempt.processes()? {
            let run = attempt.runs(process.as_deref())?.pop_last();
            let mut at = ReadPosition {
                run: run.unwrap_or(0),
                ..ReadPosition::default()
            };
            for (stream, offset) in STREAMS.into_iter().zip(&mut at.offsets) {
                if let Some(file) = attempt.file(process.as_deref(), at.run, stream)? {
                    *offset = last_lines(&file, lines)?;
                }
            }
            self.positions.insert(process, at);
        }
        Ok(())
    }

    /// Passes new output to `print`, a bounded amount at a time. True if there is more already.
    ///
    /// # Errors
    /// If the files cannot be read, and any error of `print`.
    pub fn read(
        &mut self,
        mut print: impl FnMut(&FollowedChunk<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let leases = self.leases()?;
        let mut left = leases.into_iter().filter(|it| Some(*it) > self.finished);
        let Some(lease) = left.next() else {
            return Ok(false);
        };
        // Checked before reading: an attempt with a successor prints nothing more.
        let is_superseded = left.next().is_some();
        let attempt = Attempt::open(&self.state, lease)?;
        let mut more = false;
        for process in attempt.processes()? {
            let at = self.positions.entry(process.clone()).or_default();
            more |= attempt.read(process.as_deref(), at, &mut print)?;
        }
        if is_superseded && !more {
            self.finished = Some(lease);
            self.positions.clear();
        }
        Ok(more || is_superseded)
    }

    /// The attempts that have files here.
    fn leases(&self) -> io::Result<BTreeSet<LeaseId>> {
        let mut leases = BTreeSet::new();
        for dir in [LOGS, WORK] {
            let entries = match std::fs::read_dir(self.state.join(dir)) {
                Ok(entries) => entries,
                // The worker has not started yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let lease = entry?.file_name().to_str().and_then(lease_of);
                leases.extend(lease.filter(|it| it.attempt.instance == self.instance));
            }
        }
        Ok(leases)
    }
}

/// The files of one attempt.
struct Attempt {
    name: String,
    /// The directory with the output of its first process.
    logs: OwnedFd,
    /// The directory with the output of a task's processes.
    processes: Option<OwnedFd>,
}

impl Attempt {
    fn open(state: &Path, lease: LeaseId) -> io::Result<Self> {
        let name = dir_name(lease);
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let work = open(state.join(WORK), flags, Mode::empty())?;
        let dir = open_dir(&work, &name)?;
        Ok(Self {
            name,
            logs: open(state.join(LOGS), flags, Mode::empty())?,
            processes: match dir {
                Some(dir) => open_dir(&dir, LOGS_DIR)?,
                None => None,
            },
        })
    }

    /// The sources of output: the attempt itself, and the processes of a task.
    fn processes(&self) -> io::Result<Vec<Option<String>>> {
        let mut names = vec![None];
        if let Some(dir) = &self.processes {
            let mut found = entries(dir)?;
            found.retain(|name| !name.starts_with('.'));
            found.sort_unstable();
            names.extend(found.into_iter().map(Some));
        }
        Ok(names)
    }

    fn runs(&self, process: Option<&str>) -> io::Result<BTreeSet<u64>> {
        let Some(dir) = self.dir(process)? else {
            return Ok(BTreeSet::from([0]));
        };
        let names = entries(&dir)?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn dir(&self, process: Option<&str>) -> io::Result<Option<OwnedFd>> {
        match process.zip(self.processes.as_ref()) {
            Some((process, dir)) => open_dir(dir, process),
            None => Ok(None),
        }
    }

    fn file(&self, process: Option<&str>, run: u64, stream: LogStream) -> io::Result<Option<File>> {
        let (short, long) = match stream {
            LogStream::Stdout => ("out", "stdout"),
            LogStream::Stderr => ("err", "stderr"),
        };
        if process.is_none() {
            return open_file(&self.logs, &format!("{}.{short}", self.name));
        }
        let Some(runs) = self.dir(process)? else {
            return Ok(None);
        };
        match open_dir(&runs, &run.to_string())? {
            Some(run) => open_file(&run, long),
            None => Ok(None),
        }
    }

    /// Reads a chunk of each stream of one process. True if there is more.
    fn read(
        &self,
        process: Option<&str>,
        at: &mut ReadPosition,
        print: &mut impl FnMut(&FollowedChunk<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        // Checked before reading, as above.
        let later = self.runs(process)?.range(at.run + 1..).next().copied();
        let mut more = false;
        let mut bytes = vec![0; CHUNK_BYTES];
        for (stream, offset) in STREAMS.into_iter().zip(&mut at.offsets) {
            let Some(file) = self.file(process, at.run, stream)? else {
                continue;
            };
            // A rotated file starts again.
            if file.metadata()?.len() < *offset {
                *offset = 0;
            }
            let read = read_at(&file, &mut bytes, *offset)?;
            if read > 0 {
                let bytes = &bytes[..read];
                print(&FollowedChunk {
                    process,
                    stream,
                    bytes,
                })?;
            }
            *offset += read as u64;
            more |= read == CHUNK_BYTES;
        }
        if let Some(run) = later.filter(|_| !more) {
            let offsets = [0; 2];
            *at = ReadPosition { run, offsets };
            more = true;
        }
        Ok(more)
    }
}

fn entries(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        names.extend(entry.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

/// Reads from the offset, as much as exists and fits.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The offset of the last lines of a file.
fn last_lines(file: &File, lines: usize) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; (length - start) as usize];
    let read = read_at(file, &mut bytes, start)?;
    bytes.truncate(read);
    let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let mut breaks = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
    let before = lines.checked_sub(1).and_then(|nth| breaks.nth(nth));
    Ok(match before {
        Some((at, _)) => start + at as u64 + 1,
        None if lines == 0 => length,
        None => start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const INSTANCE: InstanceId = InstanceId(7);

    struct StateFixture(tempfile::TempDir);

    impl StateFixture {
        fn new() -> Self {
            let place = tempfile::tempdir().expect("a directory");
            for name in [LOGS, WORK] {
                fs::create_dir(place.path().join(name)).expect("made");
            }
            Self(place)
        }

        fn follower(&self) -> LogFollower {
            LogFollower::new(self.0.path(), INSTANCE)
        }

        /// Writes a log of the attempt itself.
        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(LOGS).join(name), text).expect("written");
        }

        /// Writes a log of a run of a process.
        fn process(&self, attempt: &str, run: &str, text: &str) {
            let dir = self.0.path().join(WORK).join(attempt);
            let dir = dir.join(LOGS_DIR).join(run);
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join("stdout"), text).expect("written");
        }
    }

    /// Reads everything to its end.
    fn all(follower: &mut LogFollower) -> String {
        let mut text = String::new();
        let mut read = |text: &mut String| {
            let read = follower.read(|chunk| {
                let stream = match chunk.stream {
                    LogStream::Stdout => "",
                    LogStream::Stderr => "!",
                };
                let process = chunk.process.map(|name| format!("{name}:"));
                *text += &process.unwrap_or_default();
                *text += stream;
                *text += &String::from_utf8_lossy(chunk.bytes);
                Ok(())
            });
            read.expect("readable")
        };
        while read(&mut text) {}
        text
    }

    #[test]
    fn what_comes_is_read_once_and_attempts_follow_each_other() {
        let place = StateFixture::new();
        let mut follower = place.follower();
        assert_eq!(all(&mut follower), "");
        place.write("i7.1.e1.out", "a");
        place.write("i8.1.e1.out", "another instance");
        assert_eq!(all(&mut follower), "a");
        place.write("i7.1.e1.out", "ab");
        place.write("i7.1.e1.err", "c");
        assert_eq!(all(&mut follower), "b!c");
        place.write("i7.2.e1.out", "second");
        place.write("i7.1.e1.out", "abd");
        assert_eq!(all(&mut follower), "dsecond");
        place.write("i7.1.e1.out", "abde");
        assert_eq!(all(&mut follower), "", "it is past");
    }

    #[test]
    fn the_runs_of_each_process_follow_each_other() {
        let place = StateFixture::new();
        let mut follower = place.follower();
        place.process("i7.1.e1", "one/0", "a");
        place.process("i7.1.e1", "two/0", "b");
        assert_eq!(all(&mut follower), "one:atwo:b");
        place.process("i7.1.e1", "one/0", "ac");
        place.process("i7.1.e1", "one/1", "d");
        place.process("i7.1.e1", "one/2", "e");
        assert_eq!(all(&mut follower), "one:cone:done:e");
    }

    #[test]
    fn more_than_a_chunk_comes_in_chunks() {
        let place = StateFixture::new();
        let text = "x".repeat(3 * CHUNK_BYTES + 1);
        place.write("i7.1.e1.out", &text);
        let mut follower = place.follower();
        let mut longest = 0;
        let more = follower.read(|chunk| {
            longest = longest.max(chunk.bytes.len());
            Ok(())
        });
        assert!(more.expect("readable"));
        assert_eq!(longest, CHUNK_BYTES);
        assert_eq!(all(&mut follower).len(), text.len() - CHUNK_BYTES);
    }

    #[test]
    fn of_what_was_there_before_only_the_last_lines_of_the_last_attempt_are_read() {
        let place = StateFixture::new();
        place.write("i7.1.e1.out", "first\n");
        place.write("i7.2.e1.out", "1\n2\n3\n");
        let mut follower = place.follower();
        follower.skip(2).expect("readable");
        place.write("i7.2.e1.out", "1\n2\n3\n4");
        assert_eq!(all(&mut follower), "2\n3\n4");
        let mut follower = place.follower();
        follower.skip(0).expect("readable");
        assert_eq!(all(&mut follower), "");
    }

    #[test]
    fn a_link_leads_nowhere() {
        let place = StateFixture::new();
        let secret = place.0.path().join("secret");
        fs::write(&secret, "secret").expect("written");
        let link = place.0.path().join(LOGS).join("i7.1.e1.out");
        std::os::unix::fs::symlink(secret, link).expect("linked");
        assert_eq!(all(&mut place.follower()), "");
    }
}
