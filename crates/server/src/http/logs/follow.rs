//! Logs that grow, and ranges that are longer than one piece.

use baton_model::ids::InstanceId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::LogAnswer;
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
    /// Offset of the next byte.
    pub(super) position: u64,
    /// Offset after the last byte; `None`: until the attempt has ended.
    pub(super) end: Option<u64>,
}

impl LogTail {
    /// Sends it. If it cannot be read to its end, the response is aborted, so that the client
    /// cannot mistake a part for the whole.
    pub(super) async fn run(mut self, pipe: Pipe) {
        loop {
            let left = self.end.map(|end| end.saturating_sub(self.position));
            if left == Some(0) {
                return;
            }
            let most = left.unwrap_or(u64::MAX).min(LOG_CHUNK_BYTES_MAX.into());
            let most = u32::try_from(most).unwrap_or(LOG_CHUNK_BYTES_MAX);
            let read = self
                .app
                .piece(self.id, &self.selector, self.position, most)
                .await;
            let Ok((source, answer)) = read else {
                return pipe.truncate().await;
            };
            let chunk = match answer {
                LogAnswer::Chunk(chunk) => Some(chunk),
                // It may not have written anything yet, or its worker is disconnected.
                LogAnswer::NotFound | LogAnswer::Unavailable(_)
                    if !source.is_over && self.end.is_none() =>
                {
                    None
                }
                LogAnswer::NotFound if self.end.is_none() => return,
                LogAnswer::NotFound | LogAnswer::Unavailable(_) => return pipe.truncate().await,
            };
            let Some(chunk) = chunk else {
                sleep(LOG_POLL_PAUSE).await;
                continue;
            };
            let (read, next_run) = (chunk.bytes.len() as u64, chunk.next_run);
            self.selector.run = Some(chunk.run);
            self.position += read;
            if read > 0 && !pipe.put(chunk.bytes).await {
                return;
            }
            if read == u64::from(most) {
                continue;
            }
            // There is no more at the moment.
            match (self.end, next_run) {
                (Some(_), _) => return pipe.truncate().await,
                (None, Some(run)) => (self.selector.run, self.position) = (Some(run), 0),
                (None, None) if source.is_over => return,
                (None, None) => sleep(LOG_POLL_PAUSE).await,
            }
        }
    }
}
