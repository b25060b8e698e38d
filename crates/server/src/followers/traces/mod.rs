//! Traces: spans of work that has ended, sent as OTLP in JSON over HTTP.
//!
//! ```text
//!   facts ──▶ ends ──▶ spans (from the history of each) ──▶ POST /v1/traces ──▶ position
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `export` | the follower: the position, retries, and what is dropped |
//! | `spans` | the spans of an instance or a run, from its history |
//! | `otlp` | their encoding |
//! | `settings` | the receiver, and its headers |
//!
//! The leader alone exports. Nothing waits in memory or in a table: the history is the queue, and the stored
//! position says how far it was sent. The ids of spans follow from those of the work (`baton_core::trace`), so
//! what a successor sends again is the same span.

mod export;
mod otlp;
mod settings;
mod spans;

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::{Source, follow};
use crate::metrics::Metrics;

pub use settings::{TraceEndpoint, TraceSettings};

/// Starts the exporter. Without a receiver it only forgets its position, so that old work is not sent when
/// there is one again.
pub(crate) fn start(
    settings: Option<TraceSettings>,
    source: Source,
    metrics: Arc<Metrics>,
) -> JoinHandle<()> {
    let exporter = export::Exporter::new(settings, source.clone(), metrics);
    tokio::spawn(follow(source, exporter))
}
