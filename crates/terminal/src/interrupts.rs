//! SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

/// A signal that ends a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// ^C on a terminal.
    Interrupted,
    /// Of a service manager, for example.
    Terminated,
}

/// SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            let failed = |error| Failure::failed(format!("cannot handle signals: {error}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::Interrupted,
            _ = self.terminate.recv() => Interrupt::Terminated,
        }
    }
}
