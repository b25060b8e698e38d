//! Connections of client commands to a scheduler, and what their errors exit with.

use std::future::Future;

use baton_client::{Client, ClientError, DEFAULT_URL};

use crate::credentials::CredentialArgs;
use crate::output::{FAILED, Failure, USAGE};
use crate::runtime;

/// The scheduler cannot be reached, or refuses.
pub(crate) const REFUSED: u8 = 3;

/// Environment variable with the scheduler's URL.
const URL_VARIABLE: &str = "BATON_URL";
/// The environment variable with the name of the user, which servers without authentication record.
const USER_VARIABLE: &str = "USER";

/// Creates a client for the scheduler at `url`, or at the URL of the environment, with these
/// credentials.
pub(crate) fn client(url: Option<&str>, credentials: &CredentialArgs) -> Result<Client, Failure> {
    let url = match url {
        Some(url) => url.to_owned(),
        None => std::env::var(URL_VARIABLE)
            .ok()
            .filter(|url| !url.is_empty())
            .unwrap_or_else(|| DEFAULT_URL.to_owned()),
    };
    let mut client = Client::with_tls(&url, &credentials.client_files()?).map_err(refused)?;
    if let Some(token) = credentials.token()? {
        client = client.with_token(&token);
    }
    if let Ok(user) = std::env::var(USER_VARIABLE) {
        client = client.with_user(&user);
    }
    Ok(client)
}

/// Runs an asynchronous command on the current thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::on_this_thread(command)
        .map_err(|error| Failure::Message(REFUSED, format!("cannot start the runtime: {error}")))?
}

/// Converts an error of the client into a failure with its exit code.
pub(crate) fn refused(error: ClientError) -> Failure {
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
    let lines: Vec<String> = text.lines().map(crate::output::clean).collect();
    Failure::Message(code, lines.join("\n"))
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
            why: "w\u{1b}[2J".to_owned(),
        };
        assert!(matches!(
                        refused(unreachable),
            Failure::Message(REFUSED, text) if !text.contains('\u{1b}')
        ));
    }
}
