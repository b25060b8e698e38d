//! Reading a part of a log.
//!
//! A query names a lease and a process of its task; never a path. Links that the attempt's user has
//! put into its directory are not followed: see `baton_runner::logs`.
//!
//! A log that stayed empty is reused for another attempt, by renaming it; `LogSource` takes care of
//! that, and of rotations.

use std::io;
use std::path::{Path, PathBuf};

use baton_model::ids::LeaseId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{LogAnswer, LogChunk, LogQuery, LogStream};
use baton_model::task::RunNo;
use baton_runner::logs::{LogSource, ProcessLogs, open_dir, open_file};
use rustix::fs::CWD;

use crate::attempt_dir::{RUNNER_DIR, TASK_FILE, TaskFile, dir_name};
use crate::state::{LOGS, WORK};

/// A longer file is not one that the agent has written.
const TASK_FILE_BYTES_MAX: u64 = 64 << 20;

/// Answers a query about the worker with this state directory.
#[must_use]
pub fn read(state: &Path, query: &LogQuery) -> LogAnswer {
    let read = || {
        let Some(log) = find(state, query)? else {
            return Ok(None);
        };
        let bytes_max = query.bytes_max.min(LOG_CHUNK_BYTES_MAX) as usize;
        let run = RunNo(log.run.into());
        let piece = log.source.piece(run, query.start, bytes_max)?;
        Ok(piece.map(|piece| LogChunk {
            bytes: piece.bytes,
            size: piece.size,
            cursor: piece.cursor,
            run: log.run,
            next_run: log.next_run,
        }))
    };
    match read() {
        Ok(Some(chunk)) => LogAnswer::Chunk(chunk),
        Ok(None) => LogAnswer::NotFound,
        Err(error) => {
            let error: io::Error = error;
            LogAnswer::Unavailable(format!("the worker cannot read the log: {error}"))
        }
    }
}

/// A log, and the run of the process that wrote it.
struct RunLog {
    source: LogSource,
    run: u32,
    /// The next run, if there was one when the log was found.
    next_run: Option<u32>,
}

/// The log that a query is about.
fn find(state: &Path, query: &LogQuery) -> io::Result<Option<RunLog>> {
    let dir = state.join(WORK).join(dir_name(query.lease));
    if let Some(task) = task(&dir)? {
        return of_process(&dir, &task, query);
    }
    // A plain command has only one run.
    if query.process.is_some() || query.run.is_some_and(|run| run > 0) {
        return Ok(None);
    }
    Ok(Some(RunLog {
        source: LogSource::File(own_log(state, query.lease, query.stream)),
        run: 0,
        next_run: None,
    }))
}

/// The log of an attempt itself: of a plain command, or of the runner of a task.
pub(crate) fn own_log(state: &Path, lease: LeaseId, stream: LogStream) -> PathBuf {
    let suffix = match stream {
        LogStream::Stdout => "out",
        LogStream::Stderr => "err",
    };
    let name = format!("{}.{suffix}", dir_name(lease));
    state.join(LOGS).join(name)
}

/// The task of an attempt, if it is one.
fn task(dir: &Path) -> io::Result<Option<TaskFile>> {
    let Some(dir) = open_dir(CWD, dir)? else {
        return Ok(None);
    };
    let Some(runner) = open_dir(dir, RUNNER_DIR)? else {
        return Ok(None);
    };
    let Some(file) = open_file(runner, TASK_FILE)? else {
        return Ok(None);
    };
    if file.metadata()?.len() > TASK_FILE_BYTES_MAX {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&io::read_to_string(file)?)?))
}

/// The output of a process: the requested one or the first; of the requested run or the last.
fn of_process(dir: &Path, task: &TaskFile, query: &LogQuery) -> io::Result<Option<RunLog>> {
    let mut processes = task.spec.processes.iter().map(|process| &*process.name.0);
    let process = match &query.process {
        Some(name) => processes.find(|process| process == name),
        None => processes.next(),
    };
    let Some(logs) = process.and_then(|process| ProcessLogs::new(dir, process)) else {
        return Ok(None);
    };
    let runs = logs.runs()?;
    let numbers = runs.iter().filter_map(|run| u32::try_from(run.0).ok());
    let Some(number) = query.run.or(numbers.clone().next_back()) else {
        return Ok(None);
    };
    let next_run = { numbers }.find(|it| *it > number);
    Ok(Some(RunLog {
        source: LogSource::Process(logs, query.stream),
        run: number,
        next_run,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};
    use baton_model::message::LogStart;
    use baton_model::task::{CommandLine, ProcessSpec, Resources, TaskSpec};
    use baton_model::time::Millis;
    use std::fs;

    fn query(offset: u64, bytes_max: u32, process: Option<&str>) -> LogQuery {
        LogQuery {
            lease: LeaseId {
                attempt: AttemptId {
                    instance: InstanceId(1),
                    number: AttemptNo(1),
                },
                epoch: Epoch(1),
            },
            stream: LogStream::Stdout,
            start: LogStart::Offset(offset),
            bytes_max,
            process: process.map(str::to_owned),
            run: None,
        }
    }

    /// A cursor names an inode, which each file has another of.
    fn without_cursor(mut answer: LogAnswer) -> LogAnswer {
        if let LogAnswer::Chunk(chunk) = &mut answer {
            chunk.cursor = None;
        }
        answer
    }

    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join(WORK)).expect("made");
        fs::create_dir(place.path().join(LOGS)).expect("made");
        place
    }

    #[test]
    fn a_part_is_read_and_nothing_beyond_its_end() {
        let place = place();
        let state = place.path();
        assert_eq!(read(state, &query(0, 9, None)), LogAnswer::NotFound);
        fs::write(state.join("logs/i1.1.e1.out"), b"0123456789").expect("written");
        let chunk = |offset, max| without_cursor(read(state, &query(offset, max, None)));
        let of_ten = |bytes: &[u8]| {
            LogAnswer::Chunk(LogChunk {
                bytes: bytes.to_vec(),
                size: 10,
                ..LogChunk::default()
            })
        };
        assert_eq!(chunk(2, 3), of_ten(b"234"));
        assert_eq!(chunk(8, u32::MAX), of_ten(b"89"));
        assert_eq!(chunk(10, 1), of_ten(b""));
        assert_eq!(chunk(u64::MAX, 1), of_ten(b""));
        let other = LogQuery {
            run: Some(1),
            ..query(0, 9, None)
        };
        assert_eq!(read(state, &other), LogAnswer::NotFound);
    }

    #[test]
    fn a_link_leads_nowhere() {
        let place = place();
        let state = place.path();
        fs::write(state.join("secret"), b"secret").expect("written");
        let link = state.join("logs/i1.1.e1.out");
        std::os::unix::fs::symlink(state.join("secret"), link).expect("linked");
        assert_eq!(read(state, &query(0, 9, None)), LogAnswer::NotFound);
    }

    #[test]
    fn a_task_has_the_runs_of_its_processes_the_last_if_unsaid_and_no_other_names() {
        let place = place();
        let state = place.path();
        let process = |name: &str| ProcessSpec::new(name, CommandLine::Shell(String::new()));
        let file = TaskFile {
            id: "x".to_owned(),
            spec: TaskSpec {
                name: "x".to_owned(),
                owner: None,
                processes: vec![process("one"), process("two")],
                max_failures: 1,
                max_concurrency: 0,
                finalization_wait: Millis(0),
                user: None,
                resources: Resources::default(),
                ports: std::collections::BTreeMap::new(),
            },
            env: Vec::new(),
            device_variables: Vec::new(),
            secrets: None,
            warning: None,
        };
        let dir = state.join("work/i1.1.e1");
        for (process, run) in [("one", 2), ("one", 10), ("two", 0), ("three", 0)] {
            let logs = dir.join(format!(".logs/{process}/{run}"));
            fs::create_dir_all(&logs).expect("made");
            fs::write(logs.join("stdout"), format!("{process} {run}")).expect("written");
        }
        fs::create_dir(dir.join(RUNNER_DIR)).expect("made");
        let text = serde_json::to_vec(&file).expect("JSON");
        fs::write(dir.join(RUNNER_DIR).join(TASK_FILE), text).expect("written");
        let of = |process| without_cursor(read(state, &query(0, 99, process)));
        let chunk = |text: &str, run, next_run| {
            LogAnswer::Chunk(LogChunk {
                run,
                next_run,
                ..LogChunk::whole(text)
            })
        };
        assert_eq!(of(None), chunk("one 10", 10, None));
        assert_eq!(of(Some("two")), chunk("two 0", 0, None));
        let of_run = |run| {
            let query = query(0, 99, None);
            let run = Some(run);
            without_cursor(read(state, &LogQuery { run, ..query }))
        };
        assert_eq!(of_run(2), chunk("one 2", 2, Some(10)));
        assert_eq!(of_run(10), chunk("one 10", 10, None));
        assert_eq!(of_run(3), LogAnswer::NotFound);
        for strange in ["three", "../one", "", "."] {
            assert_eq!(of(Some(strange)), LogAnswer::NotFound, "{strange}");
        }
    }
}
