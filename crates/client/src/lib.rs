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
//! | `library` | stored tasks, and launching them |
//! | `lists` | the views, page by page; workers |
//! | `events` | what happens, as it happens |
//! | `usage` | what was used, by owner and hour |
//! | `tokens` | credentials |

mod error;
mod events;
mod instances;
mod library;
mod lists;
mod runs;
mod tokens;
mod transport;
mod usage;

pub use error::ClientError;
pub use events::{EventMessage, EventQuery, EventStream};
pub use instances::{LogChunk, LogQuery, Span, Stream};
pub use library::{Condition, TriggerRequest};
pub use lists::{Filter, Pages, View};
pub use runs::{ItemFilter, ResumeRequest, RunFilter, RunItem};
pub use usage::UsageQuery;

use baton_model::token::Secret;
use baton_tls::ClientFiles;
use transport::Transport;

/// Where a scheduler listens, unless somebody says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// A scheduler, seen from outside.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client of the scheduler at this URL, which trusts whom the system trusts. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// If that is no URL of a scheduler.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Self::with_tls(url, &ClientFiles::default())
    }

    /// The same, with files for `https`.
    ///
    /// # Errors
    /// If that is no URL of a scheduler, or the files cannot be used.
    pub fn with_tls(url: &str, files: &ClientFiles) -> Result<Self, ClientError> {
        Ok(Self {
            transport: Transport::new(url, files)?,
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
