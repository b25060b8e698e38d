//! The last lines of an attempt's standard error, which a failure is reported with.
//!
//! Of a task with several processes: of the one that has written last. The file that a task names
//! for its standard error is read, too. Control characters are escaped, since the text is shown on terminals.

use std::io;
use std::path::Path;
use std::sync::Arc;

use baton_model::ids::LeaseId;
use baton_model::limits::{
    FAULT_BYTES_MAX, PROCESSES_SHOWN_MAX, STDERR_TAIL_BYTES_MAX, STDERR_TAIL_LINES_MAX,
};
use baton_model::message::LogStream;
use baton_model::spec::InstanceSpec;
use baton_model::task::RunNo;
use baton_runner::logs::{LogSource, ProcessLogs, Tail};

use crate::attempt_dir::dir_name;
use crate::logs::own_log;
use crate::output_files;
use crate::state::WORK;

/// The last lines; `None` if there are none, or they cannot be read.
pub(crate) fn read(state: &Path, lease: LeaseId, spec: &InstanceSpec) -> Option<Arc<str>> {
    let tail = newest(state, lease, spec).unwrap_or_else(|error| {
        tracing::info!("{lease}: its standard error cannot be read: {error}");
        None
    });
    text(&tail?.bytes)
}

/// The end of the log that was written last.
fn newest(state: &Path, lease: LeaseId, spec: &InstanceSpec) -> io::Result<Option<Tail>> {
    let sandbox = state.join(WORK).join(dir_name(lease));
    let own = LogSource::File(own_log(state, lease, LogStream::Stderr));
    let mut found = vec![own.tail(RunNo(0), STDERR_TAIL_BYTES_MAX)?];
    for process in { ProcessLogs::all(&sandbox)? }
        .into_iter()
        .take(PROCESSES_SHOWN_MAX)
    {
        let Some(logs) = ProcessLogs::new(&sandbox, &process) else {
            continue;
        };
        if let Some(run) = logs.runs()?.last() {
            let source = LogSource::Process(logs, LogStream::Stderr);
            found.push(source.tail(*run, STDERR_TAIL_BYTES_MAX)?);
        }
    }
    match output_files::stderr_tail(spec, lease, &sandbox, STDERR_TAIL_BYTES_MAX) {
        Ok(tail) => found.push(tail),
        // The log may still tell more.
        Err(error) => {
            tracing::info!("{lease}: the file of its standard error cannot be read: {error}")
        }
    }
    let found = found.into_iter().flatten();
    let written = found.filter(|tail| !tail.bytes.is_empty());
    Ok(written.max_by_key(|tail| tail.modified))
}

/// The last whole lines of the end of a log, within the limits.
pub(crate) fn text(bytes: &[u8]) -> Option<Arc<str>> {
    let raw = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = raw.trim_end().lines().map(escape).collect();
    // The first line may be the end of one.
    if bytes.len() >= STDERR_TAIL_BYTES_MAX && lines.len() > 1 {
        lines.remove(0);
    }
    let mut start = lines.len().saturating_sub(STDERR_TAIL_LINES_MAX);
    let size = |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
    while start + 1 < lines.len() && size(&lines[start..]) > STDERR_TAIL_BYTES_MAX {
        start += 1;
    }
    let mut text = lines[start..].join("\n");
    if text.len() > STDERR_TAIL_BYTES_MAX {
        let cut = text.ceil_char_boundary(text.len() - STDERR_TAIL_BYTES_MAX);
        text.drain(..cut);
    }
    (!text.is_empty()).then(|| text.into())
}

/// The reason of a fault of this host, within its limit. Its end tells more than its beginning.
pub(crate) fn fault_text(reason: &str) -> Arc<str> {
    let mut text = escape(reason);
    if text.len() > FAULT_BYTES_MAX {
        let cut = text.ceil_char_boundary(text.len() - FAULT_BYTES_MAX);
        text.drain(..cut);
    }
    text.into()
}

fn escape(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        if c.is_control() && c != '\t' {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId};

    use super::*;
    use crate::state::LOGS;

    #[test]
    fn the_last_lines_are_whole_few_and_harmless() {
        assert_eq!(text(b""), None);
        assert_eq!(text(b"\n\n"), None);
        assert_eq!(text(b"a\nb\n").as_deref(), Some("a\nb"));
        let colour = text(b"\x1b[31mred\xff\ttab\n");
        assert_eq!(colour.as_deref(), Some("\\u{1b}[31mred\u{fffd}\ttab"));
        let many: String = (0..30).map(|line| format!("{line}\n")).collect();
        let tail = text(many.as_bytes()).expect("lines");
        assert_eq!(tail.lines().count(), STDERR_TAIL_LINES_MAX);
        assert!(tail.starts_with("10\n") && tail.ends_with("\n29"), "{tail}");
        for long in [
            "x".repeat(STDERR_TAIL_BYTES_MAX),
            "é".repeat(STDERR_TAIL_BYTES_MAX / 2),
            "\u{1}".repeat(STDERR_TAIL_BYTES_MAX),
            ["\u{1}".repeat(900), "y".repeat(900)].join("\n"),
        ] {
            let tail = text(long.as_bytes()).expect("a line");
            assert!(tail.len() <= STDERR_TAIL_BYTES_MAX, "{}", tail.len());
        }
    }

    #[test]
    fn of_several_processes_the_one_that_wrote_last_is_read() {
        let place = tempfile::tempdir().expect("a directory");
        let state = place.path();
        let lease = LeaseId {
            attempt: AttemptId {
                instance: InstanceId(1),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        };
        assert_eq!(read(state, lease, &InstanceSpec::default()), None);
        fs::create_dir(state.join(LOGS)).expect("made");
        fs::write(own_log(state, lease, LogStream::Stderr), "runner\n").expect("written");
        assert_eq!(
            read(state, lease, &InstanceSpec::default()).as_deref(),
            Some("runner")
        );
        for (process, run, text, at) in [
            ("a", 0, "old", 9),
            ("b", 0, "first", 8),
            ("b", 1, "last", 10),
        ] {
            let dir = state.join(WORK).join(dir_name(lease));
            let dir = dir.join(format!(".logs/{process}/{run}"));
            fs::create_dir_all(&dir).expect("made");
            let path = dir.join("stderr");
            fs::write(&path, text).expect("written");
            let file = fs::File::options().append(true).open(&path).expect("there");
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(at);
            file.set_modified(later).expect("a time");
        }
        assert_eq!(
            read(state, lease, &InstanceSpec::default()).as_deref(),
            Some("last")
        );
    }

    #[test]
    fn the_file_that_a_task_names_for_its_standard_error_is_read_if_it_is_safe() {
        let place = tempfile::tempdir().expect("a directory");
        let lease = LeaseId {
            attempt: AttemptId {
                instance: InstanceId(7),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        };
        let sandbox = place.path().join(WORK).join(dir_name(lease));
        fs::create_dir_all(&sandbox).expect("made");
        let spec = |stderr: &str, user: Option<&str>| InstanceSpec {
            user: user.map(str::to_owned),
            paths: baton_model::paths::Paths {
                cwd: None,
                stdout: None,
                stderr: Some(stderr.to_owned()),
            },
            ..InstanceSpec::default()
        };
        let read = |spec| read(place.path(), lease, &spec);
        assert_eq!(read(spec("%i.err", None)), None, "there is none");
        let long = format!("{}\nlast\n", "x".repeat(STDERR_TAIL_BYTES_MAX));
        fs::write(sandbox.join("i7.err"), long).expect("written");
        assert_eq!(read(spec("%i.err", None)).as_deref(), Some("last"));
        assert_eq!(read(spec("%i.err", Some("other"))), None);
        assert_eq!(read(spec(".", None)), None, "a directory");
        let fifo = sandbox.join("pipe");
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU);
        made.expect("a pipe");
        assert_eq!(read(spec("pipe", None)), None, "it does not block");
    }
}
