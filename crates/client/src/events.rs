//! What happens, as it happens.
//!
//! An answer of server-sent events, read line by line. Nothing is tried again here: whoever
//! follows asks again with the last id, and misses nothing.

use baton_model::api::{Event, Lost};
use baton_model::ids::{InstanceId, RunId};
use reqwest::{Response, Url};

use crate::Client;
use crate::error::ClientError;

/// The longest line that is believed to come to an end.
const LINE_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// Of this instance only.
    pub instance: Option<InstanceId>,
    /// Of this run and its instances only; not beside `instance`.
    pub run: Option<RunId>,
    /// Of instances and runs of this owner only.
    pub owner: Option<String>,
    /// From behind this one on; from now on if none is named.
    pub after: Option<u64>,
    /// Go on when everything that there is was told.
    pub follow: bool,
}

/// Something that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// It happened.
    Event(Box<Event>),
    /// Not everything that happened is told.
    Lost(Lost),
    /// Nothing has happened, and somebody is still there.
    KeepAlive,
}

/// Events, one after the other.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    answer: Response,
    url: Url,
    lines: Lines,
    last: Option<u64>,
}

impl Client {
    /// Follows events.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn events(&self, wish: &EventQuery) -> Result<EventStream, ClientError> {
        let mut url = self.transport.at(&["events"]);
        let wishes = [
            ("instance", wish.instance.map(|id| id.to_string())),
            ("run", wish.run.map(|id| id.to_string())),
            ("owner", wish.owner.clone()),
            ("after", wish.after.map(|after| after.to_string())),
            ("follow", (!wish.follow).then(|| "false".to_owned())),
        ];
        for (key, value) in wishes {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(key, &value);
            }
        }
        Ok(EventStream {
            client: self.clone(),
            answer: self.transport.open(url.clone()).await?,
            url,
            lines: Lines::default(),
            last: wish.after,
        })
    }
}

impl EventStream {
    /// What is told next; `None` if the scheduler has ended the answer. There is something at
    /// least every 15 seconds: silence for much longer means that nobody is there any more.
    ///
    /// # Errors
    /// As [`ClientError`] says. Events that come after an error belong to another answer: ask
    /// again with [`EventStream::last`].
    pub async fn next(&mut self) -> Result<Option<EventMessage>, ClientError> {
        loop {
            if let Some(frame) = self.lines.frame() {
                let frame = frame.map_err(|why| self.nonsense(why))?;
                self.last = frame.id.or(self.last);
                return self.told(&frame).map(Some);
            }
            match self.client.transport.chunk(&mut self.answer).await? {
                Some(bytes) => self.lines.add(&bytes),
                None => return Ok(None),
            }
        }
    }

    /// From behind which event on the next answer has to begin.
    #[must_use]
    pub const fn last(&self) -> Option<u64> {
        self.last
    }

    fn told(&self, frame: &Frame) -> Result<EventMessage, ClientError> {
        let read = |error: serde_json::Error| self.nonsense(error.to_string());
        match (frame.name.as_str(), frame.data.as_str()) {
            (_, "") => Ok(EventMessage::KeepAlive),
            ("lost", data) => Ok(EventMessage::Lost(
                serde_json::from_str(data).map_err(read)?,
            )),
            (_, data) => Ok(EventMessage::Event(
                serde_json::from_str(data).map_err(read)?,
            )),
        }
    }

    fn nonsense(&self, why: String) -> ClientError {
        ClientError::InvalidResponse {
            url: self.url.to_string(),
            why,
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

/// Bytes on their way to becoming frames.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Up to here there is no end of a line.
    looked: usize,
    frame: Frame,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame that is whole.
    fn frame(&mut self) -> Option<Result<Frame, String>> {
        let mut from = 0;
        let mut whole = None;
        while whole.is_none() {
            let rest = &self.bytes[self.looked.max(from)..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.looked = self.bytes.len();
                break;
            };
            let end = self.looked.max(from) + end;
            let line = String::from_utf8_lossy(&self.bytes[from..end]);
            if line.is_empty() {
                whole = Some(Ok(std::mem::take(&mut self.frame)));
            } else if let Err(why) = self.frame.line(line.trim_end_matches('\r')) {
                whole = Some(Err(why));
            }
            from = end + 1;
        }
        self.bytes.drain(..from);
        self.looked = self.looked.saturating_sub(from);
        if whole.is_none() && self.bytes.len() > LINE_BYTES_MAX {
            return Some(Err("a line of it has no end".to_owned()));
        }
        whole
    }
}

impl Frame {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => {
                let id = value.parse();
                self.id = Some(id.map_err(|_| "the id of an event is no number".to_owned())?);
            }
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments, how long to wait, and what later versions may add.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Result<Frame, String>> {
        let mut lines = Lines::default();
        let mut frames = Vec::new();
        for piece in pieces {
            lines.add(piece);
            while let Some(frame) = lines.frame() {
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
