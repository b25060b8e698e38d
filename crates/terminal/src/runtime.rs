//! tokio runtimes of the commands.
//!
//! Futures are boxed before they are driven: a runtime has three loops (one for each flavour, and one for a thread
//! that only waits), and each would otherwise contain a copy of the whole command.

use std::io;
use std::pin::Pin;

use tokio::runtime::{Builder, Runtime};

/// Drives `future` to its end on a pool of threads.
pub fn on_threads<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(drive(&Runtime::new()?, Box::pin(future)))
}

/// Drives `future` to its end on the current thread.
pub fn on_this_thread<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(drive(&runtime, Box::pin(future)))
}

fn drive<T>(runtime: &Runtime, future: Pin<Box<dyn Future<Output = T> + '_>>) -> T {
    runtime.block_on(future)
}
