//! The signal to shut down.

use tokio::sync::watch;

/// Resolves when the server shuts down.
pub(crate) async fn until_shutdown(shutdown: &mut watch::Receiver<bool>) {
    // Fails only if the sender is gone, which also means shutdown.
    let _ = shutdown.wait_for(|shutdown| *shutdown).await;
}
