//! Prepared statements of a connection, and plans that are made before they are needed.
//!
//! To prepare a statement is a round trip, and its first use plans it and looks up its tables. A leader's first
//! groups would wait for a dozen of each.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Portal, Statement, Transaction};

use super::dialect;
use super::pipeline::{Request, send_in_order};
use super::session::Parameter;
use crate::sql::value::{Kind, Value};

/// Prepared statements by their text in SQLite's spelling.
#[derive(Default)]
pub(super) struct Statements {
    pub(super) plain: HashMap<String, Statement>,
    /// Those for many rows, where there is one.
    pub(super) batched: HashMap<String, Option<Statement>>,
}

impl Statements {
    /// Prepares and plans statements, and runs none of them.
    pub(super) async fn plan(client: &mut Client, texts: &[&str]) -> Result<Self, Error> {
        let transaction = client.transaction().await?;
        let translated: Vec<String> = texts.iter().map(|it| dialect::translate(it)).collect();
        let plain = prepare(&transaction, translated.iter()).await?;
        let batched = translated.iter().zip(&plain).map(|(sql, statement)| {
            let types: Vec<&str> = statement.params().iter().map(Type::name).collect();
            dialect::batched(sql, &types)
        });
        let batched: Vec<Option<String>> = batched.collect();
        let mut prepared = prepare(&transaction, batched.iter().flatten())
            .await?
            .into_iter();
        let batched: Vec<Option<Statement>> = batched
            .iter()
            .map(|sql| sql.as_ref().and_then(|_| prepared.next()))
            .collect();
        bind(&transaction, plain.iter().chain(batched.iter().flatten())).await?;
        transaction.rollback().await?;
        let names = || texts.iter().map(|it| (*it).to_owned());
        Ok(Self {
            plain: names().zip(plain).collect(),
            batched: names().zip(batched).collect(),
        })
    }
}

async fn prepare(
    transaction: &Transaction<'_>,
    texts: impl Iterator<Item = &String>,
) -> Result<Vec<Statement>, Error> {
    let requests =
        texts.map(|sql| -> Request<'_, Statement> { Box::pin(transaction.prepare(sql)) });
    send_in_order(requests.collect()).await
}

/// Binds statements to no values, for which the server plans them; it runs none.
async fn bind(
    transaction: &Transaction<'_>,
    statements: impl Iterator<Item = &Statement>,
) -> Result<(), Error> {
    const NULL: Value<'_> = Value::Null(Kind::Integer);
    let statements: Vec<(&Statement, Vec<Parameter<'_>>)> = statements
        .map(|it| (it, it.params().iter().map(|_| &NULL as _).collect()))
        .collect();
    let requests = statements
        .iter()
        .map(|(statement, parameters)| -> Request<'_, Portal> {
            Box::pin(transaction.bind(*statement, parameters))
        });
    send_in_order(requests.collect()).await.map(drop)
}
