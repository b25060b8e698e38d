//! Connections of client commands to a scheduler.

use baton_client::{Client, DEFAULT_URL};
pub(crate) use baton_terminal::connection::{
    REFUSED, accepted_instance, accepted_run, block_on, in_trace, refused,
};

use crate::credentials::CredentialArgs;
use crate::output::Failure;

/// Environment variable with the scheduler's URL.
const URL_VARIABLE: &str = "BATON_URL";
/// The environment variable with the name of the user, which servers without authentication record.
const USER_VARIABLE: &str = "USER";

/// Creates a client for the scheduler at `url`, or at the URL of the environment, with these
/// credentials.
pub(crate) fn client(url: Option<&str>, credentials: &CredentialArgs) -> Result<Client, Failure> {
    let url = effective_url(url);
    let mut client = Client::with_tls(&url, &credentials.client_files()?).map_err(refused)?;
    if let Some(token) = credentials.token()? {
        client = client.with_token(&token);
    }
    if let Ok(user) = std::env::var(USER_VARIABLE) {
        client = client.with_user(&user);
    }
    Ok(in_trace(client))
}

/// The URL of the command line, or else of the environment, or else the default.
pub(crate) fn effective_url(url: Option<&str>) -> String {
    let set = || std::env::var(URL_VARIABLE).ok();
    let url = url.map(str::to_owned).or_else(set);
    url.filter(|url| !url.is_empty())
        .unwrap_or_else(|| DEFAULT_URL.to_owned())
}
