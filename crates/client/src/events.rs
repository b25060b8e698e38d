//! Event stream.
//!
//! A response of server-sent events, read line by line. Nothing is retried here: a caller that
//! reconnects with the last id misses nothing.

use baton_model::api::{Event, EventGap};
use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Wall;
use reqwest::{Response, Url};

use crate::Client;
use crate::error::ClientError;

/// Lines beyond this length are refused.
const LINE_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events of this instance.
    pub instance: Option<InstanceId>,
    /// Only events of this run and its instances; excludes `instance`.
    pub run: Option<RunId>,
    /// Only events of instances and runs of this owner.
    pub owner: Option<String>,
    /// Only events after this one; new events only if `None`.
    pub after: Option<u64>,
    /// Only events from this time on; with `after`, of those after that one.
    pub since: Option<Wall>,
    /// Wait for new events when all existing ones are sent.
    pub follow: bool,
}

/// One message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// An event.
    Event(Box<Event>),
    /// Some events are missing.
    Gap(EventGap),
    /// No event, but the connection is alive.
    KeepAlive,
}

/// A stream of events.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    response: Response,
    url: Url,
    reader: FrameReader,
    last: Option<u64>,
}

impl Client {
    /// Opens a stream of events.
    pub async fn events(&self, query: &EventQuery) -> Result<EventStream, ClientError> {
        let mut url = self.transport.at(&["events"]);
        let pairs = [
            ("instance", query.instance.map(|id| id.to_string())),
            ("run", query.run.map(|id| id.to_string())),
            ("owner", query.owner.clone()),
            ("after", query.after.map(|after| after.to_string())),
            ("since", query.since.map(|since| since.0.to_string())),
            ("follow", (!query.follow).then(|| "false".to_owned())),
        ];
        for (key, value) in pairs {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(key, &value);
            }
        }
        Ok(EventStream {
            client: self.clone(),
            response: self.transport.open(url.clone()).await?,
            url,
            reader: FrameReader::default(),
            last: query.after,
        })
    }
}

impl EventStream {
    /// The next message; `None` if the scheduler has ended the response. There is a message at
    /// least every 15 seconds: a much longer silence means that the connection is dead.
    ///
    /// # Errors
    /// See [`ClientError`]. After an error, open a new stream from [`EventStream::last`].
    pub async fn next(&mut self) -> Result<Option<EventMessage>, ClientError> {
        loop {
            if let Some(frame) = self.reader.frame() {
                let frame = frame.map_err(|reason| self.invalid(reason))?;
                self.last = frame.id.or(self.last);
                return self.message(&frame).map(Some);
            }
            match self.client.transport.chunk(&mut self.response).await? {
                Some(bytes) => self.reader.add(&bytes),
                None => return Ok(None),
            }
        }
    }

    /// The id of the last event, from which the next stream has to continue.
    #[must_use]
    pub const fn last(&self) -> Option<u64> {
        self.last
    }

    fn message(&self, frame: &Frame) -> Result<EventMessage, ClientError> {
        let read = |error: serde_json::Error| self.invalid(error.to_string());
        match (frame.name.as_str(), frame.data.as_str()) {
            (_, "") => Ok(EventMessage::KeepAlive),
            ("lost", data) => Ok(EventMessage::Gap(serde_json::from_str(data).map_err(read)?)),
            (_, data) => Ok(EventMessage::Event(
                serde_json::from_str(data).map_err(read)?,
            )),
        }
    }

    fn invalid(&self, reason: String) -> ClientError {
        ClientError::InvalidResponse {
            url: self.url.to_string(),
            reason,
        }
    }
}

/// Lines up to an empty one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    id: Option<u64>,
    name: String,
    data: String,
}

/// Splits bytes into frames.
#[derive(Debug, Default)]
struct FrameReader {
    bytes: Vec<u8>,
    /// There is no line feed before this offset.
    searched: usize,
    frame: Frame,
}

impl FrameReader {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame.
    fn frame(&mut self) -> Option<Result<Frame, String>> {
        let mut from = 0;
        let mut complete = None;
        while complete.is_none() {
            let rest = &self.bytes[self.searched.max(from)..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                break;
            };
            let end = self.searched.max(from) + end;
            let line = String::from_utf8_lossy(&self.bytes[from..end]);
            if line.is_empty() {
                complete = Some(Ok(std::mem::take(&mut self.frame)));
            } else if let Err(reason) = self.frame.line(line.trim_end_matches('\r')) {
                complete = Some(Err(reason));
            }
            from = end + 1;
        }
        self.bytes.drain(..from);
        self.searched = self.searched.saturating_sub(from);
        if complete.is_none() && self.bytes.len() > LINE_BYTES_MAX {
            return Some(Err("a line is too long".to_owned()));
        }
        complete
    }
}

impl Frame {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => {
                let id = value.parse();
                self.id = Some(id.map_err(|_| "the id of an event is not a number".to_owned())?);
            }
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments, the retry delay, and fields of later versions.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chunks: &[&[u8]]) -> Vec<Result<Frame, String>> {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        for chunk in chunks {
            reader.add(chunk);
            while let Some(frame) = reader.frame() {
                frames.push(frame);
            }
        }
        frames
    }

    #[test]
    fn events_are_the_same_however_the_network_cuts_them() {
        let text =
            "retry: 1000\nid: 4\n\n: still here\n\nid: 5\nevent: lost\ndata: {\"ä\":\ndata:1}\n\n";
        let whole = frames(&[text.as_bytes()]);
        assert_eq!(whole.len(), 3);
        let last = whole[2].as_ref().expect("sound");
        assert_eq!((last.id, &*last.name), (Some(5), "lost"));
        assert_eq!(last.data, "{\"ä\":\n1}");
        assert_eq!(whole[0].as_ref().map(|it| it.id), Ok(Some(4)));
        assert_eq!(whole[1], Ok(Frame::default()));
        for cut in 1..text.len() {
            let (left, right) = text.as_bytes().split_at(cut);
            assert_eq!(frames(&[left, right]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(frames(&bytes), whole);
    }

    #[test]
    fn an_id_that_is_no_number_is_nonsense() {
        assert!(frames(&[b"id: x\n\n"])[0].is_err());
    }
}
