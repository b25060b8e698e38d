//! The directory of a `baton run`, into which some commands look without a server.

use std::path::PathBuf;

use clap::Args;

/// Option of the commands that can look into the directory of a `baton run`.
#[derive(Debug, Default, Args)]
pub(super) struct DataArgs {
    /// Data directory of a `baton run` to look into; no server is needed
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
}
