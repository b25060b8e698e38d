//! A whole log as plain text. It is read while the browser takes it: a log may be larger than the
//! memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use baton_model::message::{LogStart, LogStream};
use baton_model::task::RunNo;
use baton_runner::logs::{LogSource, STREAMS};
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::Observer;
use crate::format::Format;
use crate::pages::{error, stream_word};

/// Bytes read at a time; at most one such piece waits for the browser.
const PIECE_BYTES: usize = 256 << 10;

/// The names in the address of a log: root, task, process, run, stream.
type Address = (String, String, String, u64, String);

pub(crate) async fn log(
    State(observer): State<Arc<Observer>>,
    format: Format,
    Path(address): Path<Address>,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    let opened = spawn_blocking(move || find(&observer, &address)).await;
    let Ok(Some((source, run, file))) = opened else {
        let text = "there is no such output any more, or not yet";
        return error(format, StatusCode::NOT_FOUND, text);
    };
    spawn_blocking(move || feed(&source, run, &sender));
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        // Output never is a page of this server.
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{file}\""),
        ),
    ];
    (headers, Body::new(Pieces(receiver))).into_response()
}

/// The log of an address, and the name of the file that it is saved as.
fn find(observer: &Observer, address: &Address) -> Option<(LogSource, RunNo, String)> {
    let (root, id, process, run, stream) = address;
    let stream: LogStream = STREAMS.into_iter().find(|it| stream_word(*it) == stream)?;
    let task = observer.host.find(root, id)?;
    let view = task.view().ok()?;
    let logs = task.logs(&view, process)?;
    let run = logs.runs().ok()?.into_iter().find(|it| it.0 == *run)?;
    let source = logs.source(stream);
    // A task without output has no file; the answer then is an error, not an empty text.
    source.piece(run, LogStart::Offset(0), 0).ok()??;
    // An id needs no quotes; the name of a process may contain anything.
    let file = format!("{}.{}.{}.txt", task.entry.id, run.0, stream_word(stream));
    Some((source, run, file))
}

/// Sends the log piece by piece, until its end or until the browser is gone.
fn feed(source: &LogSource, run: RunNo, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut start = LogStart::Offset(0);
    loop {
        let piece = match source.piece(run, start, PIECE_BYTES) {
            Ok(Some(piece)) => piece,
            // Removed while it was read.
            Ok(None) => return,
            Err(error) => {
                // The response is cut off, so that no part is mistaken for the whole. A browser
                // that is gone does not mind.
                let _ = sender.blocking_send(Err(error));
                return;
            }
        };
        let is_last = piece.bytes.len() < PIECE_BYTES;
        let is_sent = sender.blocking_send(Ok(piece.bytes.into())).is_ok();
        match piece.cursor {
            Some(cursor) if is_sent && !is_last => start = LogStart::Cursor(cursor),
            _ => return,
        }
    }
}

/// The pieces as the body of a response.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}
