//! Errors of the client as failures of commands, and ids of its responses.

use std::future::Future;

use baton_client::{Client, ClientError};
use baton_model::api::RunReply;
use baton_model::ids::{InstanceId, RunId};
use baton_model::trace::TRACE_VARIABLE;

use crate::ids;
use crate::output::{FAILED, Failure, INTERNAL, USAGE, clean};
use crate::runtime;

/// The scheduler cannot be reached, or refuses.
pub const REFUSED: u8 = 3;

/// Runs an asynchronous command on the current thread.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::on_this_thread(command)
        .map_err(|error| Failure::Message(REFUSED, format!("cannot start the runtime: {error}")))?
}

/// Lets a client submit for the span of the program that has started this one, if there is one.
#[must_use]
pub fn in_trace(client: Client) -> Client {
    let trace = std::env::var(TRACE_VARIABLE).ok();
    // As a header, a malformed one is ignored.
    match trace.and_then(|trace| trace.trim().parse().ok()) {
        Some(trace) => client.with_trace(trace),
        None => client,
    }
}

/// Converts an error of the client into a failure with its exit code.
pub fn refused(error: ClientError) -> Failure {
    let code = match &error {
        ClientError::BadUrl { .. } | ClientError::Tls(_) => USAGE,
        ClientError::Problem(problem) => match problem.status {
            400 | 413 | 422 => USAGE,
            404 => FAILED,
            _ => REFUSED,
        },
        ClientError::Unreachable { .. } | ClientError::InvalidResponse { .. } => REFUSED,
    };
    // Line ends of the message are kept; other control characters are escaped.
    let text = error.to_string();
    let lines: Vec<String> = text.lines().map(clean).collect();
    Failure::Message(code, lines.join("\n"))
}

/// Parses the run id of a response.
pub fn accepted_run(accepted: &RunReply) -> Result<RunId, Failure> {
    ids::run(&accepted.id).map_err(|_| invalid_id(&accepted.id))
}

/// Parses the instance id of a response.
pub fn accepted_instance(id: &str) -> Result<InstanceId, Failure> {
    ids::instance(id).map_err(|_| invalid_id(id))
}

fn invalid_id(id: &str) -> Failure {
    let id = clean(id);
    Failure::Message(
        INTERNAL,
        format!("the scheduler returned an invalid id, `{id}`"),
    )
}

#[cfg(test)]
mod tests {
    use baton_model::api::Problem;

    use super::*;

    #[test]
    fn exit_codes_distinguish_bad_input_not_found_and_unreachable() {
        let code = |error| match refused(error) {
            Failure::Message(code, _) => code,
            other => panic!("{other:?}"),
        };
        let problem = |status| {
            ClientError::Problem(Box::new(Problem {
                status,
                ..Problem::default()
            }))
        };
        assert_eq!(code(problem(422)), USAGE);
        assert_eq!(code(problem(404)), FAILED);
        assert_eq!(code(problem(409)), REFUSED);
        assert_eq!(code(problem(503)), REFUSED);
        let unreachable = ClientError::Unreachable {
            url: "u".to_owned(),
            reason: "w\u{1b}[2J".to_owned(),
        };
        assert!(matches!(
            refused(unreachable),
            Failure::Message(REFUSED, text) if !text.contains('\u{1b}')
        ));
    }
}
