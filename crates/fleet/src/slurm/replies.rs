//! The meaning of outputs and error messages. Tested with recorded ones, in `replies.txt`.

use baton_model::fleet::{JobSighting, Trial, Verdict};

use super::states;
use crate::driver::SubmitError;
use crate::exec::Output;

/// Between the fields of a job. No field has it; the name, which a user chooses, is the last one.
const SEPARATOR: char = '\u{1f}';

/// Messages after which the controller may have taken a job, in lower case: it has not answered, or its answer
/// was lost.
const UNCLEAR: &[&str] = &[
    "timed out",
    "unable to contact slurm controller",
    "temporarily unavailable",
    "temporarily unable",
    "communication",
    "connection",
    "connect failure",
    "transport endpoint",
    "zero bytes were transmitted",
    "unexpected message received",
    "incomplete response",
    "message receive failure",
    "message send failure",
    "i/o error",
    "broken pipe",
    "standby",
    "primary and backup",
    "interrupted",
    "protocol authentication error",
    "invalid authentication credential",
];

/// No connection to any controller was made, so nothing was sent, in lower case.
const UNSENT: &str = "unable to contact slurm controller (connect failure)";

/// Messages after which it has certainly not, in lower case.
const REFUSED: &[&str] = &[
    "batch job submission failed:",
    "unrecognized option",
    "invalid option",
    "invalid directive",
    "requires an argument",
    "option requires",
    "invalid argument",
    "invalid --",
    "invalid time limit",
    "invalid number of nodes",
    "invalid node",
    "invalid numeric value",
    "invalid constraint",
    "invalid generic resource",
    "is not a valid",
    "unable to open file",
    "this does not look like a batch script",
    "batch script is empty",
    "script is empty",
    "memory specification",
    "cannot be specified",
    "mutually exclusive",
];

/// Messages of `scancel` about jobs that are over already, in lower case.
const OVER: &[&str] = &[
    "invalid job id",
    "already completing or completed",
    "job has already finished",
];

/// The answer of `sbatch --parsable`: the id, and the cluster where there are several.
pub(super) fn submission(output: &Output) -> Result<String, SubmitError> {
    if output.code == 0 {
        let mut lines = output.out.lines().map(str::trim);
        let line = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
        let id = line.split(';').next().unwrap_or_default();
        if !id.is_empty() && id.bytes().all(|it| it.is_ascii_digit()) {
            return Ok(id.to_owned());
        }
        let text: String = line.chars().take(200).collect();
        return Err(SubmitError::Unclear(format!(
            "sbatch printed `{text}`, which is no job id"
        )));
    }
    let text = output.err.to_lowercase().replace(UNSENT, "");
    let has = |messages: &[&str]| messages.iter().any(|it| text.contains(it));
    let reason = output.complaint();
    if !has(UNCLEAR) && has(REFUSED) {
        Err(SubmitError::Refused(reason))
    } else {
        Err(SubmitError::Unclear(reason))
    }
}

/// The answer of `sbatch --test-only`: when and where the job would start, or why it would not.
pub(super) fn trial(output: &Output) -> Trial {
    let errors = output.err.to_lowercase();
    let verdict = match output.code {
        0 => Verdict::Accepted,
        _ if UNCLEAR.iter().any(|it| errors.contains(it)) => Verdict::Unclear,
        _ => Verdict::Refused,
    };
    let text = output.complaint();
    let plain = text.strip_prefix("sbatch: ").unwrap_or(&text);
    Trial {
        verdict,
        text: plain.strip_prefix("error: ").unwrap_or(plain).to_owned(),
    }
}

/// The user whose jobs are listed and cancelled.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The arguments of `squeue`.
pub(super) fn list_args() -> Vec<String> {
    let fields = ["%i", "%T", "%r", "%N", "%j"];
    vec![
        "--noheader".to_owned(),
        format!("--user={}", user()),
        "--states=all".to_owned(),
        format!("--format={}", fields.join(&SEPARATOR.to_string())),
    ]
}

/// The jobs in the output of `squeue`.
pub(super) fn list(output: &Output) -> Result<Vec<JobSighting>, String> {
    if output.code != 0 {
        return Err(output.complaint());
    }
    let lines = output.out.lines();
    // With several clusters, each has a title.
    let lines = lines.filter(|line| !line.trim().is_empty() && !line.starts_with("CLUSTER: "));
    lines.map(parse).collect()
}

fn parse(line: &str) -> Result<JobSighting, String> {
    let mut fields = line.splitn(5, SEPARATOR).map(str::trim);
    let mut next = || fields.next();
    let (Some(native), Some(word), Some(reason), Some(nodes), Some(name)) =
        (next(), next(), next(), next(), next())
    else {
        let text: String = line.chars().take(200).collect();
        return Err(format!("squeue printed `{text}`, which is no job"));
    };
    let is_reason = !reason.is_empty() && reason != "None" && reason != "(null)";
    Ok(JobSighting {
        native: native.to_owned(),
        name: name.to_owned(),
        state: states::state(word),
        word: word.to_owned(),
        reason: is_reason.then(|| reason.to_owned()),
        nodes: expand(nodes),
        contained: false,
    })
}

/// The answer of `scancel`. Jobs that are over need no order.
pub(super) fn cancel(output: &Output) -> Result<(), String> {
    let is_over = |line: &str| {
        let line = line.to_lowercase();
        OVER.iter().any(|it| line.contains(it))
    };
    let mut errors = output.err.lines().filter(|line| line.contains("error:"));
    let has_errors = errors.clone().next().is_some();
    match errors.find(|line| !is_over(line)) {
        _ if output.code == 0 => Ok(()),
        None if has_errors => Ok(()),
        None => Err(output.complaint()),
        Some(error) => Err(error.to_owned()),
    }
}

/// Nodes that a list names at most.
const NODES_MAX: usize = 4_096;

/// The nodes of a list such as `n1,gpu[01-03,7]-ib`. What cannot be read is left as it is.
fn expand(list: &str) -> Vec<String> {
    if list.is_empty() || list == "(null)" {
        return Vec::new();
    }
    let mut nodes = Vec::new();
    let mut depth = 0_u32;
    let parts = list.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    for part in parts {
        nodes.extend(expand_part(part).unwrap_or_else(|| vec![part.to_owned()]));
    }
    nodes.truncate(NODES_MAX);
    nodes
}

/// The nodes of one part; None if it cannot be read.
fn expand_part(part: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('[') else {
        return Some(vec![part.to_owned()]);
    };
    let (ranges, after) = rest.split_once(']')?;
    // A second dimension, such as rack[0-1]node[0-3].
    let endings = expand_part(after)?;
    let mut nodes = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        if to.checked_sub(from)? >= NODES_MAX as u64 || nodes.len() >= NODES_MAX {
            return None;
        }
        for number in from..=to {
            let width = first.len();
            for ending in &endings {
                nodes.push(format!("{before}{number:0width$}{ending}"));
            }
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use baton_model::fleet::JobState;

    use super::*;

    /// Recorded answers of `sbatch`, `squeue` and `scancel`, each with its meaning.
    const RECORDED: &str = include_str!("replies.txt");

    /// The blocks of the file: the command and its exit status, its output (`1>`) and errors (`2>`), and `=` the meaning.
    #[test]
    fn a_trial_is_taken_refused_or_unanswered() {
        let judged = |code, err: &str| {
            let (out, err) = (String::new(), err.to_owned());
            trial(&Output { code, out, err })
        };
        let said = "Job 7 to start at 2026-01-02T03:04:05 using 1 processors on nodes n1 in partition long";
        let taken = judged(0, &format!("sbatch: {said}\n"));
        assert_eq!((taken.verdict, &*taken.text), (Verdict::Accepted, said));
        let refused = judged(1, "allocation failure: Invalid partition name specified\n");
        assert_eq!(refused.verdict, Verdict::Refused);
        assert!(refused.text.contains("Invalid partition"), "{refused:?}");
        let silent = judged(
            1,
            "sbatch: error: Unable to contact slurm controller (connect failure)\n",
        );
        assert_eq!(silent.verdict, Verdict::Unclear);
    }

    #[test]
    fn recorded_answers_have_their_meaning() {
        let mut seen = 0;
        for block in RECORDED.split("\n\n").skip(1) {
            let mut output = Output {
                code: 0,
                out: String::new(),
                err: String::new(),
            };
            let (mut command, mut meaning) = ("", String::new());
            for line in block.lines().filter(|line| !line.starts_with('#')) {
                let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
                match kind {
                    "$" => {
                        let (name, code) = text.split_once(' ').expect("a status");
                        command = name;
                        output.code = code.parse().expect("a number");
                    }
                    "1>" => output.out += &format!("{}\n", text.replace('|', "\u{1f}")),
                    "2>" => output.err += &format!("{text}\n"),
                    "=" => meaning += &format!("{text}\n"),
                    _ => panic!("{line}"),
                }
            }
            let found = match command {
                "sbatch" => match submission(&output) {
                    Ok(id) => format!("submitted {id}\n"),
                    Err(SubmitError::Refused(reason)) => format!("refused {reason}\n"),
                    Err(SubmitError::Unclear(reason)) => format!("unclear {reason}\n"),
                },
                "squeue" => match list(&output) {
                    Ok(jobs) if jobs.is_empty() => "no jobs\n".to_owned(),
                    Ok(jobs) => jobs.iter().map(describe).collect(),
                    Err(reason) => format!("failed {reason}\n"),
                },
                "scancel" => match cancel(&output) {
                    Ok(()) => "cancelled\n".to_owned(),
                    Err(reason) => format!("failed {reason}\n"),
                },
                _ => panic!("{block}"),
            };
            assert_eq!(found, meaning, "{block}");
            seen += 1;
        }
        assert!(seen > 25, "{seen} answers");
    }

    fn describe(job: &JobSighting) -> String {
        let nodes = job.nodes.join(" ");
        let reason = job.reason.as_deref().unwrap_or("-");
        let state: JobState = job.state;
        format!(
            "{} {} {state:?} {} {reason} [{nodes}]\n",
            job.native, job.name, job.word
        )
    }

    #[test]
    fn lists_of_nodes_are_expanded() {
        for (list, nodes) in [
            ("", ""),
            ("n1", "n1"),
            ("n1,n2", "n1 n2"),
            ("n[0-2]", "n0 n1 n2"),
            (
                "gpu[01-03,7]-ib,login",
                "gpu01-ib gpu02-ib gpu03-ib gpu7-ib login",
            ),
            ("r[0-1]n[0-1]", "r0n0 r0n1 r1n0 r1n1"),
            ("n[a-b]", "n[a-b]"),
            ("n[3-1]", "n[3-1]"),
            ("n[0-999999999]", "n[0-999999999]"),
            ("n[0", "n[0"),
        ] {
            assert_eq!(expand(list).join(" "), nodes, "{list}");
        }
    }
}
