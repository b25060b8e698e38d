//! Request bodies: read within limits of size and time, and within one budget for all of them.
//!
//! A request reserves the length of its body before the first byte is read, and keeps it until its
//! handler has ended: what a handler makes of a body is as large as the body. A body without a length
//! (chunked) reserves as it arrives. A request that does not fit is refused at once, with
//! `Retry-After`. Bodies of up to [`UNCOUNTED_BODY_BYTES_MAX`] are not counted, so that one client with
//! large bodies does not keep the others from submitting tasks.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::Body as _;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::app::App;
use super::peer::Peer;
use super::problem::{Answer, Fault};
use crate::limits::{
    BODIES_RETRY_AFTER, MEMORY_RELEASE_PAUSE, RELEASED_BODY_BYTES_MIN, UNCOUNTED_BODY_BYTES_MAX,
};

/// The bytes of all bodies in flight.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    max: usize,
    used: AtomicUsize,
    /// Told when a large body has been given back.
    large_ended: Notify,
}

impl BodyBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            used: AtomicUsize::new(0),
            large_ended: Notify::new(),
        })
    }

    /// Returns the memory of large bodies to the system, for as long as the server runs. An allocator
    /// keeps what was freed for the next allocation, which may never come.
    pub(crate) async fn release_memory(self: Arc<Self>, release: fn()) {
        loop {
            self.large_ended.notified().await;
            // Several bodies that end together need it once.
            sleep(MEMORY_RELEASE_PAUSE).await;
            if let Err(error) = spawn_blocking(release).await {
                tracing::warn!("cannot return memory to the system: {error}");
            }
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max);
        let (taken, seen) = (Ordering::AcqRel, Ordering::Acquire);
        self.used.fetch_update(taken, seen, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        if bytes >= RELEASED_BODY_BYTES_MIN {
            self.large_ended.notify_one();
        }
    }
}

/// Extension of a request: the part of the budget that it holds. Given back when the last copy is
/// dropped, which the middleware holds until the handler has ended.
#[derive(Clone, Debug)]
struct Reservation(Arc<Share>);

#[derive(Debug)]
struct Share {
    budget: Arc<BodyBudget>,
    bytes: AtomicUsize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes > 0 {
            self.budget.give_back(bytes);
        }
    }
}

impl Reservation {
    fn new(budget: &Arc<BodyBudget>) -> Self {
        Self(Arc::new(Share {
            budget: Arc::clone(budget),
            bytes: AtomicUsize::new(0),
        }))
    }

    /// Makes room for a body of this many bytes, if there is any.
    fn cover(&self, bytes: usize) -> Answer<()> {
        let held = self.0.bytes.load(Ordering::Acquire);
        let more = bytes.saturating_sub(held);
        if bytes <= UNCOUNTED_BODY_BYTES_MAX || more == 0 {
            return Ok(());
        }
        if !self.0.budget.take(more) {
            return Err(over_budget(self.0.budget.max));
        }
        self.0.bytes.fetch_add(more, Ordering::AcqRel);
        Ok(())
    }
}

/// Gives every request a share of the budget, empty at first, until its handler has ended.
pub(super) async fn hold(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let reservation = Reservation::new(&app.0.bodies);
    request.extensions_mut().insert(reservation.clone());
    let response = next.run(request).await;
    drop(reservation);
    response
}

/// Reads a body of at most this many bytes.
pub(super) async fn read(request: Request, bytes_max: usize) -> Answer<Vec<u8>> {
    let wait = Peer::of(request.extensions()).body_wait;
    // A page that asks the API has the body in memory, and its form is counted.
    let reservation = request.extensions().get::<Reservation>().cloned();
    let reading = collect(request.into_body(), reservation, bytes_max);
    timeout(wait, reading).await.unwrap_or_else(|_| {
        Err(Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            "too-slow",
            "the body did not arrive in time",
        ))
    })
}

async fn collect(
    mut body: Body,
    reservation: Option<Reservation>,
    bytes_max: usize,
) -> Answer<Vec<u8>> {
    let cover = |bytes: usize| {
        if bytes > bytes_max {
            return Err(too_large());
        }
        reservation.as_ref().map_or(Ok(()), |it| it.cover(bytes))
    };
    let length = match body.size_hint().exact() {
        Some(length) => usize::try_from(length).map_err(|_| too_large())?,
        None => 0,
    };
    cover(length)?;
    // One allocation of the right size, which the kernel fills as the bytes arrive.
    let mut bytes = Vec::with_capacity(length);
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else {
            return Ok(bytes);
        };
        let frame = frame.map_err(|_| Fault::bad_request("the body ended prematurely"))?;
        if let Ok(data) = frame.into_data() {
            cover(bytes.len().saturating_add(data.len()))?;
            bytes.extend_from_slice(&data);
        }
    }
}

fn too_large() -> Fault {
    Fault::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too-large",
        "the body is too large; move data into files, or send a workflow in parts",
    )
}

fn over_budget(max: usize) -> Fault {
    let detail = format!(
        "the bodies of other requests take most of the {} MiB that all together may have; repeat \
         the request after {} s, or send a workflow in parts",
        max >> 20,
        BODIES_RETRY_AFTER.as_secs()
    );
    let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-bytes", detail);
    fault.after(BODIES_RETRY_AFTER).unread()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = UNCOUNTED_BODY_BYTES_MAX + 1;

    #[test]
    fn a_reservation_ends_with_its_last_copy() {
        let budget = BodyBudget::new(2 * BIG);
        let [first, second, third] = [0; 3].map(|_| Reservation::new(&budget));
        let copy = first.clone();
        assert!(first.cover(BIG).is_ok() && second.cover(BIG).is_ok());
        let refused = third.cover(BIG).expect_err("there is no room");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        assert!(third.cover(BIG).is_err(), "a copy holds it");
        drop(copy);
        assert!(third.cover(BIG).is_ok());
        drop((second, third));
        assert_eq!(budget.used.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_body_that_grows_reserves_the_difference() {
        let budget = BodyBudget::new(2 * BIG);
        let one = Reservation::new(&budget);
        for bytes in [1, BIG, BIG + 1, 2 * BIG] {
            assert!(one.cover(bytes).is_ok(), "{bytes}");
        }
        assert_eq!(budget.used.load(Ordering::Acquire), 2 * BIG);
        assert!(one.cover(2 * BIG + 1).is_err());
        let small = Reservation::new(&budget);
        assert!(
            small.cover(UNCOUNTED_BODY_BYTES_MAX).is_ok(),
            "never counted"
        );
    }
}
