//! A typed client of Baton's HTTP API.
//!
//! One method for each route; the types of bodies are those of [`baton_model::api`]. Every failure
//! is a [`ClientError`] with a hint. A request to one scheduler is not retried here: the caller knows
//! better how long that makes sense. With several URLs, separated by commas, a request goes to the next
//! scheduler if one cannot be reached or knows no leader; one that may be repeated also if it stops answering.
//!
//! | module | holds |
//! |---|---|
//! | `error` | errors |
//! | `transport` | HTTP requests and responses |
//! | `dispatch` | which scheduler a request is sent to |
//! | `servers` | the schedulers that may be asked, one or several |
//! | `instances` | submit, read, wait, cancel; logs |
//! | `runs` | runs of workflows |
//! | `backfills` | launches for past due times |
//! | `library` | tasks of the library, and triggering them |
//! | `lists` | views, page by page; workers |
//! | `pages` | addresses of web pages |
//! | `events` | event stream |
//! | `usage` | usage by owner and hour |
//! | `tokens` | tokens |

mod alarms;
mod backfills;
mod dispatch;
mod error;
mod events;
mod instances;
mod library;
mod lists;
mod notifications;
mod pages;
mod runs;
mod secrets;
mod servers;
mod tokens;
mod transport;
mod usage;
mod waits;

pub use error::ClientError;
pub use events::{EventMessage, EventQuery, EventStream};
pub use instances::{LogChunk, LogQuery, Span, Stream};
pub use library::{Condition, TriggerRequest};
pub use lists::{PageOptions, Pages, View};
pub use runs::{ResumeRequest, RunItem};
pub use usage::UsageQuery;

use baton_model::token::Secret;
use baton_model::trace::TraceContext;
use baton_tls::ClientFiles;
use transport::Transport;

/// The default URL of a scheduler.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// A client of one scheduler.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client of the scheduler at this URL, or at several, separated by commas, which trusts the system's certificates. Sends nothing
    /// yet.
    ///
    /// # Errors
    /// If the URL is not the URL of a scheduler.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Self::with_tls(url, &ClientFiles::default())
    }

    /// A client with these TLS files for `https`.
    ///
    /// # Errors
    /// If the URL is not the URL of a scheduler, or the files cannot be used.
    pub fn with_tls(url: &str, files: &ClientFiles) -> Result<Self, ClientError> {
        Ok(Self {
            transport: Transport::new(url, files)?,
        })
    }

    /// Sends this token with every request.
    #[must_use]
    pub fn with_token(mut self, token: &Secret) -> Self {
        self.transport.set_token(token);
        self
    }

    /// Tells servers without authentication who the user is. A name that is no header value is not sent.
    #[must_use]
    pub fn with_user(mut self, name: &str) -> Self {
        self.transport.set_user(name);
        self
    }

    /// Sends this span with every request: what is submitted becomes a child of it.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.transport.set_trace(trace);
        self
    }

    /// The URL in use.
    #[must_use]
    pub fn url(&self) -> &str {
        self.transport.url()
    }
}
