//! When a worker ends by itself: options of `baton worker`.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_core::supervision::lifetime::Lifetime;
use baton_files::units;
use baton_model::time::{Millis, Mono, Now, Wall};
use clap::Args;

use crate::output::Failure;
use crate::time;

/// How long a command of Slurm may take.
const SLURM_MAX: Duration = Duration::from_secs(10);

/// Bytes of its answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct LifetimeArgs {
    /// How long the worker lives; `slurm` for as long as its Slurm job
    #[arg(long, value_name = "DURATION", value_parser = span, conflicts_with = "until")]
    lifetime: Option<Span>,
    /// Time at which the worker ends, such as 2026-12-24T18:00
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// End after this long without an attempt
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    idle_exit: Option<Millis>,
    /// How long a drain may take, from SIGTERM to the end of the worker; before the end of its
    /// lifetime it begins by itself [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    drain_grace: Option<Millis>,
}

/// The value of `--lifetime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    For(Millis),
    Slurm,
}

fn span(text: &str) -> Result<Span, String> {
    if text == "slurm" {
        return Ok(Span::Slurm);
    }
    let span = units::duration(text).map_err(|error| error.to_string());
    span.map(Span::For)
}

impl LifetimeArgs {
    /// When the worker ends. With any of these options SIGTERM drains it.
    pub(crate) fn resolve(&self, now: Now) -> Result<Lifetime, Failure> {
        let drains = self.lifetime.is_some()
            || self.until.is_some()
            || self.idle_exit.is_some()
            || self.drain_grace.is_some();
        let lifetime = Lifetime {
            until: self.end(now)?,
            idle_exit: self.idle_exit,
            drain_grace: self.drain_grace.unwrap_or(Lifetime::DRAIN_GRACE),
            drains,
        };
        let left = lifetime.until.map(|until| until.since(now.mono));
        if let Some(left) = left.filter(|left| *left <= lifetime.drain_grace) {
            let grace = lifetime.drain_grace;
            return Err(Failure::usage(format!(
                "the worker would end in {left}, and its drain takes up to {grace}: no time is left \
                 for work; choose a longer lifetime, or a shorter --drain-grace"
            )));
        }
        Ok(lifetime)
    }

    fn end(&self, now: Now) -> Result<Option<Mono>, Failure> {
        match (self.lifetime, &self.until) {
            (Some(Span::For(span)), _) => Ok(Some(now.mono + span)),
            (Some(Span::Slurm), _) => {
                let variable = |name: &str| std::env::var(name).ok();
                let left = slurm_time_left(now.wall, &variable, &mut ask);
                let left =
                    left.map_err(|error| Failure::usage(format!("--lifetime slurm: {error}")))?;
                Ok(left.map(|left| now.mono + left))
            }
            (None, Some(text)) => {
                let at = time::instant(text, &time::viewer_zone());
                let at = at.map_err(|error| Failure::usage(format!("--until: {error}")))?;
                if at <= now.wall {
                    return Err(Failure::usage(format!("--until: {text} is over")));
                }
                Ok(Some(now.mono + at.since(now.wall)))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Runs a command with these arguments, and returns what it prints.
type Ask<'a> = &'a mut dyn FnMut(&str, &[&str]) -> Result<String, String>;

/// The time that a Slurm job has left; none if it has no limit.
fn slurm_time_left(
    now: Wall,
    variable: &dyn Fn(&str) -> Option<String>,
    ask: Ask<'_>,
) -> Result<Option<Millis>, String> {
    let job = variable("SLURM_JOB_ID").filter(|job| !job.is_empty());
    let job = job.ok_or(
        "this is no Slurm job, since SLURM_JOB_ID is not set; give a duration, such as --lifetime 2h",
    )?;
    if let Some(end) = variable("SLURM_JOB_END_TIME") {
        let seconds: u64 = end
            .parse()
            .map_err(|_| format!("SLURM_JOB_END_TIME is {end:?}, and no number of seconds"))?;
        let end = Wall(seconds.saturating_mul(1_000));
        if end <= now {
            return Err(format!("the job ended at {}", time::stamp(end)));
        }
        return Ok(Some(end.since(now)));
    }
    let answer = ask("squeue", &["-h", "-j", &job, "-o", "%L"]);
    let by_squeue = answer.and_then(|answer| squeue_time(&answer));
    by_squeue.or_else(|squeue| {
        let answer = ask("scontrol", &["show", "job", "-o", &job]);
        let left = answer.and_then(|answer| scontrol_time(&answer));
        left.map_err(|scontrol| format!("{squeue}; {scontrol}"))
    })
}

/// The time left as `squeue -o %L` prints it: `2-03:04:05`, `03:04:05`, `04:05` or `UNLIMITED`.
fn squeue_time(answer: &str) -> Result<Option<Millis>, String> {
    let text = answer.trim();
    if text == "UNLIMITED" {
        return Ok(None);
    }
    let left = slurm_span(text);
    let left = left.ok_or_else(|| format!("squeue reports the time left as {text:?}"))?;
    Ok(Some(left))
}

/// The time left of what `scontrol show job` prints: the limit less the run time.
fn scontrol_time(answer: &str) -> Result<Option<Millis>, String> {
    let field = |name: &str| {
        let mut words = answer.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    if field("TimeLimit") == Some("UNLIMITED") {
        return Ok(None);
    }
    let span = |name| field(name).and_then(slurm_span);
    match (span("TimeLimit"), span("RunTime")) {
        (Some(limit), Some(run)) => Ok(Some(limit.saturating_sub(run))),
        _ => Err("scontrol reports no TimeLimit and RunTime".to_owned()),
    }
}

/// A time span of Slurm: `[DAYS-][[HOURS:]MINUTES:]SECONDS`.
fn slurm_span(text: &str) -> Option<Millis> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let parts = clock.split(':');
    let parts: Vec<u64> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let seconds = match *parts {
        [hours, minutes, seconds] => hours * 3_600 + minutes * 60 + seconds,
        [minutes, seconds] => minutes * 60 + seconds,
        [seconds] => seconds,
        _ => return None,
    };
    Some(Millis::from_secs(days * 86_400 + seconds))
}

/// Runs a command of Slurm, in bounded time, and returns its output.
fn ask(program: &str, args: &[&str]) -> Result<String, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{program}: {error}");
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| wrong(&error))?;
    let output = child.stdout.take();
    // An answer that does not fit into the pipe is none of these commands'.
    let deadline = Instant::now() + SLURM_MAX;
    let status = loop {
        match child.try_wait().map_err(|error| wrong(&error))? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} did not answer within {SLURM_MAX:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if !status.success() {
        return Err(format!("{program} has failed: {status}"));
    }
    let mut text = String::new();
    if let Some(output) = output {
        let read = output.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| wrong(&error))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_000_000);

    fn left(
        variables: &[(&str, &str)],
        answers: &[(&str, Result<&str, &str>)],
    ) -> Result<Option<Millis>, String> {
        let variable = |name: &str| {
            let mut all = variables.iter();
            let found = all.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut ask = |program: &str, _: &[&str]| {
            let mut all = answers.iter();
            let found = all.find(|(known, _)| *known == program);
            let answer = found.map_or(Err("not installed"), |(_, answer)| *answer);
            answer.map(str::to_owned).map_err(str::to_owned)
        };
        slurm_time_left(NOW, &variable, &mut ask)
    }

    #[test]
    fn the_end_of_a_job_is_found_in_this_order() {
        let job = ("SLURM_JOB_ID", "7");
        let end = ("SLURM_JOB_END_TIME", "1060");
        assert_eq!(left(&[job, end], &[]), Ok(Some(Millis::from_secs(60))));
        let squeue = ("squeue", Ok("1-02:03:04\n"));
        let span = Millis::from_secs(86_400 + 7_200 + 180 + 4);
        assert_eq!(left(&[job], &[squeue]), Ok(Some(span)));
        let shown = "JobId=7 RunTime=00:01:00 TimeLimit=01:00:00 EndTime=Unknown";
        let scontrol = ("scontrol", Ok(shown));
        assert_eq!(
            left(&[job], &[scontrol]),
            Ok(Some(Millis::from_secs(3_540)))
        );
        assert_eq!(left(&[job], &[("squeue", Ok("UNLIMITED"))]), Ok(None));
    }

    #[test]
    fn what_is_no_job_or_not_answered_is_an_error() {
        let error = left(&[], &[]).expect_err("no job");
        assert!(error.contains("--lifetime 2h"), "{error}");
        let job = ("SLURM_JOB_ID", "7");
        let error = left(&[job], &[("squeue", Ok("INVALID"))]).expect_err("no answer");
        assert!(
            error.contains("INVALID") && error.contains("not installed"),
            "{error}"
        );
        let over = left(&[job, ("SLURM_JOB_END_TIME", "1000")], &[]);
        assert!(over.expect_err("over").contains("ended"), "over");
    }

    #[test]
    fn a_lifetime_leaves_time_for_work() {
        let args = |lifetime, drain_grace| LifetimeArgs {
            lifetime: Some(Span::For(lifetime)),
            until: None,
            idle_exit: None,
            drain_grace,
        };
        let now = Now::default();
        let lifetime = args(Millis::from_secs(60), None).resolve(now);
        let lifetime = lifetime.expect("fine");
        assert_eq!(lifetime.closes_at(), Some(Mono(30_000)));
        assert!(lifetime.drains);
        let error = args(Millis::from_secs(20), None)
            .resolve(now)
            .expect_err("short");
        let error = format!("{error:?}");
        assert!(error.contains("--drain-grace"), "{error}");
        let short = args(Millis::from_secs(20), Some(Millis::from_secs(5)));
        assert!(short.resolve(now).is_ok());
    }
}
