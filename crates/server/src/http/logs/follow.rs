//! Logs that grow, and ranges that are longer than one piece.

use baton_model::ids::InstanceId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{LogAnswer, LogStart};
use tokio::time::sleep;

use super::LogSelector;
use crate::http::app::App;
use crate::http::streams::Pipe;
use crate::limits::LOG_POLL_PAUSE;

/// The remainder of a log that is still to be sent.
pub(super) struct LogTail {
    pub(super) app: App,
    pub(super) id: InstanceId,
    /// Which log; the attempt is set, and the run as soon as it is known.
    pub(super) selector: LogSelector,
    pub(super) start: LogStart,
    /// The number of bytes; `None`: until the attempt has ended.
    pub(super) left: Option<u64>,
}

impl LogTail {
    /// Sends it. If it cannot be read to its end, the response is aborted, so that the client
    /// cannot mistake a part for the whole.
    pub(super) async fn run(mut self, pipe: Pipe) {
        loop {
            if self.left == Some(0) {
                return;
            }
            let most = self
                .left
                .unwrap_or(u64::MAX)
                .min(LOG_CHUNK_BYTES_MAX.into());
            let most = u32::try_from(most).unwrap_or(LOG_CHUNK_BYTES_MAX);
            let read = self
                .app
                .piece(self.id, &self.selector, self.start, most)
                .await;
            let Ok((source, answer)) = read else {
                return pipe.truncate().await;
            };
            let chunk = match answer {
                LogAnswer::Chunk(chunk) => Some(chunk),
                // It may not have written anything yet, or its worker is disconnected.
                LogAnswer::NotFound | LogAnswer::Unavailable(_)
                    if !source.is_over && self.left.is_none() =>
                {
                    None
                }
                LogAnswer::NotFound if self.left.is_none() => return,
                LogAnswer::NotFound | LogAnswer::Unavailable(_) => return pipe.truncate().await,
            };
            let Some(chunk) = chunk else {
                sleep(LOG_POLL_PAUSE).await;
                continue;
            };
            let (read, next_run) = (chunk.bytes.len() as u64, chunk.next_run);
            self.selector.run = Some(chunk.run);
            if let Some(cursor) = chunk.cursor {
                self.start = LogStart::Cursor(cursor);
            }
            self.left = self.left.map(|left| left.saturating_sub(read));
            if read > 0 && !pipe.put(chunk.bytes).await {
                return;
            }
            if read == u64::from(most) {
                continue;
            }
            // There is no more at the moment.
            match (self.left, next_run) {
                (Some(_), _) => return pipe.truncate().await,
                (None, Some(run)) => {
                    (self.selector.run, self.start) = (Some(run), LogStart::Offset(0));
                }
                (None, None) if source.is_over => return,
                (None, None) => sleep(LOG_POLL_PAUSE).await,
            }
        }
    }
}
