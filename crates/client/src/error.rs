//! What can go wrong between a client and a scheduler.

use std::fmt;

use baton_model::api::Problem;

/// Why there is no answer, or not the one that was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// This cannot be the URL of a scheduler.
    BadUrl {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The files for TLS cannot be used.
    Tls(
        /// Which, why not, and what to do about it.
        String,
    ),
    /// Nobody answers, or not to the end.
    Unreachable {
        /// Where it was looked for.
        url: String,
        why: String,
    },
    /// The scheduler answers that something is wrong.
    Problem(Box<Problem>),
    /// Something answers that does not speak this protocol.
    InvalidResponse {
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
}

impl ClientError {
    /// The problem that the scheduler told, if it told one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// True if the thing that was asked for does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == 404)
    }

    /// True if the same may well be answered in a while: the scheduler starts, stops, or
    /// cannot write for the moment.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            Self::BadUrl { .. } | Self::Tls(_) | Self::InvalidResponse { .. } => false,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadUrl { url, why } => write!(
                f,
                "`{url}` is no URL of a scheduler: {why}; write one such as {}",
                crate::DEFAULT_URL
            ),
            Self::Tls(why) => f.write_str(why),
            Self::Unreachable { url, why } => write!(
                f,
                "cannot reach the scheduler at {url}: {why}; start it with `baton up`, or name \
                 it with --url or BATON_URL"
            ),
            Self::Problem(problem) => told(f, problem),
            Self::InvalidResponse { url, why } => write!(
                f,
                "what answers at {url} does not speak like a scheduler of this version: {why}; \
                 check --url and BATON_URL, and that both sides are the same version"
            ),
        }
    }
}

/// As for a file that was read here: a place, what is wrong, and what to do about it.
fn told(f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
    f.write_str(&problem.title)?;
    // Each problem below tells itself.
    let detail = &problem.detail;
    let told = problem.errors.iter().any(|error| error.message == *detail);
    if !detail.is_empty() && *detail != problem.title && !told {
        write!(f, ": {detail}")?;
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

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use baton_model::api::ProblemAt;

    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let unreachable = ClientError::Unreachable {
            url: "http://127.0.0.1:1".to_owned(),
            why: "Connection refused".to_owned(),
        };
        assert_eq!(
            unreachable.to_string(),
            "cannot reach the scheduler at http://127.0.0.1:1: Connection refused; start it with \
             `baton up`, or name it with --url or BATON_URL"
        );
        assert!(unreachable.is_transient());
        let problem = ClientError::Problem(Box::new(Problem {
            kind: "invalid".to_owned(),
            title: "the task has errors".to_owned(),
            status: 422,
            detail: "fix 1 of them".to_owned(),
            errors: vec![ProblemAt {
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
    fn a_problem_is_told_once() {
        let text = "r2 has no task `nope`";
        let problem = ClientError::Problem(Box::new(Problem {
            kind: "invalid".to_owned(),
            title: "cannot be used".to_owned(),
            status: 422,
            detail: text.to_owned(),
            errors: vec![ProblemAt {
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
