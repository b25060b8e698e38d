//! TLS files of Baton's servers and clients: certificates and keys.
//!
//! It turns files into rustls configurations, with errors that name the file and a hint. It opens
//! no sockets: `server`, `agent` and `client` do. Every `load` reads the files again, so a caller
//! picks up changed files by calling it again.
//!
//! | module | holds |
//! |---|---|
//! | `error` | errors of TLS files |
//! | `files` | certificates and keys in PEM, validated when they are loaded |
//! | [`server`] | TLS of the listening side |
//! | [`client`] | TLS of the connecting side |
//! | [`peer`] | the certificates that a server presents |
//! | [`subject`] | the subject and the validity of a certificate |
//! | [`messages`] | handshake failures as text with a hint |
//!
//! There is one crypto provider in the binary (`docs/design/security.md`), and it is passed
//! wherever one is needed: no process-wide default is set.

pub mod client;
mod error;
mod files;
pub mod messages;
pub mod peer;
pub mod server;
pub mod subject;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use client::{ClientFiles, Trust};
pub use error::TlsError;
pub use server::ServerFiles;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
