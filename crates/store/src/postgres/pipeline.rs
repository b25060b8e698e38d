//! Requests that are sent together.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::Error;

/// A request to the server. Its first poll sends it.
pub(super) type Request<'a, T, E = Error> = Pin<Box<dyn Future<Output = Result<T, E>> + 'a>>;

/// Sends requests in this order, each without waiting for the ones before, and waits for all.
///
/// Nothing is sent after a request that fails before it is sent: the last one may be a commit. One that
/// fails on the server makes those behind it fail as well, a commit included, as long as all of them are in
/// one transaction.
pub(super) async fn send_in_order<T, E>(requests: Vec<Request<'_, T, E>>) -> Result<Vec<T>, E> {
    let mut requests: Vec<_> = requests.into_iter().map(|it| (Some(it), None)).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (request, value) in &mut requests {
            let Some(running) = request else { continue };
            match running.as_mut().poll(context) {
                Poll::Pending => is_pending = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(found)) => {
                    *value = Some(found);
                    *request = None;
                }
            }
        }
        if is_pending {
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    })
    .await?;
    Ok(requests.into_iter().filter_map(|(_, it)| it).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::{pending, ready};

    use super::*;

    /// A request that records when it is sent.
    fn request<'a>(
        log: &'a RefCell<Vec<u32>>,
        number: u32,
        outcome: Option<Result<u32, &'static str>>,
    ) -> Request<'a, u32, &'static str> {
        Box::pin(async move {
            log.borrow_mut().push(number);
            match outcome {
                Some(outcome) => ready(outcome).await,
                None => pending().await,
            }
        })
    }

    fn poll<T>(work: impl Future<Output = T>) -> Poll<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        Box::pin(work).as_mut().poll(&mut context)
    }

    #[test]
    fn requests_are_sent_in_order_without_waiting() {
        let log = RefCell::default();
        let all = vec![
            request(&log, 1, None),
            request(&log, 2, Some(Ok(2))),
            request(&log, 3, None),
        ];
        assert!(poll(send_in_order(all)).is_pending());
        assert_eq!(*log.borrow(), [1, 2, 3]);
        let all = vec![request(&log, 4, Some(Ok(4))), request(&log, 5, Some(Ok(5)))];
        assert!(matches!(poll(send_in_order(all)), Poll::Ready(Ok(it)) if it == [4, 5]));
    }

    #[test]
    fn nothing_is_sent_after_a_request_that_could_not_be_sent() {
        let log = RefCell::default();
        let all = vec![
            request(&log, 1, None),
            request(&log, 2, Some(Err("too long"))),
            request(&log, 3, Some(Ok(3))),
        ];
        assert!(matches!(poll(send_in_order(all)), Poll::Ready(Err(_))));
        assert_eq!(*log.borrow(), [1, 2]);
    }
}
