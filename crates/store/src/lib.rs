//! Durable state of the scheduler: a fenced log of facts and the tables derived from it.
//!
//! ```text
//!   leader ── submit(batch) ──▶ queue ──▶ writer thread ──▶ one transaction, one fsync
//!     ▲                                        │            epoch checked inside
//!     └───────────── receipt, in order ◀───────┘
//!
//!   API, CLI ── page, timeline, counts ──▶ read-only connections, which never block the writer
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`FactLog`] | the contract of the leader: leadership, commits, retention, tokens |
//! | [`Views`] | the contract of readers |
//! | [`Store`] | both; `tests/conformance` runs them against every backend |
//! | `sql` | what the backends share: statements, writer, reads |
//! | [`sqlite`] | the default backend: one file in the data directory |
//! | [`postgres`] | PostgreSQL, for several schedulers |
//! | `body` | JSON encoding of a fact in the history |
//! | `change_set` | row changes derived from facts by the ledger's own rules, for all backends |
//! | [`data_dir`] | the rights of other users in a data directory |
//! | [`facts`] | pages of the whole history, in commit order |
//! | [`followers`] | positions of followers of the history |
//! | [`notices`] | notifications and their deliveries |
//! | `retention` | which history expires, and when |
//! | [`sharing`] | what schedulers that share a store learn from each other |
//! | [`transfer`], [`check`] | copies of a whole store, and checks of it |
//! | `tables` | the tables, as they are copied |
//! | [`secret`] | changes of secrets |
//! | [`token`] | secrets of tokens: generation and hashing |
//! | [`measurements`] | what the last attempts of each task have used |
//! | [`usage`] | resource usage by owner and hour |
//! | [`view`] | queries, records and cursors of readers |
//! | [`limits`] | every bound, with its reason |
//!
//! The store decides nothing: `baton_core::ledger` defines what a fact means, `baton_core::leader`
//! who leads. All calls block; an async driver calls from threads of its own. The store reads no
//! clock: wall time comes with the batch.

mod body;
mod change_set;
pub mod check;
pub mod data_dir;
mod error;
pub mod examine;
mod fact_log;
pub mod facts;
pub mod followers;
pub mod limits;
pub mod measurements;
pub mod notices;
pub mod postgres;
mod retention;
mod schema_version;
pub mod secret;
pub mod sharing;
mod sql;
pub mod sqlite;
mod tables;
pub mod token;
pub mod transfer;
pub mod usage;
pub mod view;

pub use error::StoreError;
pub use fact_log::{CommitCallback, FactLog, Fingerprint, TakeOutcome};
pub use retention::{PruneReport, Retention};
pub use sql::{SnapshotRead, Views};
pub use sqlite::SqliteStore;

/// Both sides of a store. `tests/conformance` checks every guarantee of [`FactLog`] and [`Views`] on
/// every backend.
pub trait Store: FactLog + Views {}

impl<T: FactLog + Views> Store for T {}
