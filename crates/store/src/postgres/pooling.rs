//! Detection of a pooler that shares sessions between transactions.
//!
//! The lock of the leader, notifications, settings and prepared statements belong to a session. Behind
//! a pooler that gives each transaction any session that is free (PgBouncer with `pool_mode =
//! transaction` or `statement`), the lock would be held by a session that other schedulers use as well,
//! and settings would leak into their transactions. So the store refuses to open.
//!
//! The number of the server's process shows it: one connection keeps its process, and two connections
//! never have the same. A transaction of the second one is open while the first asks again, so a
//! pooler has to give the first another session, or let it wait.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::schema;
use super::session::ConnectError;
use super::target::Target;
use crate::StoreError;
use crate::limits::POSTGRES_CONNECT_MS;

/// Rounds of asking: other clients of a pooler may hide it in one of them.
const ROUNDS: usize = 3;

/// Refuses a database behind such a pooler. Nothing is set or locked on the way.
pub(super) fn refuse(target: &Target) -> Result<(), StoreError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let shares = runtime
        .map_err(ConnectError::from)
        .and_then(|runtime| runtime.block_on(shares_sessions(target)));
    match shares {
        Ok(false) => Ok(()),
        Ok(true) => Err(StoreError::Failed(format!(
            "{}: a pooler shares sessions between transactions here, and a scheduler needs sessions of \
             its own; set pool_mode = session for this database, or connect to the server itself",
            target.place
        ))),
        Err(error) => Err(schema::unreachable(target, error)),
    }
}

async fn shares_sessions(target: &Target) -> Result<bool, ConnectError> {
    let (first, second) = (open(target).await?, open(target).await?);
    let (mut of_first, mut of_second) = (None, None);
    for _ in 0..ROUNDS {
        let asked = process(&first).await?;
        second.batch_execute("BEGIN").await?;
        let held = process(&second).await?;
        // With one session for both, the answer comes when the transaction ends.
        let limit = Duration::from_millis(POSTGRES_CONNECT_MS);
        let Ok(again) = timeout(limit, process(&first)).await else {
            return Ok(true);
        };
        second.batch_execute("COMMIT").await?;
        let is_same = |known: &mut Option<String>, now: &String| {
            known.get_or_insert_with(|| now.clone()) == now
        };
        let again = again?;
        if held == asked
            || held == again
            || !is_same(&mut of_first, &asked)
            || !is_same(&mut of_first, &again)
            || !is_same(&mut of_second, &held)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn open(target: &Target) -> Result<Client, ConnectError> {
    let (client, driver) = target.connect().await?;
    // It ends with its client, or with an error that the next statement reports.
    tokio::spawn(async move { drop(driver.await) });
    Ok(client)
}

/// The number of the server's process; without a prepared statement, which poolers treat differently.
async fn process(client: &Client) -> Result<String, ConnectError> {
    let messages = client.simple_query("SELECT pg_backend_pid()").await?;
    let number = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(number.unwrap_or_default().to_owned())
}
