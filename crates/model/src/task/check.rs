//! Readiness and health checks of a process.

use serde::{Deserialize, Serialize};

use super::process::CommandLine;
use crate::time::Millis;

/// One test of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A command that exits with 0.
    Command(CommandLine),
    /// A GET that is answered with a 2xx.
    Http {
        /// On the loopback address.
        port: u16,
        /// With a leading slash.
        path: String,
    },
    /// A port on the loopback address that accepts a connection.
    Tcp { port: u16 },
}

/// A probe with its schedule and its thresholds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    pub probe: Probe,
    /// From the start of the process to the first try.
    pub delay: Millis,
    /// From one try to the next.
    pub interval: Millis,
    /// A try that takes longer has failed.
    pub timeout: Millis,
    /// Consecutive successes before it counts as healthy.
    pub successes_min: u32,
    /// Consecutive failures before it counts as unhealthy.
    pub failures_max: u32,
}
