//! Write timeout of a connection.
//!
//! The timer runs only while a write waits for the peer: a stream without events, for example,
//! never times out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail if the peer takes no bytes for `wait`.
#[derive(Debug)]
pub(crate) struct WriteTimeout<I> {
    io: I,
    wait: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteTimeout<I> {
    pub(crate) const fn new(io: I, wait: Duration) -> Self {
        Self {
            io,
            wait,
            waiting: None,
        }
    }

    /// The result of a write, or an error after the timeout.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let wait = self.wait;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(wait)));
        match waiting.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer does not read",
            ))),
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteTimeout<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, bytes)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.within(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.io).poll_flush(context);
        self.within(context, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.io).poll_shutdown(context);
        self.within(context, written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_peer_that_does_not_read_runs_out_of_time() {
        let (near, mut far) = duplex(4);
        let mut near = WriteTimeout::new(near, Duration::from_secs(10));
        sleep(Duration::from_secs(60)).await;
        for _ in 0..3 {
            let slow = async {
                sleep(Duration::from_secs(9)).await;
                let mut bytes = [0; 4];
                far.read_exact(&mut bytes).await
            };
            let (written, read) = tokio::join!(near.write_all(b"1234"), slow);
            assert!(written.is_ok() && read.is_ok());
        }
        near.write_all(b"1234").await.expect("there is room");
        let error = near
            .write_all(b"5")
            .await
            .expect_err("the peer does not read");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
