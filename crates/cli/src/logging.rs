//! Logging of server processes to standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging. `BATON_LOG` sets the level or filter; the default is `info`.
pub(crate) fn init() {
    let filter = EnvFilter::try_from_env("BATON_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // Fails only if a subscriber is installed already.
    let _ = subscriber.try_init();
}
