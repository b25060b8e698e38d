//! A log as it grows, and ranges that are longer than one piece.

use baton_model::ids::InstanceId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::LogAnswer;
use tokio::time::sleep;

use super::{App, LogSelector};
use crate::http::streams::Pipe;
use crate::limits::LOG_POLL_PAUSE;

/// What is still to be sent of a log.
pub(super) struct LogTail {
    pub(super) app: App,
    pub(super) id: InstanceId,
    /// Which; the attempt is named, and the run as soon as it is known.
    pub(super) selector: LogSelector,
    /// The next byte.
    pub(super) position: u64,
    /// Behind the last byte; to the end of the attempt if there is none.
    pub(super) end: Option<u64>,
}

impl LogTail {
    /// Sends it. Where it cannot be read to its end, the answer is cut off, so that nobody takes
    /// a part of it for the whole.
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
                // It may not have come so far as to write anything, or its worker is away.
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
            // There is no more for now.
            match (self.end, next_run) {
                (Some(_), _) => return pipe.truncate().await,
                (None, Some(run)) => (self.selector.run, self.position) = (Some(run), 0),
                (None, None) if source.is_over => return,
                (None, None) => sleep(LOG_POLL_PAUSE).await,
            }
        }
    }
}
