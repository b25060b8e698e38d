//! Logging of server processes to standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging. `BATON_LOG` sets the level or the level of each target
/// (`warn,baton_server=debug`); the default is `info`.
pub(crate) fn init() {
    let filter = std::env::var("BATON_LOG").ok();
    let filter: Option<Targets> = filter.and_then(|text| text.parse().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // Fails only if a subscriber is installed already.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)))
        .try_init();
}
