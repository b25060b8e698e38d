//! Following the logs of an instance on the worker's host.
//!
//! `baton run` has its worker on the same host and shows the output directly from the files, so
//! that it costs the worker nothing and works while the worker is down. Other clients ask the
//! scheduler, which asks `logs`.
//!
//! Attempts are read one after the other, and so are the runs of each process: the next one is
//! started when it exists and the previous one was read to its end. So the state does not grow with
//! the output.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use baton_model::ids::{InstanceId, LeaseId};
use baton_model::message::LogStream;
use baton_runner::logs::{Follower, LogSource, ProcessLogs, STREAMS};

use crate::attempt_dir::dir_name;
use crate::logs::own_log;
use crate::state::{LOGS, WORK};
use crate::sweep::lease_of;

/// A chunk of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedChunk<'a> {
    /// The process of a task; `None` for a plain command and for the runner itself.
    pub process: Option<&'a str>,
    pub stream: LogStream,
    pub bytes: &'a [u8],
}

/// Follower of the output of one instance's attempts.
#[derive(Debug)]
pub struct LogFollower {
    state: PathBuf,
    instance: InstanceId,
    /// The last attempt that was read completely.
    finished: Option<LeaseId>,
    /// The streams of the attempt after it.
    streams: BTreeMap<(Option<String>, LogStream), Follower>,
}

impl LogFollower {
    /// Follows this instance on the worker with this state directory.
    #[must_use]
    pub fn new(state: &Path, instance: InstanceId) -> Self {
        Self {
            state: state.to_owned(),
            instance,
            finished: None,
            streams: BTreeMap::new(),
        }
    }

    /// Skips the existing output, except the last `lines` lines of each stream of the last attempt.
    pub fn skip(&mut self, lines: usize) -> io::Result<()> {
        let mut leases = self.leases()?;
        let Some(last) = leases.pop_last() else {
            return Ok(());
        };
        self.finished = leases.pop_last();
        for (process, stream, source) in sources(&self.state, last)? {
            let mut follower = Follower::new(source);
            follower.skip(lines)?;
            follower.release();
            self.streams.insert((process, stream), follower);
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
        let mut more = false;
        for (process, stream, source) in sources(&self.state, lease)? {
            let key = (process.clone(), stream);
            let follower = self
                .streams
                .entry(key)
                .or_insert_with(|| Follower::new(source));
            let mut printed = Ok(());
            let is_read = follower.read(&mut |bytes| {
                printed = print(&FollowedChunk {
                    process: process.as_deref(),
                    stream,
                    bytes,
                });
                false
            })?;
            printed?;
            more |= !is_read;
            if is_read {
                // A task may have more streams than a process may open files.
                follower.release();
            }
        }
        if is_superseded && !more {
            self.finished = Some(lease);
            self.streams.clear();
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

/// The streams of one attempt: those of the attempt itself, and those of a task's processes.
pub(crate) fn sources(
    state: &Path,
    lease: LeaseId,
) -> io::Result<Vec<(Option<String>, LogStream, LogSource)>> {
    let sandbox = state.join(WORK).join(dir_name(lease));
    let mut sources = Vec::new();
    for stream in STREAMS {
        let file = LogSource::File(own_log(state, lease, stream));
        sources.push((None, stream, file));
    }
    for process in ProcessLogs::all(&sandbox)? {
        for stream in STREAMS {
            let logs = ProcessLogs::new(&sandbox, &process);
            let source = logs.map(|logs| LogSource::Process(logs, stream));
            sources.extend(source.map(|source| (Some(process.clone()), stream, source)));
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_runner::root::LOGS_DIR;
    use std::fs;

    const CHUNK_BYTES: usize = 64 << 10;

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

    #[test]
    fn a_rotation_loses_nothing_and_the_new_file_is_read_from_its_beginning() {
        let place = StateFixture::new();
        let mut follower = place.follower();
        place.process("i7.1.e1", "one/0", "a");
        assert_eq!(all(&mut follower), "one:a");
        place.process("i7.1.e1", "one/0", "a, then the end");
        let dir = place.0.path().join(WORK).join("i7.1.e1").join(LOGS_DIR);
        let name = |name| dir.join("one/0").join(name);
        fs::rename(name("stdout"), name("stdout.1")).expect("renamed");
        place.process("i7.1.e1", "one/0", "the beginning");
        assert_eq!(all(&mut follower), "one:, then the endone:the beginning");
        assert_eq!(all(&mut follower), "");
    }
}
