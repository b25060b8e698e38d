//! Three commands of the user: `start`, `list` and `stop`.
//!
//! | command | gets | prints |
//! |---|---|---|
//! | `start` | `BATON_JOB_NAME`, and `BATON_JOB_SCRIPT`, a file to run | the native id, on its last line |
//! | `list` | | a line for each job: `ID NAME STATE [REASON…]` |
//! | `stop` | native ids as arguments | |
//!
//! All get `BATON_FLEET`. A state is queued, running, ended, preempted or failed; any other is alive.

use baton_model::fleet::{CommandOptions, JobSighting, JobState};

use crate::driver::{Driver, Fleet, JobRequest, SubmitError};
use crate::exec::{ExecError, Inheritance, Invocation, Output};
use crate::script::{Around, Lifetime, Number, Pilots, SIGNAL_CHILDREN, run_all};
use crate::site::write_file;

/// The exit status of `start` for "it is unclear whether the job exists" (`EX_TEMPFAIL`).
const UNCLEAR_STATUS: i32 = 75;

/// Messages after which the manager may have taken a job, in lower case.
const UNCLEAR: &[&str] = &[
    "timed out",
    "timeout",
    "temporarily unavailable",
    "try again",
    "connection reset",
    "connection lost",
    "connection closed",
    "broken pipe",
    "unexpected eof",
    "no response",
    "end of file",
    "premature end of message",
];

/// The longest native id.
const NATIVE_LEN_MAX: usize = 200;

/// The driver of a fleet with commands of the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commands<'a> {
    pub(crate) fleet: Fleet<'a>,
    pub(crate) options: &'a CommandOptions,
}

impl Driver for Commands<'_> {
    fn submit(&self, job: JobRequest<'_>) -> Result<String, SubmitError> {
        let dir = self.fleet.site.make_fleet_dir(self.fleet.name);
        let script = dir
            .map_err(SubmitError::Refused)?
            .join(format!("{}.sh", job.name));
        let text = self.script(job);
        write_file(&script, 0o700, text.as_bytes()).map_err(SubmitError::Refused)?;
        let command = self
            .command(&self.options.start)
            .env("BATON_JOB_NAME", job.name)
            .env("BATON_JOB_SCRIPT", script);
        submission(&command.run(self.fleet.site.timeout)?)
    }

    fn list(&self) -> Result<Vec<JobSighting>, String> {
        let command = self.command(&self.options.list);
        let output = command.run(self.fleet.site.timeout);
        let mut jobs = list(&output.map_err(ExecError::reason)?)?;
        let site = self.fleet.site;
        jobs.retain(|job| site.job_of(self.fleet.name, &job.name).is_some());
        Ok(jobs)
    }

    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String> {
        let (known, unknown): (Vec<_>, Vec<_>) = jobs.iter().partition(|it| !it.0.is_empty());
        let mut ids: Vec<String> = known.into_iter().map(|it| it.0.clone()).collect();
        if !unknown.is_empty() {
            let is_wanted = |job: &JobSighting| {
                let of_job = unknown.iter().any(|(_, name)| *name == job.name);
                of_job && !job.state.is_over()
            };
            let found = self.list()?.into_iter().filter(is_wanted);
            ids.extend(found.map(|job| job.native));
        }
        if ids.is_empty() {
            return Ok(());
        }
        let command = self.command(&self.options.stop).args(ids);
        let output = command.run(self.fleet.site.timeout);
        let output = output.map_err(ExecError::reason)?;
        if output.code == 0 {
            Ok(())
        } else {
            Err(output.complaint())
        }
    }
}

impl Commands<'_> {
    /// A command, to which arguments can be added.
    fn command(&self, text: &str) -> Invocation {
        let mut command = Invocation::new("/bin/sh")
            .args(["-c", text, "sh"])
            .inherit(Inheritance::Foreign)
            .env("BATON_FLEET", self.fleet.name.as_str());
        for (name, value) in &self.fleet.site.env {
            command = command.env(name, value);
        }
        command
    }

    fn script(&self, job: JobRequest<'_>) -> String {
        let pilots = Pilots {
            fleet: self.fleet,
            job,
            binary: None,
            lifetime: Lifetime::TimeLimit,
        };
        let numbers = 0..self.fleet.spec.workers_per_job.max(1);
        let commands: Vec<String> = numbers
            .map(|number| pilots.command(Number::Fixed(number)))
            .collect();
        format!(
            "#!/bin/sh\numask 077\n{}",
            run_all(Around::of(self.fleet.spec), &commands, SIGNAL_CHILDREN, "")
        )
    }
}

fn submission(output: &Output) -> Result<String, SubmitError> {
    if output.code != 0 {
        let text = output.err.to_lowercase();
        let is_unclear = UNCLEAR.iter().any(|it| text.contains(it));
        let reason = output.complaint();
        return Err(if is_unclear || output.code == UNCLEAR_STATUS {
            SubmitError::Unclear(reason)
        } else {
            SubmitError::Refused(reason)
        });
    }
    let mut lines = output.out.lines().map(str::trim);
    let id = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
    let is_word = !id.is_empty() && !id.contains(char::is_whitespace) && !id.starts_with('-');
    if is_word && id.len() <= NATIVE_LEN_MAX {
        return Ok(id.to_owned());
    }
    let text: String = id.chars().take(NATIVE_LEN_MAX).collect();
    Err(SubmitError::Unclear(format!(
        "the command `start` printed `{text}` as its last line; expected the id of the job, one word"
    )))
}

fn list(output: &Output) -> Result<Vec<JobSighting>, String> {
    if output.code != 0 {
        return Err(output.complaint());
    }
    let lines = output.out.lines().filter(|line| !line.trim().is_empty());
    lines.map(parse).collect()
}

fn parse(line: &str) -> Result<JobSighting, String> {
    let mut words = line.split_whitespace();
    let (Some(native), Some(name), Some(word)) = (words.next(), words.next(), words.next()) else {
        let text: String = line.chars().take(200).collect();
        return Err(format!(
            "the command `list` printed `{text}`; expected ID NAME STATE"
        ));
    };
    let state = match word {
        "queued" => JobState::Queued,
        "running" => JobState::Running,
        "ended" => JobState::Ended,
        "preempted" => JobState::Preempted,
        "failed" => JobState::Failed,
        _ => JobState::Unsure,
    };
    let reason: Vec<&str> = words.collect();
    Ok(JobSighting {
        native: native.to_owned(),
        name: name.to_owned(),
        state,
        word: word.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.join(" ")),
        nodes: Vec::new(),
        // That is what the commands promise.
        contained: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(code: i32, out: &str, err: &str) -> Output {
        Output {
            code,
            out: out.to_owned(),
            err: err.to_owned(),
        }
    }

    #[test]
    fn the_last_word_is_the_id_and_doubts_are_no_refusals() {
        let id = submission(&output(0, "Hello from PBS\n12.pbs\n\n", ""));
        assert_eq!(id, Ok("12.pbs".to_owned()));
        for unclear in [
            output(0, "", ""),
            output(0, "job 12 submitted", ""),
            output(0, "--force", ""),
            output(75, "", "no idea"),
            output(1, "", "qsub: Connection timed out"),
        ] {
            let error = submission(&unclear);
            assert!(matches!(error, Err(SubmitError::Unclear(_))), "{error:?}");
        }
        let refused = submission(&output(171, "", "qsub: Unknown queue\n"));
        let refusal = SubmitError::Refused("qsub: Unknown queue".to_owned());
        assert_eq!(refused, Err(refusal));
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let text = "1 a queued Not enough nodes\n\n2 b running\n3 c ended\n4 d preempted\n5 e failed\n6 f H\n";
        let jobs = list(&output(0, text, "")).expect("readable");
        let states: Vec<JobState> = jobs.iter().map(|it| it.state).collect();
        assert_eq!(
            states,
            [
                JobState::Queued,
                JobState::Running,
                JobState::Ended,
                JobState::Preempted,
                JobState::Failed,
                JobState::Unsure
            ]
        );
        assert_eq!(jobs[0].reason.as_deref(), Some("Not enough nodes"));
        assert_eq!((&*jobs[5].native, &*jobs[5].word), ("6", "H"));
        let error = list(&output(0, "1 a queued\nqstat: oops\n", "")).expect_err("refused");
        assert!(error.contains("`qstat: oops`"), "{error}");
        assert_eq!(
            list(&output(2, "1 a queued\n", "cannot connect\n")),
            Err("cannot connect".to_owned())
        );
    }
}
