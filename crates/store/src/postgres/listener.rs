//! A connection that hears of commits.

use std::future::poll_fn;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use super::session::ConnectError;
use super::target::Target;

/// The channel on which a commit of facts is announced.
pub(crate) const CHANNEL: &str = "baton_committed";

/// A connection that listens.
pub(super) struct Listener {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    heard: mpsc::UnboundedReceiver<()>,
    /// The connection ends with its client.
    _client: tokio_postgres::Client,
}

impl Listener {
    pub(super) fn open(target: &Target) -> Result<Self, ConnectError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, heard) = runtime.block_on(async {
            let (client, mut driver) = target.connect().await?;
            let (sender, heard) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                // Ends with the connection, and with it the sender.
                while let Some(Ok(message)) = poll_fn(|context| driver.poll_message(context)).await
                {
                    let is_commit = matches!(message, AsyncMessage::Notification(_));
                    if is_commit && sender.send(()).is_err() {
                        return;
                    }
                }
            });
            client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
            Ok::<_, ConnectError>((client, heard))
        })?;
        Ok(Self {
            runtime: Some(runtime),
            heard,
            _client: client,
        })
    }

    /// Waits for a commit; false if there was none, `None` if the connection is lost.
    pub(super) fn wait(&mut self, wait: Duration) -> Option<bool> {
        let runtime = self.runtime.as_ref()?;
        let heard = &mut self.heard;
        let heard_one = runtime.block_on(async {
            match tokio::time::timeout(wait, heard.recv()).await {
                Ok(Some(())) => Some(true),
                Ok(None) => None,
                Err(_) => Some(false),
            }
        });
        // One answer is enough for all of them.
        while self.heard.try_recv().is_ok() {}
        heard_one
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
