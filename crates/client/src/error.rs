//! Errors between a client and a scheduler.

use std::fmt;

use baton_model::api::{FieldProblem, Problem};
use reqwest::StatusCode;

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error(
        "`{url}` is not the URL of a scheduler: {reason}; use one like {}",
        crate::DEFAULT_URL
    )]
    BadUrl {
        /// The URL as it was passed.
        url: String,
        reason: String,
    },
    /// The TLS files cannot be used: the file, the reason and a hint.
    #[error("{0}")]
    Tls(String),
    /// There is no response, or it was cut off.
    #[error(
        "cannot reach the scheduler at {url}: {reason}{}", hint(.reason)
    )]
    Unreachable {
        /// The URL that was tried.
        url: String,
        reason: String,
    },
    /// The scheduler reports a problem.
    #[error(fmt = write_problem)]
    Problem(Box<Problem>),
    #[error(
        "the response from {url} is not one of a scheduler of this version: {reason}; check --url \
         and BATON_URL, and that both sides have the same version"
    )]
    InvalidResponse { url: String, reason: String },
}

/// What to do about an unreachable scheduler, unless the reason has its own hint.
fn hint(reason: &str) -> &'static str {
    let has_hint =
        reason.contains("; ") || reason.contains("certificate") || reason.contains("TLS");
    if has_hint {
        ""
    } else if reason.contains("dns error") || reason.contains("lookup") {
        "; check the host name in --url or BATON_URL"
    } else {
        "; start it with `baton up`, or name it with --url or BATON_URL"
    }
}

impl ClientError {
    /// The problem that the scheduler reported, if any.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// True if the requested resource does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == 404)
    }

    /// True if a retry may succeed: the scheduler is starting, stopping, or cannot write at the
    /// moment.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            Self::BadUrl { .. } | Self::Tls(_) | Self::InvalidResponse { .. } => false,
        }
    }
}

/// Same layout as for errors in local files: location, problem, hint. The words of HTTP for a status
/// are left out: the detail says more.
fn write_problem(problem: &Problem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let status = StatusCode::from_u16(problem.status).ok();
    let status = status.and_then(|status| status.canonical_reason());
    let title = Some(&*problem.title).filter(|title| Some(*title) != status);
    // Each error below repeats its own message.
    let detail = &problem.detail;
    let repeats = |error: &FieldProblem| detail.ends_with(&*error.message);
    let repeated = problem.errors.iter().any(repeats) || *detail == problem.title;
    match (title, Some(detail).filter(|it| !it.is_empty() && !repeated)) {
        (Some(title), Some(detail)) => write!(f, "{title}: {detail}")?,
        (None, Some(detail)) => f.write_str(detail)?,
        (Some(title), None) => f.write_str(title)?,
        (None, None) if problem.errors.is_empty() => f.write_str(&problem.title)?,
        (None, None) => f.write_str("the scheduler refuses it:")?,
    }
    for error in &problem.errors {
        f.write_str("\n\n")?;
        if !error.field.is_empty() {
            writeln!(f, "{}", error.field)?;
        }
        write!(f, "  {}\n  hint: {}", error.message, error.hint)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_hint() {
        let unreachable = ClientError::Unreachable {
            url: "http://127.0.0.1:1".to_owned(),
            reason: "Connection refused".to_owned(),
        };
        assert_eq!(
            unreachable.to_string(),
            "cannot reach the scheduler at http://127.0.0.1:1: Connection refused; start it with \
             `baton up`, or name it with --url or BATON_URL"
        );
        assert!(unreachable.is_transient());
        let untrusted = ClientError::Unreachable {
            url: "https://sched".to_owned(),
            reason: "its certificate is not signed by a trusted CA; name the CA".to_owned(),
        };
        assert!(!untrusted.to_string().contains("baton up"));
        let problem = ClientError::Problem(Box::new(Problem {
            kind: "invalid".to_owned(),
            title: "the task has errors".to_owned(),
            status: 422,
            detail: "fix 1 of them".to_owned(),
            errors: vec![FieldProblem {
                field: "rum".to_owned(),
                message: "a task has no field `rum`".to_owned(),
                hint: "did you mean `run`?".to_owned(),
            }],
        }));
        assert_eq!(
            problem.to_string(),
            "the task has errors: fix 1 of them\n\nrum\n  a task has no field `rum`\n  hint: did \
             you mean `run`?"
        );
        assert!(!problem.is_transient() && !problem.is_not_found());
    }

    #[test]
    fn the_words_of_http_are_left_out() {
        let problem = |title: &str, detail: &str, errors: &[(&str, &str)]| {
            let errors = errors.iter().map(|(field, message)| FieldProblem {
                field: (*field).to_owned(),
                message: (*message).to_owned(),
                hint: "leave it out".to_owned(),
            });
            let problem = Problem {
                kind: "invalid".to_owned(),
                title: title.to_owned(),
                status: if title == "Conflict" { 409 } else { 422 },
                detail: detail.to_owned(),
                errors: errors.collect(),
            };
            ClientError::Problem(Box::new(problem)).to_string()
        };
        assert_eq!(problem("Conflict", "r1 is DONE", &[]), "r1 is DONE");
        assert_eq!(problem("Conflict", "", &[]), "Conflict");
        let never = "it would never start";
        assert_eq!(
            problem("Unprocessable Entity", never, &[("after", never)]),
            "the scheduler refuses it:\n\nafter\n  it would never start\n  hint: leave it out"
        );
        let unknown = ("name", "it is not a name");
        assert_eq!(
            problem(
                "Unprocessable Entity",
                "`name`: it is not a name",
                &[unknown]
            ),
            "the scheduler refuses it:\n\nname\n  it is not a name\n  hint: leave it out"
        );
    }

    #[test]
    fn a_problem_is_shown_once() {
        let text = "r2 has no task `nope`";
        let problem = ClientError::Problem(Box::new(Problem {
            kind: "invalid".to_owned(),
            title: "cannot be used".to_owned(),
            status: 422,
            detail: text.to_owned(),
            errors: vec![FieldProblem {
                field: "task".to_owned(),
                message: text.to_owned(),
                hint: "name another".to_owned(),
            }],
        }));
        assert_eq!(
            problem.to_string(),
            "cannot be used\n\ntask\n  r2 has no task `nope`\n  hint: name another"
        );
    }
}
