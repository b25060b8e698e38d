//! A look into the data directory of a `baton run`, by `baton show`, `explain` and `logs`.
//!
//! While the command runs, its own scheduler is asked. Afterwards a scheduler is started on the
//! directory for the time of the look, without a worker: it places nothing, and reads the logs from
//! the directory of the worker.

use std::fs;
use std::path::Path;

use baton_client::Client;
use baton_terminal::connection::{block_on, refused};
use baton_terminal::output::CommandResult;

use crate::children::{self, Reader};
use crate::io_failure;
use crate::record::RunDirectory;

/// Runs a command against the scheduler of a data directory.
pub fn inspect(data: &Path, command: impl AsyncFnOnce(&Client) -> CommandResult) -> CommandResult {
    let data = fs::canonicalize(data).map_err(|error| io_failure(data, &error))?;
    block_on(async {
        // Held as long as the scheduler lives.
        let Some(_directory) = RunDirectory::look_into(&data)? else {
            let client = Client::new(&children::read_url(&data)?).map_err(refused)?;
            return command(&client).await;
        };
        let mut reader = Reader::start(&data).await?;
        let result = command(&reader.client).await;
        reader.end().await;
        result
    })
}
