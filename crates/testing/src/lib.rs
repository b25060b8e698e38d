//! What the tests of several crates share. A dev-dependency only: no shipped binary contains it.
//!
//! | module | holds |
//! |---|---|
//! | `wait` | waiting for a condition, with a timeout for slow machines |
//! | `rng` | random numbers from a seed |
//! | `ca` | a certificate authority that signs for tests (feature `ca`) |
//! | `postgres` | a PostgreSQL server (feature `postgres`) |
//! | `s3` | an S3-compatible server (feature `s3`) |
//! | `slurm` | a Slurm cluster on this host (feature `slurm`) |
//! | `sshd` | an `sshd` of this host, which is two hosts (feature `ssh`) |
//! | `processes` | processes of this host: inspection and signals (feature `cluster`) |
//! | `command` | the built `baton`: commands to their end, servers until they are ready (likewise) |
//! | `cluster` | a scheduler and workers of the built `baton` (likewise) |
//!
//! It depends on no crate of Baton, so that the tests of each of them may use it.

#[cfg(feature = "ca")]
pub mod ca;
#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "cluster")]
pub mod command;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "cluster")]
pub mod processes;
mod rng;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "slurm")]
pub mod slurm;
#[cfg(feature = "ssh")]
pub mod sshd;
mod wait;

pub use rng::{Rng, seed, setting};
pub use wait::{PATIENCE, until, until_at_last, until_some};
