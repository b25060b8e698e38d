//! A typed client of Baton's HTTP API.
//!
//! One method for each route; the shapes are those of [`baton_model::api`]. Whatever
//! goes wrong is one of three things ([`ClientError`]), each with words that say what to
//! do. Nothing is tried again here: who waits knows better how long that makes sense.
//!
//! | module | holds |
//! |---|---|
//! | `error` | what can go wrong |
//! | `transport` | requests and answers |
//! | `instances` | submitting, looking, waiting, stopping; logs |
//! | `lists` | the views, page by page; workers |
//! | `tokens` | credentials |

mod error;
mod instances;
mod lists;
mod tokens;
mod transport;

pub use error::ClientError;
pub use instances::{LogPiece, LogWish, Span, Stream};
pub use lists::{Filter, Pages, View};

use baton_model::token::Secret;
use transport::Transport;

/// Where a scheduler listens, unless somebody says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// A scheduler, seen from outside.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client of the scheduler at this URL. Nothing is sent yet.
    ///
    /// # Errors
    /// If that is no URL of a scheduler.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Ok(Self {
            transport: Transport::new(url)?,
        })
    }

    /// The same, showing a token with every request.
    #[must_use]
    pub fn with_token(mut self, token: &Secret) -> Self {
        self.transport.show(token);
        self
    }

    /// The URL, as it is used.
    #[must_use]
    pub fn url(&self) -> &str {
        self.transport.url()
    }
}
