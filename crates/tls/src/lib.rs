//! Certificates and keys as Baton uses them, on every side of a connection.
//!
//! Files in, rustls's configurations out, with errors that name the file and the hint. Nothing
//! here opens a socket: that is `server`, `agent` and `client`. Files are read anew by every
//! `load`, so that whoever wants changed files to count calls it again.
//!
//! | module | holds |
//! |---|---|
//! | `error` | why files cannot be used |
//! | `files` | certificates and keys in PEM, checked before anybody relies on them |
//! | [`server`] | the side that listens |
//! | [`client`] | the side that dials |
//! | [`subject`] | whom a certificate names, and until when it is valid |
//! | [`words`] | what went wrong, for people |
//!
//! There is one provider of cryptography in the binary (`docs/decisions/0018-tls.md`), and it is
//! handed over wherever one is needed: none is set for the whole process.

pub mod client;
mod error;
mod files;
pub mod messages;
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
