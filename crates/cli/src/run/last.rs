//! The end of what a task printed.

use std::io::Write;
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError, LogPiece, LogWish, Stream};
use baton_files::TaskFile;
use baton_model::api::Instance;
use baton_model::spec::Work;

use crate::local::Lane;
use crate::output::{Ended, Output, note};
use crate::remote::ids;

/// Of each output.
const LINES: usize = 20;
/// Of a task of many, so many processes.
const PROCESSES_MAX: usize = 5;
/// What is kept while the end is looked for.
const BYTES_MAX: usize = 1 << 20;
/// The worker may only just have been started, and has the output: for so long it is waited
/// for.
const WORKER_WAIT: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Prints the last lines of its last attempt: its output as ours, its errors as ours.
pub(super) async fn print(
    client: &Client,
    instance: &Instance,
    processes: &[Option<String>],
) -> Ended {
    let Ok(id) = ids::one(&instance.id) else {
        return Ok(());
    };
    // One that never ran has printed nothing.
    if instance.attempts == 0 {
        return Ok(());
    }
    let mut out = Output::new();
    for process in processes {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let wish = LogWish {
                instance: id,
                stream,
                attempt: Some(instance.attempts),
                process: process.clone(),
                offset: 0,
            };
            let bytes = match tail(client, wish).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    note(&format!("what {id} printed cannot be shown: {error}"));
                    return out.done();
                }
            };
            show(&mut out, stream, process.as_deref(), &bytes)?;
        }
    }
    out.done()
}

/// The processes whose output is shown; one without a name for a plain command.
pub(super) fn processes(file: &TaskFile, work: &Work) -> Vec<Option<String>> {
    match work {
        Work::Task(_) => {
            let names = file.process_names().take(PROCESSES_MAX);
            names.map(|name| Some(name.to_owned())).collect()
        }
        Work::Command(_) => vec![None],
    }
}

async fn tail(client: &Client, mut wish: LogWish) -> Result<Vec<u8>, ClientError> {
    let mut kept: Vec<u8> = Vec::new();
    loop {
        let piece = piece(client, &wish).await?;
        wish.offset = piece.offset + u64::try_from(piece.bytes.len()).unwrap_or_default();
        kept.extend_from_slice(&piece.bytes);
        let over = kept.len().saturating_sub(BYTES_MAX);
        kept.drain(..over);
        if piece.end || piece.bytes.is_empty() {
            return Ok(last_lines(&kept).to_vec());
        }
    }
}

async fn piece(client: &Client, wish: &LogWish) -> Result<LogPiece, ClientError> {
    let began = Instant::now();
    loop {
        match client.logs(wish).await {
            Err(error) if error.may_pass() && began.elapsed() < WORKER_WAIT => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

fn last_lines(bytes: &[u8]) -> &[u8] {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut breaks = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
    match breaks.nth(LINES - 1) {
        Some((at, _)) => &bytes[at + 1..],
        None => bytes,
    }
}

fn show(out: &mut Output, stream: Stream, process: Option<&str>, bytes: &[u8]) -> Ended {
    use std::io::IsTerminal;
    let prefix = process.map(|name| format!("{} | ", crate::output::clean(name)));
    match stream {
        Stream::Stdout => {
            let mut lane = Lane::new(prefix, out.terminal);
            lane.print(bytes, out)?;
            lane.finish(out)?;
            out.flush()?;
        }
        Stream::Stderr => {
            let mut err = std::io::stderr();
            let mut lane = Lane::new(prefix, err.is_terminal());
            lane.print(bytes, &mut err)?;
            lane.finish(&mut err)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_whole() {
        let many: String = (0..100).map(|line| format!("{line}\n")).collect();
        let last = String::from_utf8_lossy(last_lines(many.as_bytes())).into_owned();
        assert_eq!(last.lines().count(), LINES);
        assert!(last.starts_with("80\n") && last.ends_with("99\n"));
        assert_eq!(last_lines(b"a\nb"), b"a\nb");
        assert_eq!(last_lines(b""), b"");
    }
}
